"""Log the entropy of attention at every validation (``--user-dir`` of this experiment).

``entropy_PART_REACH`` is the mean over queries and layers, in bits; ``..._flat`` is that of uniform
attention (Bao et al. 2021, section 3.2).
"""

from __future__ import annotations

from collections import Counter

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.logging import metrics

from gtransformer.lab.attention import watching
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy

QUERIES = "_queries"


@register_criterion("loss_and_entropy", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class LossAndEntropy(FusedLabelSmoothedCrossEntropy):
    """The loss of ``fused_label_smoothed_cross_entropy``; in validation also the entropy."""

    def forward(self, model, sample, reduce: bool = True):
        """Return loss, sample size and logs; in validation with sums of entropy over queries."""
        if model.training:
            return super().forward(model, sample, reduce)
        with watching(model) as attentions:
            loss, sample_size, logs = super().forward(model, sample, reduce)
        sums: Counter[str] = Counter()
        for attention in attentions:
            name, queries = f"entropy_{attention.part}_{attention.reach}", attention.queries()
            bits, flat = attention.entropy()
            sums.update({name: bits * queries, f"{name}_flat": flat * queries})
            sums[name + QUERIES] += queries
        return loss, sample_size, logs | {f"_{name}": value for name, value in sums.items()}

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log the criterion's values and the mean entropies."""
        super().reduce_metrics(logging_outputs)
        sums: Counter[str] = Counter()
        for logs in logging_outputs:
            sums.update({name: logs[name] for name in logs if name.startswith("_entropy")})
        for name, queries in sums.items():
            if name.endswith(QUERIES) and queries:
                kind = name.removesuffix(QUERIES)
                for key in (kind, f"{kind}_flat"):
                    metrics.log_scalar(key[1:], sums[key] / queries, queries, round=4)
