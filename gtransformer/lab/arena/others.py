"""Systems of other arenas, run on the same terms elsewhere or before, in the result of this one (``--beside``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json

# What must be the same for two arenas' systems to be compared, and by which option it is set.
SAME = {
    "corpus": "CORPUS, --documents, --dev-documents, --test-documents and --items",
    "seeds": "--seeds",
    "updates": "--updates",
    "start": "--start-updates and --from",
    "baseline": "nothing",
    "changes": "--set",
}
BUDGETS = {"minutes": "--minutes", "tokens": "--tokens"}  # the same of what is there only where it is the budget
# By the clock systems are equal only where these are, too.
CLOCK = {"machine": "the machine", "jobs": "--jobs", "threads": "--jobs and OMP_NUM_THREADS"}
_KEPT = ("command", "commit", "commits", "date", "machine", "files")  # where the systems come from
ASKED, TEST, STARTED = "items", "test", "start"  # of ``files``: contrastive items, test set, parameters of the start


def read_others(
    paths: Sequence[Path], terms: Mapping[str, Any], systems: Sequence[str], clock: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the results in ``paths`` (arena.json of other arenas).

    Args:
        terms: of this arena, as in its own result: what of ``SAME`` is known.
        systems: of this arena; those of others that have the same name are left out.
        clock: what of this arena's result says how fast it is, CLOCK; it counts where minutes are the budget.

    Raises UserError if a file is no result of an arena or was made on other terms, or if two files have one system.
    """
    found, seen = [], set(systems)
    wanted = {**dict.fromkeys(BUDGETS), **terms, **((clock or {}) if terms.get("minutes") else {})}
    for path in paths:
        result = read_json(path)
        if not isinstance(result, dict) or not {*SAME, "systems", "files"} <= result.keys():
            raise UserError(f"{path}: no result of an arena (arena.json), or one of a version without checksums")
        for key, value in wanted.items():
            theirs, ours = _compared(key, result.get(key)), _compared(key, value)
            if theirs != ours:
                raise UserError(
                    f"{path}: its systems cannot stand beside this arena's, since it was run on other terms: {key} "
                    f"{theirs}, here {ours}; set by {(SAME | BUDGETS | CLOCK)[key]}"
                )
        others = [name for name in result["systems"] if name not in systems]
        if twice := sorted(seen.intersection(others)):
            raise UserError(f"{path}: '{twice[0]}' is in another file of --beside, too; leave one of them out")
        seen |= set(others)
        kept = {name: result["systems"][name] for name in others}
        found.append({**result, "path": path, "systems": kept, "own": result["systems"][result["baseline"]]})
    return found


def _compared(key: str, value: Any) -> Any:
    """Return what is compared: what decides a machine's speed, a corpus's files wherever they lie, else all."""
    if key == "corpus" and value:
        return value.get("files", value)
    return [value.get("processor"), value.get("device")] if key == "machine" and value else value


def check_questions(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError unless others were asked the same items and translated the same test set, by their checksums."""
    for other in others:
        if any(result["files"].get(key) != other["files"].get(key) for key in (ASKED, TEST)):
            raise UserError(
                f"{other['path']}: its systems cannot stand beside this arena's, whose items or test set are others "
                "(made by another version of the code?); leave it out of --beside: what was run here is kept"
            )


def add_others(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a result with the systems of others, and under ``beside`` where those come from.

    Differences stay those from the other arena's own baseline, whose scores are given with them. What another has
    taken over itself stays that of whom it was taken from; whose systems are all left out is not named.

    Raises UserError if they were asked other questions (``check_questions``).
    """
    check_questions(result, others)
    systems, beside = dict(result["systems"]), []
    for other in others:
        systems |= other["systems"]
        taken = {name for one in other.get("beside", []) for name in one["systems"]}
        own = [name for name in other["systems"] if name not in taken]
        origin = {"file": other["path"].name, **{key: other[key] for key in _KEPT if key in other}}
        origin |= {"systems": own, "baseline": other["own"]["scores"]}
        for one in (origin, *other.get("beside", [])):
            names = [name for name in one["systems"] if name in other["systems"]]
            beside += [{**one, "systems": names}] if names else []
    return {**result, "systems": systems, "beside": beside} if others else dict(result)
