"""A system in a process of its own, so that its peak memory is its own and it waits while another is timed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from dataclasses import asdict
from multiprocessing.connection import Connection

from gtransformer.files import process_memory
from gtransformer.lab.benchmark.systems import Setting


class OutOfResources(Exception):
    """A system ran out of memory or time; the message says of which."""


class Worker:
    """Runs methods of a System on request.

    Args:
        setting: what to build.
        seconds: longest time for one request.
        memory: bytes that the process may use (address space is not limited where a GPU is used).
    """

    def __init__(self, setting: Setting, seconds: float, memory: int | None = None):
        context = multiprocessing.get_context("spawn")
        self.setting, self.seconds = setting, seconds
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, asdict(setting), memory), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, method: str, **arguments):
        """The result of ``System.method``; raises OutOfResources."""
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
            raise RuntimeError(f"{self.setting.name}: {value}")
        return value

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def worker_threads() -> int:
    """Threads that a worker computes with: all cores it may use, unless ``OMP_NUM_THREADS`` says otherwise."""
    return int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0] or len(os.sched_getaffinity(0)))


def peak_memory() -> int:
    """Most bytes that this process has had in memory."""
    return process_memory("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _serve(pipe: Connection, setting: dict, memory: int | None) -> None:
    import torch

    from gtransformer.lab.benchmark.systems import System

    if memory and setting["device"] == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    torch.set_num_threads(worker_threads())
    baseline = peak_memory()
    system = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            system = system or System(Setting(**setting))
            began = time.process_time()
            value = getattr(system, method)(**arguments)
            value["cpu_seconds"] = time.process_time() - began
            if setting["device"] == "cuda":
                value["peak_bytes"] = torch.cuda.max_memory_allocated()
            else:
                value["peak_bytes"] = peak_memory() - baseline
            pipe.send(("ok", value))
        except (MemoryError, torch.OutOfMemoryError) as error:
            pipe.send(("memory", str(error).splitlines()[0] if str(error) else "MemoryError"))
        except RuntimeError as error:
            kind = "memory" if "allocate" in str(error) else "error"
            pipe.send((kind, str(error).splitlines()[0][:200]))
