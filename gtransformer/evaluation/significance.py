"""Paired significance tests of two systems, all two-sided, with a 95 % interval of the difference.

* ``documents``: a permutation test over whole documents, as the sentences of a document are not independent.
* ``sentences``: the same over sentences, for text without documents.
* ``sign``: the sign test of Collins et al. (2005) over the segments of the score, as in the G-Transformer paper.

The permutation test (Riezler and Maxwell 2005: approximate randomisation) exchanges the two systems' translations of
units. The p-value is the share of all 2^n exchanges whose absolute difference is at least as large as the real one. All
exchanges are computed if at most ``MAX_EXACT_UNITS`` units differ; otherwise ``SAMPLES`` are drawn at random, including
the real one. Ties count as at least as large, so they never make a difference significant. With n units no p-value is
below 2 / 2^n. With fewer than ``MIN_UNITS`` units that is above 0.05, so there is no test.

The interval is the difference +- t times its jackknife standard error over units (Efron and Stein 1981; t with n - 1
degrees of freedom).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import (
    CHUNKS,
    COLUMNS,
    COUNTED,
    DOCUMENTS,
    METRICS,
    SENTENCES,
    SegmentStatistics,
    summed,
)
from gtransformer.evaluation.segments import Segments

SIGN = "sign"
PARTS = (SENTENCES, *CHUNKS)  # segments of which documents consist
TESTS = (DOCUMENTS, SENTENCES, SIGN)
MIN_UNITS = 6  # units: the least p-value of five is 2 / 2^5, above 0.05
MAX_EXACT_UNITS = 15  # units: 2^14 exchanges and their mirror images take one or two seconds
SAMPLES = 10_000  # sacrebleu's number for approximate randomisation
SEED = 12345  # sacrebleu's
TIE = 1e-9  # points: sums of floating-point numbers in another order differ by less
SIDES = "two-sided"
Score = Callable[[np.ndarray], np.ndarray]  # (samples, counts) sums over units to (samples, scores)


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's, in points; p-value and 95 % interval are None for too few units."""

    unit: str
    units: int
    difference: float
    interval: tuple[float, float] | None
    p_value: float | None
    signature: str

    def to_json(self) -> dict:
        """Return the result as a JSON object."""
        return {"sides": SIDES} | asdict(self)


@dataclass(frozen=True)
class SignTest:
    """Counts of segments on which a system is better than, worse than and equal to the baseline, and the p-value.

    The p-value is None for fewer than ``MIN_UNITS`` segments.
    """

    unit: str
    better: int
    worse: int
    equal: int
    p_value: float | None

    @property
    def signature(self) -> str:
        """How the value was computed."""
        return f"sign test, {SIDES}, exact binomial, {self.better + self.worse + self.equal} {self.unit}"

    def to_json(self) -> dict:
        """Return the result as a JSON object."""
        return {"sides": SIDES} | asdict(self) | {"signature": self.signature}


def compare(
    systems: Mapping[str, Segments | Sequence[Segments]], key: str, test: str, samples: int | None = None
) -> dict[str, Difference | SignTest]:
    """Test every system but the first, the baseline, for a difference in the score ``key`` of ``COLUMNS``.

    A system may have several translations, of equally many training seeds. Their counts are summed by unit, and scores
    are computed from these sums. The result does not cover other seeds. The sign test takes one translation.

    Raises UserError for a test that the score does not support (``allowed``), an invalid ``SACREBLEU_SEED``, a single
    system, unequal numbers of translations, a score that a system lacks, and systems with different references.
    """
    if len(systems) < 2:
        raise UserError("a significance test needs a baseline and at least one other system; give two translations")
    column = COLUMNS[key]
    if not allowed(key, test):
        raise UserError(f"{column.title} is over {column.level}; it cannot be tested over {test}")
    baseline, *others = systems
    runs = {name: [one] if isinstance(one, Segments) else list(one) for name, one in systems.items()}
    numbers = {len(one) for one in runs.values()}
    if len(numbers) > 1 or 0 in numbers or (test == SIGN and numbers != {1}):
        raise UserError(
            f"systems have {', '.join(map(str, sorted(numbers)))} translations; give all equally many (seeds), and one "
            f"for the test {SIGN}"
        )
    like = runs[baseline][0]
    for name, segments in ((name, one) for name, several in runs.items() for one in several):
        pairs = segments.pairs(column.level)
        if pairs is None:
            raise UserError(f"system {name}: there are no {column.level} to compute {column.title} over")
        if not pairs.has_references_of(like.pairs(column.level)):
            raise UserError(f"system {name} was not scored against the same {column.level} as {baseline}")
    statistics = {
        name: [one.statistics(column.metric, column.level) for one in several] for name, several in runs.items()
    }
    first = statistics[baseline][0]
    if test == SIGN:
        return {name: sign_test(first, statistics[name][0], column.level) for name in others}
    rows = {name: sum(np.array(one.rows, dtype=np.float64) for one in several) for name, several in statistics.items()}
    if test == DOCUMENTS and column.level in PARTS:
        rows = {name: by_document(own, like.documents_of(column.level)) for name, own in rows.items()}

    def score(sums: np.ndarray) -> np.ndarray:
        return np.array([[first.measure.score(total)] for total in sums.tolist()])

    suffix = f"|{like.signed(first.measure.signature, column.level)}"
    return {name: paired_test(rows[baseline], rows[name], score, test, samples, suffix)[0] for name in others}


def allowed(key: str, test: str) -> bool:
    """Return whether a score supports a test: over its own segments, or over documents as sums of their parts.

    Instances are parts of documents, so they are not independent units; only the paper's sign test uses them. Scores
    that are not functions of sums (COMET) have separate significance tools.
    """
    column = COLUMNS[key]
    units = {SIGN, column.level, *((DOCUMENTS,) if column.level in PARTS else ())}
    return column.metric in COUNTED and test in units


def by_document(rows: np.ndarray, documents: Sequence[int]) -> np.ndarray:
    """Return (documents, counts): the counts of sentences, summed by document, in the order of documents."""
    found, numbers = np.unique(documents, return_inverse=True)
    sums = np.zeros((len(found), rows.shape[1]))
    np.add.at(sums, numbers, rows)
    return sums


def paired_test(
    baseline: np.ndarray, system: np.ndarray, score: Score, unit: str, samples: int | None = None, suffix: str = ""
) -> list[Difference]:
    """Test every score that ``score`` computes for a difference.

    Args:
        baseline, system: (units, counts) the counts of each system; scores are computed from their sums over units.
        score: (samples, counts) sums to (samples, scores), in points.
        unit: name of the units, in the plural.
        samples: number of exchanges to draw if there are too many for an exact test (default: ``SAMPLES``).
        suffix: of the signatures.
    """
    totals = baseline.sum(axis=0), system.sum(axis=0)
    first, second = (score(total[None])[0] for total in totals)
    real = second - first
    count = len(baseline)
    if count < MIN_UNITS:
        return [Difference(unit, count, float(one), None, None, f"too few {unit}{suffix}") for one in real]
    differing = np.flatnonzero((baseline != system).any(axis=1))
    gain = (system - baseline)[differing]
    exact = len(differing) <= MAX_EXACT_UNITS
    if exact:
        how, wanted = f"exact permutation of {count} {unit}", 2 ** max(0, len(differing) - 1)
    else:
        wanted = samples or SAMPLES
        how = f"permutation of {count} {unit}, {wanted} samples, seed:{'none' if seed() is None else seed()}"
    larger = np.zeros(len(real), dtype=np.int64)
    for exchanged in _exchanges(len(differing), wanted, exact):
        moved = exchanged @ gain
        differences = score(totals[1] - moved) - score(totals[0] + moved)
        larger += (np.abs(differences) >= np.abs(real) - TIE).sum(axis=0)
    shares = larger / wanted if exact else (larger + 1) / (wanted + 1)
    errors = jackknife_error(baseline, system, score)
    half = t_quantile(count - 1) * errors
    return [
        Difference(
            unit, count, float(one), (float(one - wide), float(one + wide)), float(share), f"{SIDES}, {how}{suffix}"
        )
        for one, wide, share in zip(real, half, shares, strict=True)
    ]


def _exchanges(units: int, wanted: int, exact: bool) -> Iterator[np.ndarray]:
    """Yield (some, units) float64 of 0 and 1, where 1 marks exchanged units; ``wanted`` rows in all.

    Exact tests use all exchanges that keep the last unit; the others are their mirror images.
    """
    at_a_time = max(1, (1 << 22) // max(1, units))
    draw = np.random.default_rng(seed())
    for begin in range(0, wanted, at_a_time):
        numbers = np.arange(begin, min(begin + at_a_time, wanted))
        if exact:
            yield (numbers[:, None] >> np.arange(units) & 1).astype(np.float64)
        else:
            yield draw.integers(2, size=(len(numbers), units)).astype(np.float64)


def jackknife_error(baseline: np.ndarray, system: np.ndarray, score: Score) -> np.ndarray:
    """Return (scores,), the standard error of the difference, from its values without each unit."""
    left = score(system.sum(axis=0) - system) - score(baseline.sum(axis=0) - baseline)
    return np.sqrt((len(left) - 1) * left.var(axis=0))


def t_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t; the error is below 0.0005 from 5 degrees of freedom, 0.004 below.

    Exact for 1 and 2 degrees of freedom; else an expansion from the normal distribution's quantile: Abramowitz and
    Stegun (1964), 26.7.5.
    """
    if freedom < 3:
        return math.tan(0.475 * math.pi) if freedom == 1 else 0.95 / math.sqrt(2 * 0.975 * 0.025)
    z = NormalDist().inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def seed() -> int | None:
    """Return the variable SACREBLEU_SEED, as sacrebleu's own tests (default 12345); None, for "none": no fixed seed.

    Raises UserError for a value that is neither a whole number nor "none".
    """
    given = os.environ.get("SACREBLEU_SEED", str(SEED)).lower()
    if given != "none" and not given.isdecimal():
        raise UserError(
            f"the variable SACREBLEU_SEED is {given!r}; set it to a whole number, or to none for no fixed seed"
        )
    return None if given == "none" else int(given)


def binomial_p_value(better: int, worse: int) -> float:
    """Return the two-sided exact p-value of a sign test: P(a split at least as uneven) for better + worse fair coins.

    It is computed in integers, so it is exact for any counts. It is 1 without coins.
    """
    coins, fewer = better + worse, min(better, worse)
    term = tail = 1  # binomial coefficients (coins over k), and their sum for k up to the smaller count
    for k in range(1, fewer + 1):
        term = term * (coins - k + 1) // k
        tail += term
    return float(min(Fraction(1), Fraction(2 * tail, 2**coins)))


def sign_test(baseline: SegmentStatistics, system: SegmentStatistics, unit: str) -> SignTest:
    """Return the sign test of Collins, Koehn and Kučerová (2005, section 4) over ``unit``, the segments of a score.

    BLEU is not a sum over sentences, so a sentence is judged by its effect on the corpus score. Let f be the score of
    the baseline's translations, and f_i the score with only segment i from the other system. Segment i is better if f_i
    > f, worse if f_i < f, equal if f_i = f. Under the null hypothesis better and worse are equally likely; equal
    segments are left out. Both arguments must be statistics of one metric over the same references.
    """
    sign = -1 if METRICS[baseline.name].lower_is_better else 1
    totals, score = summed(baseline.rows), baseline.measure.score
    start = score(totals)
    counts = {1: 0, -1: 0, 0: 0}
    for old, new in zip(baseline.rows, system.rows, strict=True):
        # Counts are integers but for TER with several references, whose length is their mean.
        difference = sign * (score([total - a + b for total, a, b in zip(totals, old, new, strict=True)]) - start)
        counts[(difference > TIE) - (difference < -TIE)] += 1
    enough = len(baseline.rows) >= MIN_UNITS
    p_value = binomial_p_value(counts[1], counts[-1]) if enough else None
    return SignTest(unit, counts[1], counts[-1], counts[0], p_value)
