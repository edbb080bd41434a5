"""Paired significance test of two systems, two-sided, with a 95 % interval of the difference.

The permutation test (Riezler and Maxwell 2005: approximate randomisation) exchanges the two
systems' translations of
units: whole documents, as the sentences of a document are not independent.
The p-value is the share of all 2^n exchanges whose absolute difference is at least as large as the
real one. All exchanges are computed if there are at most ``MAX_EXACT_UNITS`` units; otherwise
``SAMPLES`` are drawn at random. With n units no p-value is below 2 / 2^n. With fewer than
``MIN_UNITS`` units that is above 0.05, so there is no test.

The interval is the difference +- t times its jackknife standard error over units (Efron and Stein
1981; t with n - 1 degrees of freedom).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import COLUMNS, SENTENCES
from gtransformer.evaluation.segments import Segments

MIN_UNITS = 6  # the least p-value of five is 2 / 2^5, above 0.05
MAX_EXACT_UNITS = 15  # 2^15 exchanges take one or two seconds
SAMPLES = 10_000  # sacrebleu's number for approximate randomisation
SEED = 12345  # sacrebleu's
AT_ONCE = 1 << 22  # units of all exchanges that are computed together
Score = Callable[[np.ndarray], np.ndarray]  # (samples, counts) sums over units to (samples,) scores


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's, in points.

    p-value and 95 % interval are None for too few documents (``units``).
    """

    units: int
    difference: float
    interval: tuple[float, float] | None
    p_value: float | None
    signature: str


def compare(
    systems: Mapping[str, Segments | Sequence[Segments]], key: str
) -> dict[str, Difference]:
    """Test every system but the first, the baseline, for a difference in the score ``key`` of
    ``COLUMNS``.

    A system may have several translations, of equally many training seeds. Their counts are summed
    by unit, and scores are computed from these sums. The result does not cover other seeds.

    Raises UserError for unequal numbers of translations and for systems with different references.
    """
    column = COLUMNS[key]
    seeds = {
        name: [segments] if isinstance(segments, Segments) else list(segments)
        for name, segments in systems.items()
    }
    baseline, *others = seeds
    first = seeds[baseline][0]
    references = getattr(first, column.level).references
    statistics = first.statistics(column.metric, column.level)
    rows = {}
    for name, translations in seeds.items():
        if len(translations) != len(seeds[baseline]):
            raise UserError(f"system {name}: give equally many translations (seeds) of all systems")
        rows[name] = 0.0
        for segments in translations:
            if getattr(segments, column.level).references != references:
                raise UserError(
                    f"system {name} was not scored against the same {column.level} as {baseline}"
                )
            # Summing over seeds leaves documents as the only units: the interval is about other
            # documents.
            counts = segments.statistics(column.metric, column.level).rows
            rows[name] = rows[name] + np.array(counts, dtype=float)
        if column.level == SENTENCES:
            rows[name] = by_document(rows[name], [document for document, _ in first.positions])

    def score(sums: np.ndarray) -> np.ndarray:
        return np.array([statistics.of_sums(total) for total in sums.tolist()])

    signature = first.signed(statistics.signature, column.level)
    return {name: paired_test(rows[baseline], rows[name], score, signature) for name in others}


def by_document(rows: np.ndarray, documents: Sequence[int]) -> np.ndarray:
    """Return (documents, counts): the counts of sentences, summed by document, in the order of
    documents.
    """
    # Sentences of a document stand together, so its counts are those from its first one on.
    _, first = np.unique(documents, return_index=True)
    return np.add.reduceat(rows, first)


def paired_test(
    baseline: np.ndarray,
    system: np.ndarray,
    score: Score,
    signature: str = "",
    samples: int = SAMPLES,
) -> Difference:
    """Test a score for a difference.

    Args:
        baseline, system: (documents, counts) the counts of each system; scores are computed from
        their sums.
        score: (samples, counts) sums to (samples,) scores, in points.
        signature: of the score.
        samples: number of exchanges to draw if there are too many documents for an exact test.
    """
    from scipy import stats  # takes a second

    count, gain = len(baseline), system - baseline

    def difference(exchanged: np.ndarray, _: object = None, axis: int = -1) -> np.ndarray:
        """Return the difference where documents are exchanged, by (..., documents) of 0 and 1;
        rounded, for ties.
        """
        # Exchanging a document takes its gain from one system's counts and adds it to the other's.
        # So all exchanges are one matrix product, and no text is scored again.
        moved = np.atleast_2d(exchanged) @ gain
        gains = score(system.sum(axis=0) - moved) - score(baseline.sum(axis=0) + moved)
        # Rounding errors must not make the real difference smaller than its own mirror image.
        return np.round(gains, 9).reshape(exchanged.shape[:-1])

    real = float(difference(np.zeros(count)))
    if count < MIN_UNITS:
        return Difference(count, real, None, None, f"too few documents|{signature}")
    exact = count <= MAX_EXACT_UNITS
    # scipy permutes pairs; given the pairs (0, 1) it passes which documents are exchanged.
    test = stats.permutation_test(
        (np.zeros(count), np.ones(count)),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf if exact else samples,
        batch=max(1, AT_ONCE // count),
        random_state=np.random.default_rng(SEED),
    )
    half = float(stats.t.ppf(0.975, count - 1) * jackknife_error(baseline, system, score))
    how = "exact permutation" if exact else f"{samples} samples, seed:{SEED}, permutation"
    signature = f"two-sided, {how} of {count} documents|{signature}"
    return Difference(count, real, (real - half, real + half), float(test.pvalue), signature)


def jackknife_error(baseline: np.ndarray, system: np.ndarray, score: Score) -> float:
    """Return the standard error of the difference, from its values without each unit."""
    # All counts without each unit, at once.
    left = score(system.sum(axis=0) - system) - score(baseline.sum(axis=0) - baseline)
    return float(np.sqrt((len(left) - 1) * left.var()))
