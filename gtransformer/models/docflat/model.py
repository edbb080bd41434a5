"""Document Flattening (Wu et al. 2023), and attention between datapoints as their appendix C adapts it.

Instances are pseudo-documents, ``--instances sliding --context-sentences K --context-loss off``; batches are
consecutive sentences of a document, ``--batch-order document``.
"""

from __future__ import annotations

from dataclasses import replace

from fairseq.models import register_model

from gtransformer.errors import UserError
from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import Needs, check_choices
from gtransformer.models.docflat.batch_attention import AttentionBetweenInstances, FlatBatchAttention
from gtransformer.models.docflat.config import (
    BOTH,
    CONTINUOUS,
    DECODER,
    DISCRETE,
    ENCODER,
    GATES,
    NONE,
    ON,
    PLACES,
    SWITCH,
    THRESHOLD,
    AbdConfig,
    BatchAttentionConfig,
    DocFlatConfig,
)
from gtransformer.models.docflat.front import FrontDecoder, FrontEncoder
from gtransformer.models.transformer.model import InstanceTransformerModel

DOCFLAT, ABD = "docflat", "abd"


class FlatEncoder(FrontEncoder):
    """With flat-batch attention."""

    across = FlatBatchAttention


class FlatDecoder(FrontDecoder):
    """With flat-batch attention."""

    across = FlatBatchAttention


class AbdEncoder(FrontEncoder):
    """With attention between datapoints."""

    across = AttentionBetweenInstances


class AbdDecoder(FrontDecoder):
    """With attention between datapoints."""

    across = AttentionBetweenInstances


class BatchAttentionModel(InstanceTransformerModel):
    """A Transformer over pseudo-documents, with attention across the batch in front of its layers."""

    @classmethod
    def check(cls, cfg: DocumentModelConfig) -> None:
        """UserError for unknown names."""
        check_choices(cfg, batch_attention_in=PLACES, sentence_numbers=SWITCH)

    @classmethod
    def needs_of(cls, cfg: BatchAttentionConfig) -> Needs:
        """The batch, of the sides that attend to it."""
        where = str(cfg.batch_attention_in)
        return Needs(
            batch=where != NONE,
            sources=where in (ENCODER, BOTH),
            targets=where in (DECODER, BOTH),
            numbers=str(cfg.sentence_numbers) == ON,
        )


@register_model(DOCFLAT, dataclass=DocFlatConfig)
class DocFlatModel(BatchAttentionModel):
    """Flat-batch attention with a gate."""

    encoder_class, decoder_class = FlatEncoder, FlatDecoder

    @classmethod
    def check(cls, cfg: DocFlatConfig) -> None:
        """UserError for unknown names and a threshold that is no value of a gate."""
        super().check(cfg)
        check_choices(cfg, context_gate=GATES)
        if not 0 <= cfg.gate_threshold <= 1:
            raise UserError(f"--gate-threshold {cfg.gate_threshold}: gates are between 0 and 1; give one of these")

    @classmethod
    def check_training(cls, cfg: DocFlatConfig) -> None:
        """UserError for what would change nothing."""
        gate, threshold = str(cfg.context_gate), cfg.gate_threshold != THRESHOLD
        given = f"--gate-threshold {cfg.gate_threshold}" if threshold else f"--context-gate {gate}"
        if str(cfg.batch_attention_in) == NONE and (threshold or gate != CONTINUOUS):
            raise UserError(f"{given}: --batch-attention-in none leaves nothing for a gate to take in; leave it out")
        if threshold and gate != DISCRETE:
            raise UserError(f"{given}: --context-gate {gate} has no threshold; give discrete, or leave it out")


@register_model(ABD, dataclass=AbdConfig)
class AbdModel(BatchAttentionModel):
    """Attention between the means of instances (Kossen et al. 2021); in the decoder, of whole targets."""

    encoder_class, decoder_class = AbdEncoder, AbdDecoder

    @classmethod
    def needs_of(cls, cfg: AbdConfig) -> Needs:
        """As printed, in the decoder also what is to be predicted: a mean holds all of a target (Eq. 11)."""
        needs = super().needs_of(cfg)
        return replace(needs, contexts=True, future=needs.targets)


register_sizes(DOCFLAT, DocFlatModel, DocFlatConfig)
register_sizes(ABD, AbdModel, AbdConfig)
