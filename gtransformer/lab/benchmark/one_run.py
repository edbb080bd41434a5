"""One measurement, in a process of its own, of whatever ``gtransformer`` is found on the path.

Run as a file, ``python -P one_run.py CHECKOUT JSON`` with the checkout in PYTHONPATH. The checkout may be of another
commit than this file, which therefore asks it for ``System``, ``Setting`` and the worker's measures only. See
``commits``.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

PASSES = "passes"  # what of a training step is the same in all commits
VARIED = "varied"  # the same with documents of other lengths in every call, so that shapes change as in a training


def measure(setting: dict, method: str, arguments: dict, seconds: float) -> dict:
    """Call a method of System, PASSES or VARIED, once to warm up, then again and again until ``seconds`` have passed.

    Of ``setting``, what the checkout does not know yet is left out: it concerns systems that it has not.

    Returns:
        ``seconds`` and ``cpu_seconds`` of the processor, a call each; ``calls``, ``tokens`` of one of them,
        ``peak_bytes`` of the process since before the model was built.
    """
    import torch

    from gtransformer.lab.benchmark.systems import Setting, System
    from gtransformer.lab.benchmark.worker import peak_memory, worker_threads

    torch.set_num_threads(worker_threads())
    baseline = peak_memory()
    known = {field.name for field in fields(Setting)}
    system = System(Setting(**{name: value for name, value in setting.items() if name in known}))
    ours = {PASSES: partial(_passes, system), VARIED: partial(_varied, system, random.Random(1))}
    call = ours.get(method) or partial(getattr(system, method), **arguments)
    warm_up = system.train_step if method in ours else call  # the step makes batch and criterion
    warm_up()
    passed, calls = 0.0, 0
    began = time.process_time()
    while not calls or passed < seconds:
        result = call()
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


def _passes(system) -> dict:
    """Loss and backward pass of a training step, without what the optimizer does; seconds, and target tokens."""
    from gtransformer.lab.benchmark.systems import now

    began = now(system.setting.device)
    loss, _, _ = system.criterion(system.model, system.batch)
    system.model.zero_grad()
    loss.backward()
    return {"seconds": now(system.setting.device) - began, "tokens": system.batch["ntokens"]}


def _varied(system, draw: random.Random) -> dict:
    """``_passes`` of two batches, documents of one as much shorter, up to a fifth, as those of the other are longer.

    The draws are the same in every process. Seconds of the processor count the making of the batches, too.
    """
    setting, shift = system.setting, draw.uniform(-0.2, 0.2)
    results = []
    for times in (1 - shift, 1 + shift):
        system.setting = replace(setting, tokens=round(setting.tokens * times))
        system.batch = system._batch(setting.documents)
        results.append(_passes(system))
    system.setting = setting
    return {key: sum(result[key] for result in results) for key in ("seconds", "tokens")}


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
