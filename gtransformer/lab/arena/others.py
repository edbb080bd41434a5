"""Add systems of other arenas with the same settings to the result of this one (``--other-results``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json

# Settings that must be equal to compare systems of two arenas, and their options.
COMMON_SETTINGS = {
    "corpus": "CORPUS, --documents, --dev-documents, --test-documents and --items",
    "seeds": "--seeds",
    "updates": "--updates",
    "start": "--start-updates and --from",
    "baseline": "nothing",
    "changes": "--set",
}
BUDGETS = {"minutes": "--minutes", "tokens": "--tokens"}  # the same, present only as the budget
# With a budget in minutes these must be equal, too.
SPEED_SETTINGS = {"machine": "the machine", "jobs": "--jobs", "threads": "--jobs and OMP_NUM_THREADS"}
_ORIGIN_KEYS = ("command", "commit", "commits", "date", "machine", "files")  # origin of the systems
ITEMS_FILE, TEST_FILES, START_PARAMETERS = (
    "items",
    "test",
    "start",
)  # keys of ``files``


def read_others(
    paths: Sequence[Path], terms: Mapping[str, Any], systems: Sequence[str], clock: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the results in ``paths`` (arena.json of other arenas).

    Args:
        terms: of this arena, as in its result: the known ``COMMON_SETTINGS``.
        systems: of this arena; systems of others with the same name are left out.
        clock: this arena's ``SPEED_SETTINGS``, compared if the budget is in minutes.

    Raises UserError if a file is not an arena's result, has other settings, or has a system that is in another file.
    """
    found, seen = [], set(systems)
    wanted = {**dict.fromkeys(BUDGETS), **terms, **((clock or {}) if terms.get("minutes") else {})}
    for path in paths:
        result = read_json(path)
        if not isinstance(result, dict) or not {*COMMON_SETTINGS, "systems", "files"} <= result.keys():
            raise UserError(f"{path}: not a result of an arena (arena.json), or from a version without checksums")
        for key, value in wanted.items():
            theirs, ours = _compared(key, result.get(key)), _compared(key, value)
            if theirs != ours:
                raise UserError(
                    f"{path}: its systems cannot be compared with this arena's, as it had other settings: {key} "
                    f"{theirs}, here {ours}; set by {(COMMON_SETTINGS | BUDGETS | SPEED_SETTINGS)[key]}"
                )
        others = [name for name in result["systems"] if name not in systems]
        if twice := sorted(seen.intersection(others)):
            raise UserError(f"{path}: '{twice[0]}' is also in another file of --other-results; leave one of them out")
        seen |= set(others)
        kept = {name: result["systems"][name] for name in others}
        found.append({**result, "path": path, "systems": kept, "own": result["systems"][result["baseline"]]})
    return found


def _compared(key: str, value: Any) -> Any:
    """Return the compared part of a setting: of a machine processor and device, of a corpus its files, else all."""
    if key == "corpus" and value:
        return value.get("files", value)
    return [value.get("processor"), value.get("device")] if key == "machine" and value else value


def check_questions(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError unless others have the same contrastive items and test set, by their checksums."""
    for other in others:
        if any(result["files"].get(key) != other["files"].get(key) for key in (ITEMS_FILE, TEST_FILES)):
            raise UserError(
                f"{other['path']}: its systems cannot be compared with this arena's, whose items or test set differ "
                "(another version of the code?); leave it out of --other-results; results of this arena are kept"
            )


def add_others(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a result with the systems of others, and their origins under ``beside``.

    Differences remain those from the other arena's own baseline, whose scores are included. Systems that another arena
    added itself keep their origin. An arena without systems here is not listed.

    Raises UserError if their items or test set differ (``check_questions``).
    """
    check_questions(result, others)
    systems, origins = dict(result["systems"]), []
    for other in others:
        systems |= other["systems"]
        taken = {name for one in other.get("beside", []) for name in one["systems"]}
        own = [name for name in other["systems"] if name not in taken]
        origin = {"file": other["path"].name, **{key: other[key] for key in _ORIGIN_KEYS if key in other}}
        origin |= {"systems": own, "baseline": other["own"]["scores"]}
        for one in (origin, *other.get("beside", [])):
            names = [name for name in one["systems"] if name in other["systems"]]
            origins += [{**one, "systems": names}] if names else []
    return {**result, "systems": systems, "beside": origins} if others else dict(result)
