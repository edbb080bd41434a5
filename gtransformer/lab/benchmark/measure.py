"""Runs systems in turn and collects medians."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from gtransformer.lab.benchmark.systems import Setting
from gtransformer.lab.benchmark.worker import OutOfResources, Worker


def alternate(
    settings: Sequence[Setting],
    method: str,
    runs: int,
    seconds: float,
    memory: int | None,
    fresh: bool = False,
    **arguments,
) -> list[dict]:
    """Time ``method`` of every system ``runs`` times, one system after the other in each round.

    The first round is a warm-up and is not counted; with no ``runs`` it is all, for memory alone. With ``fresh`` there
    is only one process at a time: each run has a new one, with a warm-up of its own, so that systems that wait hold no
    memory. A system that runs out of memory or time is left out from then on, and its row says so.

    Returns:
        one dictionary a setting: ``runs`` seconds each, ``seconds`` (median), ``steps_per_second``, runs a second;
        ``tokens`` that a run trains on or decodes, ``tokens_per_second``, ``peak_bytes_per_token`` of these, in
        training ``kept_bytes``, or ``failed``. ``cpu_runs`` are seconds of the processor, ``cpu_seconds`` their median:
        with one thread, what counts where other work runs, too.
    """
    rows = [
        {"setting": asdict(setting), "name": setting.name, "method": method, **arguments, "runs": [], "cpu_runs": []}
        for setting in settings
    ]
    workers: dict[int, Worker] = {}
    try:
        for turn in range(runs + 1):
            for number, setting in enumerate(settings):
                row = rows[number]
                if "failed" in row:
                    continue
                if fresh and not turn and runs:
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
                    say(f"  {setting.name}: {problem}")
                    continue
                if turn:
                    row["runs"].append(round(result["seconds"], 4))
                    row["cpu_runs"].append(round(result["cpu_seconds"], 4))
                row.update(tokens=result["tokens"], peak_bytes=result["peak_bytes"], steps=result.get("steps"))
                row.update({"kept_bytes": result["kept_bytes"]} if "kept_bytes" in result else {})
                say(f"  {method} {setting.tokens} tokens, {setting.name}, run {turn}: {result['seconds']:.2f} s")
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


def say(message: str) -> None:
    """Progress, on stderr."""
    print(message, file=sys.stderr, flush=True)
