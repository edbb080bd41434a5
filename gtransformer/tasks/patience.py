"""How often in a row validation was no better (``--patience``): kept in checkpoints, for a training that is resumed.

fairseq counts in attributes of a function, which end with the process: a training that was killed behind its last
checkpoint, or in between, would have all its patience again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

PROGRAMS = ("__main__", "fairseq_cli.train")  # as what fairseq-train runs, by python -m and as a command


def used_patience() -> dict[str, Any]:
    """What a checkpoint has of it: nothing before the first validation."""
    counter = _counter()
    if getattr(counter, "best", None) is None:
        return {}
    return {"patience": {"best": float(counter.best), "runs": int(counter.num_runs)}}


def resume_patience(state: Any) -> int:
    """Count on from what ``used_patience`` was in a checkpoint; returns how often validation was no better until then.

    0, and counted anew, where the checkpoint does not say.
    """
    kept = state.get("patience") if isinstance(state, Mapping) else None
    if not isinstance(kept, Mapping):
        return 0
    counter = _counter()
    if counter is not None:
        counter.best, counter.num_runs = kept["best"], kept["runs"]
    return int(kept["runs"])


def _counter() -> Callable | None:
    """fairseq's function that counts, of the program that runs."""
    found = (getattr(sys.modules.get(name), "should_stop_early", None) for name in PROGRAMS)
    return next(filter(None, found), None)
