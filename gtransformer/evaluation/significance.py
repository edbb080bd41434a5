"""Is one system better than another? Paired tests, all of them two-sided, with a 95 % interval of the difference.

* ``documents``: a permutation test over whole documents, whose sentences are not independent of each other.
* ``sentences``: the same over sentences, for text that is no documents.
* ``sign``: the sign test of Collins et al. (2005) over the segments of the score, which the G-Transformer paper used.

The permutation test (Riezler and Maxwell 2005: approximate randomisation) exchanges the translations of a unit between
both systems. Under the null hypothesis it makes no difference which of the two has which, so the p-value is the share
of all 2^n exchanges whose difference is at least as large as the real one, to either side. All of them are made where
at most ``EXACT`` units differ, otherwise ``SAMPLES`` drawn at random, the real one being counted among them. Ties
count as at least as large, so that they never make a difference significant. With n units no p-value can be below
2 / 2^n; with fewer than ``FEWEST`` that is above 0.05, and there is no test.

The interval is the difference +- t times its jackknife standard error over units (Efron and Stein 1981; t of n - 1
degrees of freedom).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import (
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
TESTS = (DOCUMENTS, SENTENCES, SIGN)
FEWEST = 6  # units: the least p-value of five is 2 / 2^5, above 0.05
EXACT = 15  # units: 2^14 exchanges and their mirror images take a second or two
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

    The p-value is None for fewer than ``FEWEST`` segments.
    """

    unit: str
    better: int
    worse: int
    equal: int
    p_value: float | None

    @property
    def signature(self) -> str:
        """How the value came about."""
        return f"sign test, {SIDES}, exact binomial, {self.better + self.worse + self.equal} {self.unit}"

    def to_json(self) -> dict:
        """Return the result as a JSON object."""
        return {"sides": SIDES} | asdict(self) | {"signature": self.signature}


def compare(
    systems: Mapping[str, Segments], key: str, test: str, samples: int | None = None
) -> dict[str, Difference | SignTest]:
    """Test every system but the first, the baseline, for a difference in the score ``key`` of ``COLUMNS``.

    Raises UserError for a test that the score's segments do not allow (``allowed``), for a seed that is no number, for
    one system alone, for a score that a system lacks and for systems that were not scored against the same references.
    """
    if len(systems) < 2:
        raise UserError("a significance test needs a baseline and at least one other system; give two translations")
    column = COLUMNS[key]
    if not allowed(key, test):
        raise UserError(f"{column.title} is over {column.level}; it cannot be tested over {test}")
    baseline, *others = systems
    for name, segments in systems.items():
        pairs = segments.pairs(column.level)
        if pairs is None:
            raise UserError(f"system {name}: there are no {column.level} to compute {column.title} over")
        if pairs.references != systems[baseline].pairs(column.level).references:
            raise UserError(f"system {name} was not scored against the same {column.level} as {baseline}")
    statistics = {name: segments.statistics(column.metric, column.level) for name, segments in systems.items()}
    first = statistics[baseline]
    if test == SIGN:
        return {name: sign_test(first, statistics[name], column.level) for name in others}
    rows = {name: np.array(one.rows, dtype=np.float64) for name, one in statistics.items()}
    if test == DOCUMENTS and column.level == SENTENCES:
        rows = {
            name: by_document(own, [position[0] for position in systems[name].positions]) for name, own in rows.items()
        }

    def score(sums: np.ndarray) -> np.ndarray:
        return np.array([[first.measure.score(total)] for total in sums.tolist()])

    suffix = f"|{systems[baseline].signed(first.measure.signature, column.level)}"
    return {name: paired_test(rows[baseline], rows[name], score, test, samples, suffix)[0] for name in others}


def allowed(key: str, test: str) -> bool:
    """Return whether a score can be tested so: over its own segments, or over documents that are sums of its sentences.

    Instances are parts of documents, so that they are no units of their own; the paper's sign test is over them. What
    is no function of sums (COMET) has a significance tool of its own.
    """
    column = COLUMNS[key]
    units = {SIGN, column.level, *((DOCUMENTS,) if column.level == SENTENCES else ())}
    return column.metric in COUNTED and test in units


def by_document(rows: np.ndarray, documents: Sequence[int]) -> np.ndarray:
    """(documents, counts): the counts of sentences, summed by the document of each, in the order of documents."""
    found, numbers = np.unique(documents, return_inverse=True)
    sums = np.zeros((len(found), rows.shape[1]))
    np.add.at(sums, numbers, rows)
    return sums


def paired_test(
    baseline: np.ndarray, system: np.ndarray, score: Score, unit: str, samples: int | None = None, suffix: str = ""
) -> list[Difference]:
    """Test every score that ``score`` computes for a difference.

    Args:
        baseline, system: (units, counts) what either system's scores are computed from, summed over units.
        score: (samples, counts) sums to (samples, scores), in points.
        unit: what a unit is, in the plural.
        samples: exchanges to draw where there are too many to make all (``SAMPLES``).
        suffix: of the signatures.
    """
    totals = baseline.sum(axis=0), system.sum(axis=0)
    first, second = (score(total[None])[0] for total in totals)
    real = second - first
    count = len(baseline)
    if count < FEWEST:
        return [Difference(unit, count, float(one), None, None, f"too few {unit}{suffix}") for one in real]
    differing = np.flatnonzero((baseline != system).any(axis=1))
    gain = (system - baseline)[differing]
    exact = len(differing) <= EXACT
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
    """Yield (some, units) float64 of 0 and 1, which units are exchanged; ``wanted`` in all.

    Exact are all exchanges that leave the last unit as it is: those that do not are their mirror images.
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
    """Return (scores,) the standard error of the difference, from what it is without each of the units."""
    left = score(system.sum(axis=0) - system) - score(baseline.sum(axis=0) - baseline)
    return np.sqrt((len(left) - 1) * left.var(axis=0))


def t_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t, within 0.0005 from 5 degrees of freedom on.

    Abramowitz and Stegun (1964), 26.7.5, from the normal distribution's.
    """
    z = NormalDist().inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def seed() -> int | None:
    """Return the variable SACREBLEU_SEED, which sacrebleu's own tests begin with (12345): None, for "none", is no fixed
    seed.

    Raises UserError for what is neither a number nor "none".
    """
    given = os.environ.get("SACREBLEU_SEED", str(SEED)).lower()
    if given != "none" and not given.isdecimal():
        raise UserError(
            f"the variable SACREBLEU_SEED is {given!r}; set it to a whole number, or to none for no fixed seed"
        )
    return None if given == "none" else int(given)


def binomial_p_value(better: int, worse: int) -> float:
    """Two-sided exact p-value of a sign test: P(a split at least as uneven) for better + worse fair coins.

    Computed in whole numbers, so it is right to the last digit for any counts. 1 where there is no coin.
    """
    coins, fewer = better + worse, min(better, worse)
    term = tail = 1  # binomial coefficients (coins over k), and their sum for k up to the smaller count
    for k in range(1, fewer + 1):
        term = term * (coins - k + 1) // k
        tail += term
    return float(min(Fraction(1), Fraction(2 * tail, 2**coins)))


def sign_test(baseline: SegmentStatistics, system: SegmentStatistics, unit: str) -> SignTest:
    """Return the sign test of Collins, Koehn and Kučerová (2005, section 4) over ``unit``, the segments of a score.

    BLEU is not a sum over sentences, so a sentence is judged by what it does to the corpus score: let f be the score
    of the baseline's translations, and f_i the score of the same with only segment i taken from the other system.
    Segment i is better if f_i > f, worse if f_i < f, equal if f_i = f. Under the null hypothesis better and worse are
    equally likely; equal segments say nothing and are left out. Both must be statistics of one metric over the same
    references.
    """
    sign = -1 if METRICS[baseline.name].lower_is_better else 1
    totals, score = summed(baseline.rows), baseline.measure.score
    start = score(totals)
    counts = {1: 0, -1: 0, 0: 0}
    for old, new in zip(baseline.rows, system.rows, strict=True):
        # Counts are whole numbers (one reference each), so exchanging a row by subtraction is exact.
        difference = sign * (score([total - a + b for total, a, b in zip(totals, old, new, strict=True)]) - start)
        counts[(difference > 0) - (difference < 0)] += 1
    enough = len(baseline.rows) >= FEWEST
    p_value = binomial_p_value(counts[1], counts[-1]) if enough else None
    return SignTest(unit, counts[1], counts[-1], counts[0], p_value)
