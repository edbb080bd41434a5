"""fairseq's label-smoothed cross-entropy without its two (tokens, vocabulary) tensors."""

from __future__ import annotations

import math

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from torch import Tensor
from torch.nn import functional

from gtransformer.data.batch_fields import MASKED, counted
from gtransformer.modules.fused_loss import LOSSES, fused_cross_entropy

OWN = "own_loss_"  # in the logs: a loss that the model has beside this one
WORD_NLL, WORDS = "word_nll", "words"  # in those of validation: without what leaves no choice, and of how many tokens


@register_criterion("fused_label_smoothed_cross_entropy", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class FusedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """The same loss, options and logs as ``label_smoothed_cross_entropy``, on real tokens that count only.

    For models of this package whose output layer is one product; with ``--report-accuracy`` or
    ``--ignore-prefix-size``, which need all logits, and for other models it is the ordinary criterion. Losses that a
    model has beside it, of yes or no for each instance, are smoothed and summed as that of the tokens is, added, and
    logged by instance.

    Validation says, too, what words and ``</s>`` cost alone (``word_nll_loss`` in bits a token, ``word_ppl``). ``<s>``
    between sentences and the language symbol cost next to nothing once they are learned, and much before; documents
    have more of the one, sentences of the other. So this is the number by which models on either can be compared.
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
            forced = torch.isin(targets, targets.new_tensor(getattr(self.task, "unpredicted_symbols", [])))
            product = decoder.output_product(features, targets)
            loss, nll = fused_cross_entropy(*product, self.eps)
            validation = not model.training and hasattr(self.task, "unpredicted_symbols")
            of_words = self._of_words(*product, forced, nll) if validation else {}
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        own = {OWN + name: binary_loss(*one, self.eps) for name, one in extra.get(LOSSES, {}).items()}
        loss = sum(own.values(), loss)
        logs = {
            **{name: one.detach() for name, one in own.items()},
            "loss": loss.detach(),
            "nll_loss": nll.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            **of_words,
        }
        return loss, sample_size, logs

    def _of_words(
        self, features: Tensor, weight: Tensor, targets: Tensor, forced: Tensor, nll: Tensor
    ) -> dict[str, Tensor | int]:
        """Of the negative log likelihood of all targets what is that of words, and how many these are."""
        forced = forced.nonzero().squeeze(1)
        _, theirs = fused_cross_entropy(features.index_select(0, forced), weight, targets.index_select(0, forced), 0.0)
        return {WORD_NLL: nll - theirs, WORDS: len(targets) - len(forced)}

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """As fairseq's; what words cost; and models' own losses, in bits by instance, of batches that have them."""
        super().reduce_metrics(logging_outputs)
        if words := sum(int(logs.get(WORDS, 0)) for logs in logging_outputs):
            nll = sum(float(logs[WORD_NLL]) for logs in logging_outputs if WORD_NLL in logs)
            metrics.log_scalar(f"{WORD_NLL}_loss", nll / words / math.log(2), words, round=4)
            metrics.log_derived("word_ppl", lambda meters: utils.get_perplexity(meters[f"{WORD_NLL}_loss"].avg))
        for name in sorted({name for logs in logging_outputs for name in logs if name.startswith(OWN)}):
            having = [logs for logs in logging_outputs if name in logs]
            total, size = (sum(float(logs[key]) for logs in having) for key in (name, "nsentences"))
            metrics.log_scalar(name.removeprefix(OWN), total / size / math.log(2), size, round=3)


def binary_loss(logits: Tensor, truth: Tensor, eps: float) -> Tensor:
    """Summed cross-entropy in nats of yes (n,) bool from logits (n,), label-smoothed: the other answer has ``eps``."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    wanted = truth.to(exact.dtype) * (1 - 2 * eps) + eps
    return functional.binary_cross_entropy_with_logits(exact, wanted, reduction="sum")
