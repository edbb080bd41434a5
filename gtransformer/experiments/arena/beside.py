"""Systems of other arenas, run on the same terms elsewhere or before, in the result of this one."""

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
    "changes": "--set (a CPU without bfloat16 trains in float32)",
}
# The same of what is there only where it is the budget.
BUDGETS = {"minutes": "--minutes", "tokens": "--tokens"}
_KEPT = ("command", "commit", "date", "machine")  # where the systems come from


def read_beside(paths: Sequence[Path], terms: Mapping[str, Any], systems: Sequence[str]) -> list[dict[str, Any]]:
    """The results in ``paths`` (arena.json of other arenas).

    Args:
        terms: of this arena, as in its own result: what of ``SAME`` is known.
        systems: of this arena; those of others that have the same name are left out.

    Raises UserError if a file is no result of an arena or was made on other terms, or if two files have one system.
    """
    found, seen = [], set(systems)
    for path in paths:
        result = read_json(path)
        if not isinstance(result, dict) or not {*SAME, "systems"} <= result.keys():
            raise UserError(f"{path}: no result of an arena (arena.json)")
        for key in (*terms, *(BUDGETS.keys() - terms)):
            theirs, value = result.get(key), terms.get(key)
            if theirs != value:
                raise UserError(
                    f"{path}: its systems cannot stand beside this arena's, since it was run on other terms: {key} "
                    f"{theirs}, here {value}; set by {(SAME | BUDGETS)[key]}"
                )
        others = [name for name in result["systems"] if name not in systems]
        if twice := sorted(seen.intersection(others)):
            raise UserError(f"{path}: '{twice[0]}' is in another file of --beside, too; leave one of them out")
        seen |= set(others)
        kept = {name: result["systems"][name] for name in others}
        found.append({**result, "path": path, "systems": kept, "own": result["systems"][result["baseline"]]})
    return found


def put_beside(result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A result with the systems of others, and under ``beside`` where those come from.

    Differences stay those from the other arena's own baseline, whose scores are given with them.
    """
    systems, beside = dict(result["systems"]), []
    for other in others:
        systems |= other["systems"]
        origin = {key: other[key] for key in _KEPT if key in other}
        baseline = other["own"]["scores"]
        beside.append({"file": other["path"].name, **origin, "systems": list(other["systems"]), "baseline": baseline})
        beside += other.get("beside", [])
    return {**result, "systems": systems, "beside": beside} if others else dict(result)
