"""Measure training and decoding of two checkouts in turn, to find slower changes.

``gtransformer lab benchmark-commits OLD [NEW]``. The old checkout is measured twice in every round, to compare its own
variation with the new one's difference. Each run is this file in its own process, with one checkout on the path. It
uses only the checkout's ``System``, ``Setting`` and memory measures.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from statistics import median

TURNS = ("old", "new", "old again")
ALLOWED = 0.05  # tolerated slowdown; the old checkout's own variation is tolerated, too
PACKAGES = ("gtransformer.lab.benchmark", "gtransformer.benchmark")  # current and former path


def measure(setting: dict, method: str, arguments: dict, seconds: float) -> dict:
    """Call a method of System: once to warm up, then until ``seconds`` have passed.

    Keys of ``setting`` that the checkout does not have are left out, as they concern newer systems.

    Returns:
        ``seconds`` and ``cpu_seconds`` (processor) per call; number of ``calls``; ``tokens`` per call; ``peak_bytes``
        of the process, including building the model.
    """
    import torch

    systems, memory = _module("systems"), _module("worker", "measure")
    torch.set_num_threads(memory.worker_threads())
    baseline = memory.peak_memory()
    known = {field.name for field in fields(systems.Setting)}
    system = systems.System(systems.Setting(**{name: value for name, value in setting.items() if name in known}))
    call = partial(getattr(system, method), **arguments)
    call()
    passed, calls, began = 0.0, 0, time.process_time()
    while not calls or passed < seconds:
        result = call()
        passed, calls = passed + result["seconds"], calls + 1
    cpu, gpu = time.process_time() - began, setting["device"] == "cuda"
    return {
        "seconds": passed / calls,
        "cpu_seconds": cpu / calls,
        "calls": calls,
        "tokens": result["tokens"],
        "peak_bytes": torch.cuda.max_memory_allocated() if gpu else memory.peak_memory() - baseline,
    }


def _module(*names: str):
    """Import a module of the benchmark from its current or former path.

    It is imported by file, as an installed checkout could otherwise be found instead.
    """
    checkout = Path(importlib.import_module("gtransformer").__file__).parents[1]
    modules = [f"{package}.{name}" for package in PACKAGES for name in names]
    there = [module for module in modules if (checkout / f"{module.replace('.', '/')}.py").is_file()]
    if not there:
        raise ImportError(f"no benchmark in this checkout ({', '.join(PACKAGES)})")
    return importlib.import_module(there[0])


def run_apart(checkout: Path, task: dict, limit: float) -> dict:
    """Return ``measure`` of a checkout in a new process. Raises UserError if it fails or exceeds ``limit`` s."""
    from gtransformer.errors import UserError

    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", __file__, "--measure", str(checkout), json.dumps(task)]
    try:
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{checkout} takes more than {limit:.0f} s; allow more with --seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}, as when memory is short"])[-1]
        raise UserError(f"{checkout} cannot be measured ({last})")
    return json.loads(done.stdout.splitlines()[-1])


def summary(results: dict[str, list[dict]]) -> dict:
    """Return medians of a case, and their ratios to the old checkout's first turn.

    ``tokens`` per call; by turn ``runs`` and ``cpu_runs`` (seconds per call), ``seconds`` (median),
    ``tokens_per_second`` and ``peak_bytes`` (median); ``ratios``, ``cpu_ratios`` and ``memory_ratios`` of the other
    turns; ``spread`` of all runs of the old checkout, (longest - shortest) / median; ``allowed``, and whether the new
    one is ``within``.
    """
    runs, cpu_runs, memory = (
        {turn: [round(one[key], 5) for one in found] for turn, found in results.items()}
        for key in ("seconds", "cpu_seconds", "peak_bytes")
    )
    medians = [{turn: median(found) for turn, found in kind.items()} for kind in (runs, cpu_runs, memory)]
    ratios, cpu_ratios, memory_ratios = (
        {turn: round(kind[turn] / max(kind["old"], 1e-9), 4) for turn in TURNS[1:]} for kind in medians
    )
    old, tokens = [*runs["old"], *runs["old again"]], results["old"][0]["tokens"]
    allowed = max(ALLOWED, round(abs(ratios["old again"] - 1), 4))
    speeds = {turn: round(found[0]["tokens"] / medians[0][turn], 2) for turn, found in results.items()}
    return {
        "runs": runs, "cpu_runs": cpu_runs, "seconds": medians[0], "tokens": tokens, "tokens_per_second": speeds,
        "peak_bytes": medians[2], "ratios": ratios, "cpu_ratios": cpu_ratios, "memory_ratios": memory_ratios,
        "spread": round((max(old) - min(old)) / median(old), 4), "allowed": allowed,
        "within": ratios["new"] <= 1 + allowed,
    }  # fmt: skip


def line(row: dict) -> str:
    """Format a case: seconds, ratios new/old and old/old, and the verdict."""
    ratios = f"new/old {row['ratios']['new']:.3f}, old/old {row['ratios']['old again']:.3f}"
    more = f"CPU {row['cpu_ratios']['new']:.3f}, memory {row['memory_ratios']['new']:.3f}"
    verdict = f"{'within' if row['within'] else 'SLOWER'} {100 * row['allowed']:.1f} %"
    seconds = f"{row['seconds']['old']:.3f} s, {row['seconds']['new']:.3f} s"
    return f"{row['case']:<18} {seconds}, {ratios}, {more}, spread {100 * row['spread']:.1f} %: {verdict}"


def cases(text: str) -> list[tuple[int, int]]:
    """Return parsed cases, ``1x512,16x2048`` (documents x tokens); used as an option type."""
    found = [tuple(map(int, part.split("x"))) for part in filter(None, text.split(","))]
    if not all(len(case) == 2 and min(case) > 0 for case in found):
        raise ValueError
    return found


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = argparse.ArgumentParser(prog="gtransformer lab benchmark-commits", description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parents[3]
    parser.add_argument("old", type=Path, help="folder of the old checkout (git worktree add FOLDER COMMIT)")
    parser.add_argument("new", type=Path, nargs="?", default=here, help="folder of the new checkout (default: this)")
    parser.add_argument("--output", type=Path, default=Path("exp_logs/benchmark/commits.json"), help="(%(default)s)")
    for name, default, about in (
        ("--train", "1x512,16x512,1x2048,16x2048", "documents x tokens trained on; '' for none"),
        ("--decode", "1x2048,16x128", "documents x tokens decoded at once"),
    ):
        parser.add_argument(name, type=cases, default=default, help=f"{about} ('%(default)s')", metavar="DxT,...")
    parser.add_argument("--arch", default="gtransformer_base", help="sizes (%(default)s)")
    parser.add_argument("--vocabulary", type=int, default=32000, help="entries of the dictionary (%(default)s)")
    parser.add_argument("--sentence", type=int, default=30, help="tokens per sentence (%(default)s)")
    parser.add_argument("--context", type=int, default=2, help="top layers with combined attention (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="in training (%(default)s)")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--engine", default="packed", choices=("packed", "dense"), help="(%(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each case in each turn (%(default)s)")
    parser.add_argument("--least", type=float, default=3, help="seconds of a run; short calls repeat (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1800, help="time limit of one run (%(default)s)")
    return parser


def compare(options: argparse.Namespace, argv: Sequence[str] | None) -> None:
    """Measure every case in each of TURNS and print ratios of medians. Results are written after every case."""
    import torch

    from gtransformer.errors import UserError, check_counts
    from gtransformer.evaluation.provenance import current_commit, device_name, provenance
    from gtransformer.files import write_json
    from gtransformer.lab.benchmark.measure import machine, print_status

    old, new = options.old.resolve(), options.new.resolve()
    check_counts(options, "runs")
    for path in (old, new):
        if not any((path / package.replace(".", "/") / "systems.py").is_file() for package in PACKAGES):
            raise UserError(f"{path}: not a checkout of this package (gtransformer/lab/benchmark); give its folder")
    results = {
        "device": device_name(),
        "machine": machine(),
        "commits": {"old": current_commit(old), "new": current_commit(new)},
        "rows": [],
        **provenance("lab benchmark-commits", argv),
    }
    shared = ("arch", "vocabulary", "sentence", "context", "dropout", "precision")
    same = {name: getattr(options, name) for name in shared}
    same |= {"system": options.engine, "device": "cuda" if torch.cuda.is_available() else "cpu"}
    for option, method in (("train", "train_step"), ("decode", "decode")):
        for documents, tokens in getattr(options, option):
            setting = {**same, "tokens": tokens, "batch_tokens": documents * tokens}
            arguments = {"documents": documents, "beam": options.beam} if method == "decode" else {}
            task = {"setting": setting, "method": method, "arguments": arguments, "seconds": options.least}
            name, found = f"{option} {documents} x {tokens}", {turn: [] for turn in TURNS}
            for run in range(options.runs):
                for turn, checkout in zip(TURNS, (old, new, old), strict=True):
                    result = run_apart(checkout, task, options.seconds)
                    found[turn].append(result)
                    print_status(f"  {name}, run {run + 1} of {options.runs}, {turn}: {result['seconds']:.3f} s")
            row = {"case": name, "method": method, "documents": documents, "setting": setting, **summary(found)}
            results["rows"].append(row)
            write_json(options.output, results)
            print(line(row), flush=True)
    if not results["rows"]:
        raise UserError("nothing to measure; give cases with --train or --decode")


def main(argv: list[str] | None = None) -> int:
    """Run the command; user errors are printed in one line."""
    from gtransformer.errors import cli_main

    return cli_main(lambda given: compare(build_parser().parse_args(given), given))(argv)


def measure_here(checkout: str, task: str) -> None:
    """Measure the given checkout in this process, and print the result as JSON in the last line."""
    spec = importlib.util.find_spec("gtransformer")
    found = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
    if str(found) != checkout:
        # Without __init__.py Python prefers a package that is later on the path.
        raise SystemExit(f"the package of {found} would be imported in its place")
    print(json.dumps(measure(**json.loads(task))), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure_here(*sys.argv[2:])
    else:
        raise SystemExit(main())
