"""Systems of other arenas, run on the same terms elsewhere or before, in the result of this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.arena.result import add_seeds

# What must be the same for two arenas' systems to be compared, and by which option it is set.
SAME = {
    "corpus": "CORPUS, --documents, --dev-documents, --test-documents and --items",
    "seeds": "--seeds",
    "updates": "--updates",
    "start": "--start-updates and --from",
    "baseline": "nothing",
    "changes": "--set",
}
# The same of what is there only where it is the budget.
BUDGETS = {"minutes": "--minutes", "tokens": "--tokens"}
# By the clock systems are equal only where these are, too.
CLOCK = {"machine": "the machine", "jobs": "--jobs", "threads": "--jobs and OMP_NUM_THREADS"}
SPEED = ("processor", "device")  # of a machine
_KEPT = ("command", "commit", "commits", "date", "machine", "files")  # where the systems come from
ASKED, TEST, STARTED = "items", "test", "start"  # of ``files``: what they were asked, what they translated, their start


def read_beside(
    paths: Sequence[Path],
    terms: Mapping[str, Any],
    systems: Sequence[str],
    clock: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The results in ``paths`` (arena.json of other arenas).

    Args:
        terms: of this arena, as in its own result: what of ``SAME`` is known.
        systems: of this arena; those of others that have the same name are left out.
        clock: what of this arena's result says how fast it is, CLOCK; it counts where minutes are the budget.

    Raises UserError if a file is no result of an arena or was made on other terms, or if two files have one system.
    """
    found, seen = [], set(systems)
    timed = (clock or {}) if terms.get("minutes") else {}
    for path in paths:
        result = read_json(path)
        if not isinstance(result, dict) or not {*SAME, "systems"} <= result.keys():
            raise UserError(f"{path}: no result of an arena (arena.json)")
        for key in (*terms, *(BUDGETS.keys() - terms), *timed):
            theirs, value = (_compared(key, one.get(key)) for one in (result, {**terms, **timed}))
            if theirs != value:
                raise UserError(
                    f"{path}: its systems cannot stand beside this arena's, since it was run on other terms: {key} "
                    f"{theirs}, here {value}; set by {(SAME | BUDGETS | CLOCK)[key]}"
                )
        others = [name for name in result["systems"] if name not in systems]
        if twice := sorted(seen.intersection(others)):
            raise UserError(f"{path}: '{twice[0]}' is in another file of --beside, too; leave one of them out")
        seen |= set(others)
        kept, own = {name: result["systems"][name] for name in others}, result["systems"][result["baseline"]]
        for name in kept.keys() - _taken(result):  # the others are compared with another baseline
            add_seeds(kept[name], own)
        found.append({**result, "path": path, "systems": kept, "own": own})
    return found


def _compared(key: str, value: Any) -> Any:
    """Of a machine what decides how fast it is, of a corpus its files, wherever they lie, of the rest all."""
    if key == "corpus" and value:
        return value.get("files", value)
    return {name: value.get(name) for name in SPEED} if key == "machine" and value else value


def check_questions(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """UserError unless others were asked the same items and translated the same test set, by their checksums.

    Results of earlier versions have none: there numbers of items by distance are compared.
    """
    for other in others:
        if "files" in other:
            what = "items or test set"
            found = [[one["files"].get(key) for key in (ASKED, TEST)] for one in (result, other)]
        else:
            what = "numbers of items"
            found = [_counts(own) for own in (result["systems"][result["baseline"]], other["own"])]
        if found[0] != found[1]:
            raise UserError(
                f"{other['path']}: its systems cannot stand beside this arena's, whose {what} are others (made by "
                "another version of the code?); leave it out of --beside: what was run here is kept"
            )


def _counts(system: Mapping[str, Any]) -> dict[str, Any]:
    """How many items there are of every phenomenon, by distance on the target side."""
    rows = system.get("accuracy", {}).get("by_distance_target", {})
    return {row: {kind: one["items"] for kind, one in cells.items()} for row, cells in rows.items()}


def _taken(result: Mapping[str, Any]) -> set[str]:
    """The systems that a result has taken over itself."""
    return {name for one in result.get("beside", []) for name in one["systems"]}


def put_beside(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A result with the systems of others, and under ``beside`` where those come from.

    Differences stay those from the other arena's own baseline, whose scores are given with them. What another has
    taken over itself stays that of whom it was taken from; whose systems are all left out is not named.

    Raises UserError if they were asked other questions (``check_questions``).
    """
    check_questions(result, others)
    systems, beside = dict(result["systems"]), []
    for other in others:
        systems |= other["systems"]
        origin = {key: other[key] for key in _KEPT if key in other}
        nested, taken = other.get("beside", []), _taken(other)
        own = [name for name in other["systems"] if name not in taken]
        origin = {"file": other["path"].name, **origin, "systems": own, "baseline": other["own"]["scores"]}
        further = [{**one, "systems": [name for name in one["systems"] if name in other["systems"]]} for one in nested]
        beside += [one for one in (origin, *further) if one["systems"]]
    return {**result, "systems": systems, "beside": beside} if others else dict(result)
