"""One measurement, in a process of its own, of whatever ``gtransformer`` is found on the path.

Run as a file, ``python -P one_run.py CHECKOUT JSON`` with the checkout in PYTHONPATH. The checkout may be of another
commit than this file, which therefore asks it for ``System``, ``Setting`` and the worker's measures only. See
``commits``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path


def measure(setting: dict, method: str, arguments: dict, seconds: float) -> dict:
    """Call a method of System once to warm up, then again and again until ``seconds`` have passed.

    Returns:
        ``seconds`` and ``cpu_seconds`` of the processor, a call each; ``calls``, ``tokens`` of one of them,
        ``peak_bytes`` of the process since before the model was built.
    """
    import torch

    from gtransformer.benchmark.systems import Setting, System
    from gtransformer.benchmark.worker import peak_memory, worker_threads

    torch.set_num_threads(worker_threads())
    baseline = peak_memory()
    call = getattr(System(Setting(**setting)), method)
    call(**arguments)
    passed, calls = 0.0, 0
    began = time.process_time()
    while not calls or passed < seconds:
        result = call(**arguments)
        passed, calls = passed + result["seconds"], calls + 1
    cpu = time.process_time() - began
    gpu = setting["device"] == "cuda"
    peak = torch.cuda.max_memory_allocated() if gpu else peak_memory() - baseline
    return {
        "seconds": passed / calls,
        "cpu_seconds": cpu / calls,
        "calls": calls,
        "tokens": result["tokens"],
        "peak_bytes": peak,
    }


def main() -> None:
    """Measure what the arguments say (the checkout meant, and JSON), and print the result as a last line of JSON."""
    checkout, task = sys.argv[1:]
    spec = importlib.util.find_spec("gtransformer")
    found = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
    if str(found) != checkout:
        raise SystemExit(f"the package of {found} would be imported in its place")
    print(json.dumps(measure(**json.loads(task))), flush=True)


if __name__ == "__main__":
    main()
