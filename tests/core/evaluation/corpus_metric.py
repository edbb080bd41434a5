"""sacrebleu's own corpus scores, what groups of segments are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from gtransformer.evaluation.metrics import MetricScore, make_metric


def corpus_metric(
    name: str, hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a"
) -> MetricScore:
    """A corpus score of ``hypotheses`` against one reference each, by the metric that the package makes."""
    metric = make_metric(name, tokenizer)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return MetricScore(result.score, str(metric.get_signature()), len(hypotheses))
