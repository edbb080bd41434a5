"""Time systems in turn, each in its own process, so that its peak memory is its own."""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import torch

from gtransformer.errors import UserError
from gtransformer.lab.benchmark.systems import Setting, System
from gtransformer.modules.processor import CPUINFO, onednn_is_faster, processor_fields

# Processor flags that determine the speed of matrix products.
INSTRUCTIONS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16", "amx_int8"),
    *("asimd", "bf16", "i8mm", "sve"),
)
ENVIRONMENT = ("GTRANSFORMER_ONEDNN", "OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "MALLOC_", "GLIBC_TUNABLES")


class OutOfResources(Exception):
    """A system ran out of memory or time; the message says which."""


class Worker:
    """Run methods of a System on request, in another process.

    Args:
        seconds: time limit of a request.
        memory: bytes that the process may use (no limit of address space with a GPU).
    """

    def __init__(self, setting: Setting, seconds: float, memory: int | None = None):
        context = multiprocessing.get_context("spawn")
        self.setting, self.seconds = setting, seconds
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, setting, memory), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, method: str, **arguments) -> dict:
        """Return the result of ``System.method``, with processor seconds and peak memory. Raises OutOfResources."""
        try:
            self.pipe.send((method, arguments))
            if not self.pipe.poll(self.seconds):
                raise OutOfResources(f"more than {self.seconds:.0f} s")
            outcome, value = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise OutOfResources("out of memory (process ended)") from None
        if outcome == "memory":
            raise OutOfResources(f"out of memory ({value})")
        if outcome == "error":
            raise UserError(f"{self.setting.name}: {value}")
        return value

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, setting: Setting, memory: int | None) -> None:
    if memory and setting.device == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    torch.set_num_threads(worker_threads())
    baseline, system = peak_memory(), None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            system = system or System(setting)
            began = time.process_time()
            value = getattr(system, method)(**arguments)
            value["cpu_seconds"] = time.process_time() - began
            gpu = setting.device == "cuda"
            value["peak_bytes"] = torch.cuda.max_memory_allocated() if gpu else peak_memory() - baseline
            pipe.send(("ok", value))
        except Exception as error:  # PyTorch raises RuntimeError, too, when memory is short
            short = isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate" in str(error)
            message = (str(error).splitlines() or [""])[0][:200]
            if not message or not isinstance(error, RuntimeError | UserError):
                message = f"{type(error).__name__} {message}".strip()
            pipe.send(("memory" if short else "error", message))


def worker_threads() -> int:
    """Return the number of a worker's threads: ``OMP_NUM_THREADS`` if set, else all cores that it may use."""
    return int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0] or len(os.sched_getaffinity(0)))


def peak_memory() -> int:
    """Return this process's peak memory in bytes, as Linux reports it (``ru_maxrss`` starts from the parent's)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def alternate(
    settings: Sequence[Setting], method: str, runs: int, seconds: float, memory: int | None, fresh=False, **arguments
) -> list[dict]:
    """Time ``method`` of every system ``runs`` times, one system after the other in each round.

    The first round is a warm-up and is not counted; without ``runs`` it is the only one, for memory. With ``fresh``
    each run has a new process with its own warm-up, so that waiting systems hold no memory. A system that runs out of
    memory or time is left out afterwards, and its row has ``failed``.

    Returns:
        one dictionary per setting: ``runs`` and ``cpu_runs`` (wall and processor seconds of each run) with their
        medians ``seconds`` and ``cpu_seconds``, ``steps_per_second``, ``tokens`` of a run, ``tokens_per_second``,
        ``peak_bytes_per_token``, in training ``kept_bytes``; or ``failed``. With one thread, processor seconds are
        reliable even if other work runs.
    """
    rows = [
        {"setting": asdict(setting), "name": setting.name, "method": method, **arguments, "runs": [], "cpu_runs": []}
        for setting in settings
    ]
    workers: dict[int, Worker] = {}
    try:
        for turn in range(1 if fresh and runs else 0, runs + 1):
            for number, (setting, row) in enumerate(zip(settings, rows, strict=True)):
                if "failed" in row:
                    continue
                try:
                    if number not in workers:
                        workers[number] = Worker(setting, seconds, memory)
                        if fresh and runs:
                            workers[number].call(method, **arguments)
                    result = workers[number].call(method, **arguments)
                except OutOfResources as problem:
                    row["failed"] = str(problem)
                    workers.pop(number).close()
                    print_status(f"  {setting.name}: {problem}")
                    continue
                if turn:
                    row["runs"].append(round(result["seconds"], 4))
                    row["cpu_runs"].append(round(result["cpu_seconds"], 4))
                row |= {key: value for key, value in result.items() if key not in ("seconds", "cpu_seconds")}
                print_status(
                    f"  {method} {setting.tokens} tokens, {setting.name}, run {turn}: {result['seconds']:.2f} s"
                )
                if fresh:
                    workers.pop(number).close()
    finally:
        for worker in workers.values():
            worker.close()
    for row in rows:
        if row["runs"]:
            row["seconds"], row["cpu_seconds"] = median(row["runs"]), median(row["cpu_runs"])
            row["tokens_per_second"] = round(row["tokens"] / row["seconds"], 2)
            row["steps_per_second"] = round(1 / row["seconds"], 4)
            row["peak_bytes_per_token"] = round(row["peak_bytes"] / row["tokens"])
    return rows


def machine(cpuinfo: Path = CPUINFO) -> dict:
    """Return the machine's properties that affect a measurement, for result files.

    ``processor`` (its name), ``vendor``, ``instructions`` (available ones of INSTRUCTIONS), ``cores`` (usable by this
    process), ``threads`` (of a worker), ``libraries`` (lines of PyTorch's build), ``float32_products`` (the library of
    linear layers), ``environment`` (variables that affect these).
    """
    fields = processor_fields(cpuinfo)
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    build = [line.strip(" -\n") for line in torch.__config__.show().splitlines()]
    return {
        "processor": fields.get("model name") or platform.processor() or platform.machine(),
        "vendor": fields.get("vendor_id"),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "cores": len(os.sched_getaffinity(0)),
        "threads": worker_threads(),
        "libraries": [line for line in build if "Library" in line or "MKL-DNN" in line or "capability" in line],
        "float32_products": "oneDNN" if onednn_is_faster() else "PyTorch's BLAS",
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(ENVIRONMENT)},
    }


def print_status(message: str) -> None:
    """Print progress on stderr."""
    print(message, file=sys.stderr, flush=True)
