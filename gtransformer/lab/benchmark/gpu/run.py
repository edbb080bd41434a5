"""Runs parts one after the other, each in its time, and records each; what is done is not done again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.lab.benchmark.gpu.parts import PARTS, ROOT, Check, Part

DONE, FAILED, LATE, NOT_RUN = "done", "failed", "out of time", "not run"
TOGETHER = "gpu_check.json"
TAIL = 4000  # characters of output that a record keeps


def choose(names: list[str]) -> list[Part]:
    """Parts by name, in the order of PARTS; all of no names. Raises UserError for others."""
    known = {part.name: part for part in PARTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"{unknown[0]}: no such part; choose of {', '.join(known)}")
    return [part for part in PARTS if not names or part.name in names]


def read_records(output: Path) -> dict[str, dict]:
    """What was recorded of each part, in files of its own or together."""
    together = read_json(output / TOGETHER)["parts"] if (output / TOGETHER).is_file() else {}
    own = {part.name: output / f"{part.name}.json" for part in PARTS}
    return together | {name: read_json(path) for name, path in own.items() if path.is_file()}


def state_of(record: dict | None, check: Check) -> str:
    """Of one kind: what was rehearsed is not done."""
    if record is None or record["rehearsal"] != check.rehearsal:
        return NOT_RUN
    return record["state"]


def run_parts(parts: list[Part], check: Check, output: Path, about: dict, seconds: float | None = None) -> list[str]:
    """Run what is not done of the parts; past failures it goes on.

    Args:
        about: what stands in every record: machine, commit, versions.
        seconds: no part is begun whose own limit would end behind so many from now on.

    Returns:
        the names of parts that are not done.
    """
    began = time.monotonic()
    check.work.mkdir(parents=True, exist_ok=True)
    for part in parts:
        records = read_records(output)
        if not _wanted(part, parts, records, check):
            print(f"{part.name}: done before", flush=True)
            continue
        left = None if seconds is None else seconds - (time.monotonic() - began)
        if left is not None and left < check.limit(part):
            print(
                f"{part.name}: needs {check.limit(part)} s, {left:.0f} s are left; give the command again", flush=True
            )
            continue
        known = {one.name: one for one in PARTS}
        missing = [_lacking(known[name], records, check) for name in part.needs]
        missing = [words for words in missing if words]
        print(f"{part.name}: {part.about} (at most {check.limit(part)} s)", flush=True)
        record = _not_begun(part, check, missing) or _run(part, check)
        records[part.name] = {"part": part.name, "about": part.about, "rehearsal": check.rehearsal, **record, **about}
        write_json(output / f"{part.name}.json", records[part.name])
        write_json(output / TOGETHER, {"rehearsal": check.rehearsal, "parts": records})
        print(f"{part.name}: {record['state']}{': ' + record['error'] if record['error'] else ''}", flush=True)
    records = read_records(output)
    return [part.name for part in parts if state_of(records.get(part.name), check) != DONE]


def _lacking(part: Part, records: dict[str, dict], check: Check) -> str | None:
    """Why a part cannot be built on, in words; it may be done by its record alone, which is of another machine."""
    if state_of(records.get(part.name), check) != DONE:
        return f"{part.name}, which is not done"
    if all(path.exists() for path in part.outputs(check)):
        return None
    return f"{part.name}, whose output is not there; run it, too"


def _wanted(part: Part, parts: list[Part], records: dict[str, dict], check: Check) -> bool:
    """Whether a part is to be run: it is not done, or its output is gone and one is to be run that needs it."""
    if state_of(records.get(part.name), check) != DONE:
        return True
    behind = (other for other in parts if part.name in other.needs)
    return bool(_lacking(part, records, check)) and any(_wanted(other, parts, records, check) for other in behind)


def _not_begun(part: Part, check: Check, missing: list[str]) -> dict | None:
    """The record of a part that cannot be begun."""
    problem = None
    if missing:
        problem = f"needs {missing[0]}"
    elif part.trains and check.corpus is None and check.prepared is None and not check.small:
        problem = "needs --corpus or --prepared"
    return problem and {"state": FAILED, "error": problem, "commands": [], "seconds": 0.0, "figures": {}}


def _run(part: Part, check: Check) -> dict:
    commands, log, limit = part.commands(check), check.work / f"{part.name}.log", check.limit(part)
    began, state, error = time.monotonic(), DONE, None
    with open(log, "wb") as stream:
        for command in commands:
            status = _within(command, stream, limit - (time.monotonic() - began), check)
            if status:
                state, error = (LATE, f"more than {limit} s") if status == LATE else (FAILED, None)
                break
    output = log.read_text(encoding="utf-8", errors="replace")
    try:
        figures = part.figures(check, output)
    except (UserError, LookupError, ValueError) as problem:  # of what was not written to its end
        figures, error = {}, error or str(problem)
        state = FAILED if state == DONE else state
    if state == FAILED:
        said = [line for line in output.splitlines() if line.strip()]
        error = next((line for line in reversed(said) if "error" in line.lower()), error or (said or ["no output"])[-1])
    return {
        "state": state,
        "error": error and error[:1000],
        "commands": [_shown(command, check) for command in commands],
        "seconds": round(time.monotonic() - began, 1),
        "limit": limit,
        "figures": figures,
        "output_tail": "" if state == DONE else output[-TAIL:],
    }


def _shown(command: list[str], check: Check) -> str:
    """A command as a record has it: nothing in it is of this machine alone, but where a corpus lies."""
    return shlex.join(["python", *command[1:]]).replace(str(check.work), "WORK").replace(f"{ROOT}/", "")


def _within(command: list[str], stream, seconds: float, check: Check) -> int | str:
    """The exit status of a command, or LATE; nothing that it has started is left."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    environment |= {"CUDA_VISIBLE_DEVICES": ""} if check.device == "cpu" else {}
    process = subprocess.Popen(
        command, stdout=stream, stderr=subprocess.STDOUT, env=environment, cwd=ROOT, start_new_session=True
    )
    try:
        return process.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        return LATE
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
