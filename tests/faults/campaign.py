"""A campaign of faults: commands are killed, starved of disk, robbed of files, doubled, and must come out the same.

``python -m tests.faults.campaign --minutes 60 --seed 1 --output FILE.json``. Every fault is drawn from the seed: a
command, what is done to it, and when. Then the same command is given again, and its results are compared, bit for bit,
with those of a run that nothing disturbed. FILE.json is written after every fault. docs/lab/faults.md says what
counts as survived.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.files import write_json
from tests.faults.strikes import KINDS, Reference, strike
from tests.faults.trial import Trial, can_mount
from tests.faults.tried import COMMANDS

FIRST_LIMIT = 1200.0  # seconds for a run that nobody disturbs


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, metavar="M", help="begin none after these (%(default)s)")
    parser.add_argument("--faults", type=int, default=100, metavar="N", help="so many in all (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, other faults (%(default)s)")
    parser.add_argument("--commands", default=",".join(COMMANDS), metavar="A,B", help="which (%(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="A,B", help="what is done to them (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many commands at a time (%(default)s)")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to work (default: a temporary folder)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the figures")
    return parser


def chosen(text: str, known: Any, option: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"{option} {text}: '{unknown[0]}' is none of {', '.join(known)}")
    return names


def kind_of(kinds: list[str], seed: int, number: int) -> str:
    """Each kind once in every round of faults, in an order drawn again."""
    order = list(kinds)
    random.Random(f"{seed}, round {number // len(kinds)}").shuffle(order)
    return order[number % len(kinds)]


def summary(faults: list[dict[str, Any]]) -> dict[str, Any]:
    """Tried, survived and lost: by kind and by command, and in all."""

    def counted(some: list[dict[str, Any]]) -> dict[str, int]:
        outcomes = Counter(fault["outcome"] for fault in some)
        lost, tried = outcomes["lost"], len(some) - outcomes["missed"]
        return {"tried": tried, "survived": tried - lost, "of these refused": outcomes["refused"], "lost": lost}

    names = {key: sorted({fault[key] for fault in faults}) for key in ("kind", "command")}
    by = {key: {name: counted([one for one in faults if one[key] == name]) for name in names[key]} for key in names}
    return {"all": counted(faults), "by_kind": by["kind"], "by_command": by["command"]}


def undisturbed(trial: Trial) -> Reference:
    """Two runs that nobody disturbs: what must come out, and that it is the same each time."""
    found = []
    for _ in range(2):
        trial.begin()
        ended = trial.run(FIRST_LIMIT)
        if ended.status or ended.fault():
            raise UserError(f"{trial.name}: fails undisturbed: {ended.output[-2000:]}")
        found.append((trial.results(), ended.seconds))
    (first, _), (second, seconds) = found
    if first != second or not first:
        other = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
        raise UserError(f"{trial.name}: two undisturbed runs differ in {', '.join(sorted(other)) or 'nothing'}")
    trial.keep()
    return Reference(first, seconds, trial.counter.stat().st_size, trial.size())


class Campaign:
    """Faults by number, each command's one after the other, several commands at a time."""

    def __init__(self, options: argparse.Namespace, commands: list[str], kinds: list[str], figures: dict[str, Any]):
        self.options, self.commands, self.kinds, self.figures = options, commands, kinds, figures
        self.end = time.monotonic() + 60 * options.minutes
        self.lock, self.stopped = threading.Lock(), False

    def run(self, work: Path) -> None:
        """Try all, until no time is left."""
        wanted: dict[str, list[tuple[int, random.Random]]] = {}
        for number in range(self.options.faults):
            draw = random.Random(f"{self.options.seed} {number}")
            name = draw.choices(self.commands, [COMMANDS[one].share for one in self.commands])[0]
            wanted.setdefault(name, []).append((number, draw))
        trials = [Trial(name, work) for name in wanted]  # makes what they read
        pool = ThreadPoolExecutor(self.options.jobs)
        try:
            for over in [pool.submit(self.try_all, trial, wanted[trial.name]) for trial in trials]:
                over.result()
        finally:
            self.stopped = True
            for trial in trials:
                trial.close()
            pool.shutdown(cancel_futures=True)

    def try_all(self, trial: Trial, wanted: list[tuple[int, random.Random]]) -> None:
        """The faults of one command."""
        if self.is_over():
            return
        reference = undisturbed(trial)
        print(f"{trial.name}: {reference.seconds:.1f} s undisturbed", flush=True)
        for number, draw in wanted:
            if self.is_over():
                return
            kind = kind_of(self.kinds, self.options.seed, number)
            began = time.monotonic()
            outcome = strike(kind, trial, reference, draw)
            trial.release()
            fault = {"number": number, "command": trial.name, "kind": kind, **outcome}
            self.note(fault | {"seconds": round(time.monotonic() - began, 1)})

    def is_over(self) -> bool:
        return self.stopped or time.monotonic() > self.end

    def note(self, fault: dict[str, Any]) -> None:
        """Into the figures, unless the campaign itself was ended meanwhile, and the fault with it."""
        with self.lock:
            if not self.stopped:
                print("{number}: {command}, {kind}, {struck}: {outcome} {why}".format(**fault), flush=True)
                self.figures["faults"] = sorted([*self.figures["faults"], fault], key=lambda one: one["number"])
                write_json(self.options.output, self.figures | {"summary": summary(self.figures["faults"])})


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Try faults until there are enough, or no time is left; status 1 if one was not survived."""
    options = build_parser().parse_args(argv)
    commands = chosen(options.commands, COMMANDS, "--commands")
    kinds = chosen(options.kinds, KINDS, "--kinds")
    figures = {"seed": options.seed, "commands": commands, "kinds": kinds, "faults": []}
    figures |= provenance("python -m tests.faults.campaign", argv)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        work = (options.work or Path(folder)).resolve()
        if "full" in kinds and not can_mount(work):
            print("full: left out, this user may not mount a small file system")
            kinds = [kind for kind in kinds if kind != "full"]
        Campaign(options, commands, kinds, figures).run(work)
    totals = summary(figures["faults"])
    print(f"seed {options.seed}: {totals['all']}")
    return 1 if totals["all"]["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
