"""Two checkouts of the package measured in turn: has a change made training or decoding slower?

The old one is measured twice in every round, so that what it differs from itself stands beside what the new one differs
from it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from gtransformer.errors import UserError
from gtransformer.lab.benchmark.measure import say
from gtransformer.lab.benchmark.systems import Setting

PROGRAM = Path(__file__).resolve().with_name("one_run.py")
TURNS = ("old", "new", "old again")
ALLOWED = 0.05  # slower by so much, or by what the old checkout differs from itself, is not slower


@dataclass(frozen=True)
class Case:
    """What is measured: a training step on documents of some tokens, or decoding (``method``, as of one_run)."""

    method: str
    documents: int
    tokens: int

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{'train' if self.method == 'train_step' else self.method} {self.documents} x {self.tokens}"


def read_cases(text: str, method: str) -> list[Case]:
    """The cases of ``1x512,16x2048`` (documents x tokens); none of an empty text. Raises UserError."""
    cases = []
    for part in filter(None, text.split(",")):
        numbers = part.split("x")
        if len(numbers) != 2 or not all(number.isdecimal() and int(number) for number in numbers):
            raise UserError(f"'{part}' is no case; write DOCUMENTSxTOKENS, as in 16x512")
        cases.append(Case(method, *map(int, numbers)))
    return cases


def check_checkout(path: Path) -> Path:
    """The absolute path of a folder with the package in it; UserError if it has none that can be measured."""
    if not (path / "gtransformer" / "benchmark" / "systems.py").is_file():
        raise UserError(f"{path}: no checkout of this package (gtransformer/lab/benchmark/systems.py); give its folder")
    return path.resolve()


def run_once(checkout: Path, setting: Setting, case: Case, beam: int, least: float, limit: float) -> dict:
    """One measurement of a checkout (``one_run.measure``) in a new process of this interpreter.

    Raises UserError if it fails or takes more than ``limit`` seconds.
    """
    arguments = {"documents": case.documents, "beam": beam} if case.method == "decode" else {}
    task = {"setting": asdict(setting), "method": case.method, "arguments": arguments, "seconds": least}
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", str(PROGRAM), str(checkout), json.dumps(task)]
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise UserError(f"{case.name}: {checkout} takes more than {limit:.0f} s; allow more with --seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}, as when memory is short"])[-1]
        raise UserError(f"{case.name}: {checkout} cannot be measured ({last})")
    return json.loads(done.stdout.splitlines()[-1])


def compare(
    checkouts: Sequence[Path], setting: Setting, case: Case, runs: int, beam: int, least: float, limit: float
) -> dict:
    """A case measured ``runs`` times in each of TURNS; ``checkouts``: old, new."""
    folders = dict(zip(TURNS, (checkouts[0], checkouts[1], checkouts[0]), strict=True))
    results: dict[str, list[dict]] = {turn: [] for turn in TURNS}
    for run in range(runs):
        for turn, checkout in folders.items():
            result = run_once(checkout, setting, case, beam, least, limit)
            results[turn].append(result)
            say(f"  {case.name}, run {run + 1} of {runs}, {turn}: {result['seconds']:.3f} s ({result['calls']} calls)")
    named = {"case": case.name, "method": case.method, "documents": case.documents, "setting": asdict(setting)}
    return named | summary(results)


def summary(results: dict[str, list[dict]]) -> dict:
    """Medians of a case, and their ratios to the old checkout's first.

    Returns:
        ``tokens`` that a call trains on or decodes; by turn ``runs`` and ``cpu_runs`` (seconds a call), ``seconds``
        (median), ``tokens_per_second`` and ``peak_bytes`` (median); ``ratios``, ``cpu_ratios`` and ``memory_ratios`` of
        the other turns; ``spread`` of all runs of the old checkout, (longest - shortest) / median; ``allowed``, and
        whether the new one is ``within``.
    """
    row: dict = {}
    for key, source in (("runs", "seconds"), ("cpu_runs", "cpu_seconds")):
        row[key] = {turn: [round(one[source], 5) for one in found] for turn, found in results.items()}
    row["seconds"] = {turn: median(runs) for turn, runs in row["runs"].items()}
    cpu = {turn: median(runs) for turn, runs in row["cpu_runs"].items()}
    row["tokens"] = results["old"][0]["tokens"]
    row["tokens_per_second"] = {
        turn: round(found[0]["tokens"] / row["seconds"][turn], 2) for turn, found in results.items()
    }
    row["peak_bytes"] = {turn: int(median(one["peak_bytes"] for one in found)) for turn, found in results.items()}
    tables = {"ratios": row["seconds"], "cpu_ratios": cpu, "memory_ratios": row["peak_bytes"]}
    for name, values in tables.items():
        row[name] = {turn: round(values[turn] / max(values["old"], 1e-9), 4) for turn in TURNS[1:]}
    old = [seconds for turn in ("old", "old again") for seconds in row["runs"][turn]]
    row["spread"] = round((max(old) - min(old)) / median(old), 4)
    row["allowed"] = max(ALLOWED, round(abs(row["ratios"]["old again"] - 1), 4))
    row["within"] = row["ratios"]["new"] <= 1 + row["allowed"]
    return row


def table(rows: Sequence[dict]) -> str:
    """The cases, a line each: seconds, ratios of seconds (also of the processor) and memory, and the verdict.

    ``new/old``, ``CPU`` and ``memory`` are of the new checkout to the old one, ``old/old`` of the old one to itself.
    """
    lines = [
        f"{'case':<18} {'old s':>9} {'new s':>9} {'new/old':>8} {'old/old':>8} {'spread':>7} {'CPU':>7} {'memory':>7}"
    ]
    for row in rows:
        seconds, ratios = row["seconds"], row["ratios"]
        lines.append(
            f"{row['case']:<18} {seconds['old']:>9.3f} {seconds['new']:>9.3f} {ratios['new']:>8.3f} "
            f"{ratios['old again']:>8.3f} {100 * row['spread']:>5.1f} % "
            f"{row['cpu_ratios']['new']:>7.3f} {row['memory_ratios']['new']:>7.3f} "
            f"{'within' if row['within'] else 'SLOWER':>7} {100 * row['allowed']:.1f} %"
        )
    return "\n".join(lines)
