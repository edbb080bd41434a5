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

from gtransformer.data.batch_fields import ROWS
from gtransformer.data.packing import PACKED
from gtransformer.modules.fused_loss import fused_cross_entropy
from gtransformer.plugin.config import FUSED_LOSS

# In validation logs: without forced symbols, and the number of these tokens.
WORD_NLL, WORDS = "word_nll", "words"


@register_criterion(FUSED_LOSS, dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class FusedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """The loss, options and logs of ``label_smoothed_cross_entropy``, computed only on tokens that
    count.

    It is for models of this package whose output layer is one matrix product. For other models it
    is the ordinary criterion, as with ``--report-accuracy`` and ``--ignore-prefix-size``, which
    need all logits.

    Validation also logs the loss of words and ``</s>`` only (``word_nll_loss`` in bits a token,
    ``word_ppl``). ``<s>`` between sentences and the language symbol are easy to predict once
    learned, and their share differs between documents and sentences. So this number is comparable
    between models of documents and of sentences.
    """

    def forward(self, model, sample, reduce: bool = True):
        """Return the summed loss, sample size (target tokens, or instances with ``--sentence-avg``)
        and logs.
        """
        if PACKED in sample:
            loss, nll = self.task.compiling.loss(model, sample[PACKED], self.eps)
            return self._result(sample, sample["nsentences"], loss, nll, {})
        decoder = getattr(model, "decoder", None)
        # Whether logits are nothing but states times weights.
        fusible = getattr(decoder, "output_is_product", False)
        if not fusible or self.report_accuracy or self.ignore_prefix_size or not reduce:
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], ragged=True)
        targets = extra["layout"].pack(sample["target"])
        if ROWS in sample:  # from the data set: a search for padding would synchronise with the GPU
            features = features.index_select(0, sample[ROWS])
            targets = targets.index_select(0, sample[ROWS])
        with decoder.autocast():
            product = decoder.output_product(features, targets)
            loss, nll = fused_cross_entropy(*product, self.eps)
            of_words = {}
            if not model.training and hasattr(self.task, "sides"):
                # Words are all but the tokens that search inserts itself.
                forced = torch.isin(targets, targets.new_tensor(self.task.sides.unpredicted))
                states, weight, goals = product
                goals = goals[forced]
                _, theirs = fused_cross_entropy(states[forced], weight, goals, 0.0)
                of_words = {WORD_NLL: nll - theirs, WORDS: len(targets) - len(goals)}
        return self._result(sample, sample["target"].size(0), loss, nll, of_words)

    def _result(
        self, sample: dict, instances: int, loss: Tensor, nll: Tensor, of_words: dict
    ) -> tuple:
        """Return what ``forward`` returns."""
        # What gradients are divided by.
        sample_size = instances if self.sentence_avg else sample["ntokens"]
        logs = {
            "loss": loss.detach(),
            "nll_loss": nll.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": instances,
            "sample_size": sample_size,
            **of_words,
        }
        return loss, sample_size, logs

    @classmethod
    def reduce_metrics(cls, logging_outputs) -> None:
        """Log fairseq's values and the loss of words."""
        super().reduce_metrics(logging_outputs)
        if words := sum(int(logs.get(WORDS, 0)) for logs in logging_outputs):
            nll = sum(float(logs[WORD_NLL]) for logs in logging_outputs if WORD_NLL in logs)
            metrics.log_scalar(f"{WORD_NLL}_loss", nll / words / math.log(2), words, round=4)
            metrics.log_derived(
                "word_ppl", lambda meters: utils.get_perplexity(meters[f"{WORD_NLL}_loss"].avg)
            )
