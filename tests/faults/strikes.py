"""What is done to a command, and whether it was survived."""

from __future__ import annotations

import random
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.trial import Ended, Trial, damage
from tests.faults.tried import COMMANDS

# Checkpoints from which a training would go on; a finished one does without.
SPARE = re.compile(r"checkpoint_(last|\d+_\d+)\.pt$")
OWN_TEMPORARY = re.compile(r"\.\d+\.tmp$")  # with the number of the process; fairseq's has none
PAGE = 4096  # bytes; a file system is no smaller
REMOVE = re.compile(r"[^/]*(/[^:]+): .*\bremove (that folder|/[^ ;,]+)")
TRIES = 6  # until a fault hits a command at work


@dataclass(frozen=True)
class Reference:
    """Of a run that nobody disturbed: results, seconds, renames, bytes."""

    results: dict[str, str]
    seconds: float
    renames: int
    size: int

    @property
    def limit(self) -> float:
        """Seconds after which a command hangs."""
        return 120 + 10 * self.seconds


class Missed(Exception):
    """The command was over each time before the fault came; nothing was tried."""


class Lost(Exception):
    """The fault was not survived; why, and what the command said."""

    def __init__(self, why: str, output: str = ""):
        super().__init__(why)
        self.output = output


def strike(kind: str, trial: Trial, reference: Reference, draw: random.Random) -> dict[str, Any]:
    """Do it, give the command again, and compare: ``struck`` (when, where), ``outcome``, ``why``, ``left``.

    outcome: "equal"; "refused", the command said in a sentence what is wrong and, when that was put right, came out
    equal; "lost"; or "missed", which is none that was tried.
    """
    struck: list[str] = []
    try:
        refused = KINDS[kind](trial, reference, draw, struck)
        found = {"outcome": "refused" if refused else "equal", "why": refused or ""}
    except Missed as missed:
        found = {"outcome": "missed", "why": str(missed)}
    except Lost as lost:
        found = {"outcome": "lost", "why": str(lost), "output": lost.output[-3000:]}
    return {"struck": "; ".join(struck), **found, "left": temporary(trial)}


def temporary(trial: Trial) -> list[str]:
    """Names of the temporary files that lie in the output now."""
    return sorted(path.name for path in trial.out.rglob("*") if path.name.endswith(".tmp"))


def interrupted(trial: Trial, reference: Reference, draw: random.Random, struck: list[str], number: int) -> Ended:
    """A run that is signalled somewhere, half of the time between a file's write and its rename.

    SIGKILL ends all of it at once, or its first process alone; others are for its first process.
    """
    at_rename, alone = draw.random() < 0.5 and reference.renames > 0, number != signal.SIGKILL or draw.random() < 0.3
    longest = reference.seconds
    for _ in range(TRIES):
        trial.begin()
        if at_rename:
            rename = draw.randint(1, reference.renames)
            running = trial.start(rename)
            hit, when = trial.wait(running, reference.limit, reached=True), f"before rename {rename}"
        else:
            seconds = draw.uniform(0.02, longest)
            running = trial.start()
            hit, when = trial.wait(running, seconds), f"after {seconds:.2f} s"
        if hit:
            if alone:
                running.process.send_signal(number)
            else:
                trial.strike(number)
        ended = trial.finish(running, reference.limit)
        if hit and ended.status:
            struck.append(f"{signal.Signals(number).name}{' to its first process' if alone else ''} {when}")
            if alone and number == signal.SIGKILL:
                orphans(trial, reference)
            return ended
        longest *= 0.8
    raise Missed(f"not hit in {TRIES} runs")


def orphans(trial: Trial, reference: Reference) -> None:
    """What a killed driver has left at work: given again at once, the command waits, refuses or goes on beside it."""
    if trial.at_work():
        ended = trial.run(reference.limit)
        if fault := ended.fault():
            raise Lost(f"{fault} beside what was left at work", ended.output)
        if ended.status and not ended.error():
            raise Lost("fails without a sentence beside what was left at work", ended.output)
        if not ended.status:
            compare(trial, reference, ended)
    trial.strike(signal.SIGKILL)


def nothing_half(trial: Trial, reference: Reference, ended: Ended) -> None:
    """What a command has been interrupted in must not look like another result than the whole one.

    Only of files that appear under their names when they are whole; the final result is one.
    """
    for name in COMMANDS[trial.name].finals:
        if (trial.out / name).exists() and trial.results().get(name) != reference.results[name]:
            raise Lost(f"{name}: half of it, or another, under its name", ended.output)


def compare(trial: Trial, reference: Reference, ended: Ended, spare: str | None = None) -> None:
    """Lost unless all results are there and the same, but for a ``spare`` one."""
    found = trial.results()
    names = found.keys() | reference.results.keys()
    if other := sorted(name for name in names - {spare} if found.get(name) != reference.results.get(name)):
        kinds = {name: "missing" if name not in found else "other" for name in other}
        kinds |= {name: "too much" for name in found.keys() - reference.results.keys()}
        said = [f"{name} ({kinds[name]})" for name in other]
        raise Lost(f"results differ: {', '.join(said)}", ended.output)


def resume(trial: Trial, reference: Reference) -> Ended:
    """The same command again: it must end well, with the results of a run that nobody disturbed."""
    ended = trial.run(reference.limit)
    if fault := ended.fault():
        raise Lost(f"{fault} when resumed", ended.output)
    if ended.status:
        raise Lost(f"exit status {ended.status} when resumed: {ended.error()}", ended.output)
    compare(trial, reference, ended)
    return ended


def killed(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> None:
    """kill -9."""
    ended = interrupted(trial, reference, draw, struck, signal.SIGKILL)
    nothing_half(trial, reference, ended)
    resume(trial, reference)


def terminated(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> None:
    """SIGTERM: it ends all that it has started, says so, and leaves no temporary file of its own.

    A checkpoint that fairseq-train is writing may stay behind it, under the name that the next one is written to.
    """
    ended = interrupted(trial, reference, draw, struck, signal.SIGTERM)
    if fault := ended.fault():
        raise Lost(f"{fault} on SIGTERM", ended.output)
    if not trial.is_quiet():
        raise Lost("processes left at work behind SIGTERM", ended.output)
    if left := list(filter(OWN_TEMPORARY.search, temporary(trial))):
        raise Lost(f"temporary files left behind SIGTERM: {', '.join(left)}", ended.output)
    nothing_half(trial, reference, ended)
    resume(trial, reference)


def full(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> None:
    """A disk on which there is room for a part of the results: one sentence; when there is room, it goes on."""
    share = 0.97
    for _ in range(TRIES):
        trial.begin()
        size = PAGE * max(1, int(draw.uniform(0.02, share) * reference.size / PAGE))
        trial.small_disk(size)
        ended = trial.run(reference.limit)
        if ended.status:
            break
        compare(trial, reference, ended)  # it fitted all the same
        share *= 0.6
    else:
        raise Missed(f"not hit in {TRIES} runs")
    struck.append(f"a disk of {size} bytes, {size / reference.size:.0%} of the results")
    if fault := ended.fault():
        raise Lost(f"{fault} on a full disk", ended.output)
    if not ended.error():
        raise Lost(f"no sentence on a full disk (exit status {ended.status})", ended.output)
    if not trial.is_quiet():
        raise Lost("processes left at work behind a full disk", ended.output)
    nothing_half(trial, reference, ended)
    trial.make_room()
    resume(trial, reference)


def damaged(trial: Trial, reference: Reference, draw: random.Random, struck: list[str], remove: bool) -> str | None:
    """A file of an interrupted run, or of a finished one, is removed or cut short in between.

    The command may refuse it in a sentence that names it, or the folder it lies in; without that file it must go on.
    """
    if draw.random() < 0.6:
        interrupted(trial, reference, draw, struck, signal.SIGKILL)
    else:
        trial.restore()
        struck.append("finished")
    files = trial.files()
    if not files:  # it had written nothing yet
        resume(trial, reference)
        return None
    path = draw.choice(files)
    name = path.relative_to(trial.out).as_posix()
    struck.append(f"{name} {damage(path, draw, remove)}")
    ended = trial.run(reference.limit)
    if fault := ended.fault():
        raise Lost(f"{fault} when resumed", ended.output)
    if not ended.status:
        compare(trial, reference, ended, name if SPARE.search(name) else None)
        return None
    error = ended.error()
    if not error:
        raise Lost(f"exit status {ended.status} without a sentence", ended.output)
    if not any(part in error for part in (path.name, str(path.parent))):
        raise Lost(f"refused without naming the file: {error}", ended.output)
    put_right(path, error)
    resume(trial, reference)
    return error


def put_right(path: Path, error: str) -> None:
    """As a user would: away with what is damaged, and with the folder that the sentence says to remove."""
    path.unlink(missing_ok=True)
    if found := REMOVE.match(error):
        shutil.rmtree(found[1] if found[2] == "that folder" else found[2])
    if re.search(r"\.part\b", error):
        for name in (path.name.removesuffix(".json"), f"{path.name.removesuffix('.json')}.json"):
            path.with_name(name).unlink(missing_ok=True)


def removed(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> str | None:
    """A file is gone."""
    return damaged(trial, reference, draw, struck, remove=True)


def cut(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> str | None:
    """A file is cut short."""
    return damaged(trial, reference, draw, struck, remove=False)


def twice(trial: Trial, reference: Reference, draw: random.Random, struck: list[str]) -> None:
    """Two at once in one folder: each ends well or says in a sentence that the other is there."""
    trial.begin()
    first = trial.start()
    seconds = draw.uniform(0, reference.seconds / 2)
    trial.wait(first, seconds)
    second = trial.start()
    struck.append(f"a second one after {seconds:.2f} s")
    ends = [trial.finish(running, 2 * reference.limit) for running in (first, second)]
    for ended in ends:
        if fault := ended.fault():
            raise Lost(f"{fault}, two at once", ended.output)
        if ended.status and not ended.error():
            raise Lost(f"exit status {ended.status} without a sentence, two at once", ended.output)
    if all(ended.status for ended in ends):
        raise Lost("each of two at once failed", "\n".join(ended.output[-1500:] for ended in ends))
    compare(trial, reference, ends[0])
    resume(trial, reference)


KINDS = {"kill": killed, "term": terminated, "full": full, "removed": removed, "cut": cut, "twice": twice}
