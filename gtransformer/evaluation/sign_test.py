"""The sign test on a corpus metric (Collins, Koehn and Kučerová 2005, section 4), which the G-Transformer paper used.

BLEU is not a sum over sentences, so a sentence is judged by what it does to the corpus score: let f be the score of
the baseline's translations, and f_i the score of the same with only segment i taken from the other system. Segment i
is better if f_i > f, worse if f_i < f, equal if f_i = f. Under the null hypothesis better and worse are equally likely;
equal segments say nothing and are left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction

from gtransformer.evaluation.metrics import SegmentStatistics, higher_is_better


@dataclass(frozen=True)
class SignTest:
    """Counts of segments on which a system is better than, worse than and equal to the baseline, and the p-value."""

    better: int
    worse: int
    equal: int
    p_value: float

    @property
    def signature(self) -> str:
        """How the value came about."""
        return f"sign test, two-sided|+{self.better} -{self.worse} ={self.equal}"

    def to_json(self) -> dict:
        """The result as a JSON object."""
        return asdict(self) | {"signature": self.signature}


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


def sign_test(baseline: SegmentStatistics, system: SegmentStatistics) -> SignTest:
    """The sign test of ``system`` against ``baseline`` over their segments (sentences, or documents for d-BLEU).

    Both must be statistics of one metric over the same references.
    """
    if baseline.name != system.name or len(baseline.rows) != len(system.rows):
        raise ValueError("a sign test needs the same metric and the same segments on both sides")
    sign = 1 if higher_is_better(baseline.name) else -1
    totals = [sum(column) for column in zip(*baseline.rows, strict=True)]
    start = baseline.metric._aggregate_and_compute([totals]).score
    counts = {1: 0, -1: 0, 0: 0}
    for old, new in zip(baseline.rows, system.rows, strict=True):
        # Counts are whole numbers (one reference each), so exchanging a row by subtraction is exact.
        changed = [total - a + b for total, a, b in zip(totals, old, new, strict=True)]
        difference = sign * (baseline.metric._aggregate_and_compute([changed]).score - start)
        counts[(difference > 0) - (difference < 0)] += 1
    return SignTest(counts[1], counts[-1], counts[0], binomial_p_value(counts[1], counts[-1]))
