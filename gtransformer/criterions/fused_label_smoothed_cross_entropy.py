"""fairseq's label-smoothed cross-entropy without its two (tokens, vocabulary) tensors."""

from __future__ import annotations

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)

from gtransformer.data.loss_mask import MASKED, counted
from gtransformer.modules.fused_loss import fused_cross_entropy


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class FusedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """The same loss, options and logs as ``label_smoothed_cross_entropy``, on real tokens that count only.

    For models of this package whose output layer is one product; with ``--report-accuracy`` or
    ``--ignore-prefix-size``, which need all logits, and for other models it is the ordinary criterion.
    """

    def forward(self, model, sample, reduce: bool = True):
        """Summed loss, sample size (target tokens, or instances with ``--sentence-avg``) and logs of a batch."""
        decoder = getattr(model, "decoder", None)
        fusible = getattr(decoder, "output_is_product", False)
        if not fusible or self.report_accuracy or self.ignore_prefix_size or not reduce:
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], ragged=True)
        targets = extra["layout"].pack(sample["target"])
        if MASKED in sample:  # only then is there padding among the real tokens; looking for it costs a wait for a GPU
            features, targets = counted(features, targets, self.padding_idx)
        with decoder.autocast():
            loss, nll = fused_cross_entropy(features, decoder.output_weight, targets, self.eps)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logs = {
            "loss": loss.detach(),
            "nll_loss": nll.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        return loss, sample_size, logs
