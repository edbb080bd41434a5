"""What a result over several seeds has beside its scores: differences with their intervals, and the translations."""

from __future__ import annotations

import math
import statistics
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from gtransformer.evaluation.score import Evaluation
from gtransformer.evaluation.segments import Segments
from gtransformer.evaluation.significance import compare

REFERENCE = "reference.txt"  # among packed translations


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return ``values``, their ``mean``, ``std`` (of a sample), ``standard_error``, ``min`` and ``max``; a single value
    has no errors.
    """
    std = statistics.stdev(values) if len(values) > 1 else None
    return {
        "values": list(values),
        "mean": statistics.fmean(values),
        "std": std,
        "standard_error": None if std is None else std / math.sqrt(len(values)),
        "min": min(values),
        "max": max(values),
    }


def with_interval(differences: Sequence[float]) -> dict[str, Any]:
    """Return the ``spread`` of the differences of several seeds, and the 95 % ``interval`` of their mean.

    It is the mean +- t times its standard error; a single seed has none (None).
    """
    found, interval = spread(differences), None
    if found["standard_error"] is not None:
        half = stats.t.ppf(0.975, len(differences) - 1) * found["standard_error"]
        interval = found["mean"] - half, found["mean"] + half
    return found | {"interval": interval}


class Translations:
    """Plain-text translations of one test set, a line ``<d>`` before each document, for tests over its documents.

    ``score``: scores one of them, called with ``hypotheses`` and ``metrics``, as ``score.score_translations`` with the
    prepared split.
    """

    def __init__(self, score: Callable[..., Evaluation]):
        self.score, self._segments = score, {}

    def segments(self, text: Path) -> Segments:
        """Return the segments of a translation, which is read once."""
        if text not in self._segments:
            self._segments[text] = self.score(hypotheses=text, metrics=["bleu"]).scores["raw"].segments
        return self._segments[text]

    def test(self, key: str, baseline: Sequence[Path], system: Sequence[Path]) -> dict[str, Any]:
        """Return the test of a system against the baseline over documents, of the same seeds (``compare``)."""
        texts = {name: [self.segments(one) for one in own] for name, own in (("", baseline), ("system", system))}
        return vars(compare(texts, key)["system"])


def pack(texts: Mapping[str, Path], path: Path) -> None:
    """Write texts by name into a tar file, compressed as its suffix says."""
    unfinished = path.with_suffix(".tmp")
    with tarfile.open(unfinished, f"w:{path.suffix[1:]}") as packed:
        for name, text in sorted(texts.items()):
            packed.add(text.resolve(), name, filter=lambda entry: entry.replace(mtime=0, deep=False))
    unfinished.replace(path)


def shown_difference(numbers: Mapping[str, Any] | None) -> str:
    """Return ``-1.20 (-2.00 to -0.40)``, the mean with its 95 % interval; of a single seed only the value."""
    if numbers is None:
        return "-"
    interval = numbers["interval"]
    return f"{numbers['mean']:+.2f}" + ("" if interval is None else " ({:+.2f} to {:+.2f})".format(*interval))


def shown_interval(numbers: Mapping[str, Any] | None) -> str:
    """Return the 95 % interval over documents, ``-2.00 to -0.40``."""
    interval = (numbers or {}).get("documents", {}).get("interval")
    return "-" if interval is None else "{:+.2f} to {:+.2f}".format(*interval)
