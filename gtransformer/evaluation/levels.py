"""The scores by name: which metric over which segments, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gtransformer.errors import UserError
from gtransformer.evaluation.bleu import BleuScore, corpus_bleu
from gtransformer.evaluation.metrics import BLEU_LC, METRICS, MetricScore
from gtransformer.evaluation.segments import Segments


@dataclass(frozen=True)
class Level:
    """One kind of score: its name in tables, sacrebleu's metric, and what its segments are."""

    title: str
    metric: str
    segments: str


# TER and chrF are taken by sentence: TER's shifts over a whole document would take hours and say little.
LEVELS = {
    "s_bleu": Level("s-BLEU", "bleu", "sentences"),
    "d_bleu": Level("d-BLEU", "bleu", "documents"),
    "d_bleu_instance": Level("d-BLEU per instance", "bleu", "instances"),
    "s_bleu_lc": Level("s-BLEU lower-cased", BLEU_LC, "sentences"),
    "d_bleu_lc": Level("d-BLEU lower-cased", BLEU_LC, "documents"),
    "chrf": Level("chrF", "chrf", "sentences"),
    "ter": Level("TER", "ter", "sentences"),
}

# Over sentences, so that they say nothing where a translation has not as many as its source.
ALIGNED = tuple(key for key, level in LEVELS.items() if level.segments == "sentences")


def check_metrics(metrics: tuple[str, ...]) -> None:
    """UserError for a metric that is not in ``METRICS``."""
    for name in metrics:
        if name not in METRICS:
            raise UserError(f"unknown metric {name!r}; choose from: {', '.join(METRICS)}")


def score_levels(segments: Segments, metrics: tuple[str, ...]) -> dict[str, BleuScore | MetricScore]:
    """All scores of ``LEVELS`` whose metric is asked for; none over instances where there are no instances."""
    check_metrics(metrics)
    scores: dict[str, BleuScore | MetricScore] = {}
    for key, level in LEVELS.items():
        pairs = segments.pairs(level.segments)
        if level.metric not in metrics or pairs is None:
            continue
        if level.metric in ("bleu", BLEU_LC):
            lowercase = level.metric == BLEU_LC
            score = corpus_bleu(pairs.hypotheses, pairs.references, segments.tokenizer, lowercase)
            scores[key] = replace(score, signature=segments.signed(score.signature, level.segments))
        else:
            statistics = segments.statistics(level.metric, level.segments)
            signature = segments.signed(statistics.signature, level.segments)
            scores[key] = MetricScore(statistics.score(), signature, len(pairs.hypotheses))
    return scores
