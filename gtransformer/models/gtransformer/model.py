"""The G-Transformer (Bao et al. 2021) as a model.

Attention in a layer is by group, over the document, or both combined (section 4.2). The paper's
model has group attention on the lower and combined attention on the top layers. With ``--doc-mode
full`` all attention is over the document. Other combinations are the ablations of its Tables 5 and
6.
"""

from dataclasses import dataclass

from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence
from gtransformer.models.common.config import (
    BOTH_MARKS,
    DOCUMENT,
    POSITION_KINDS,
    SENTENCE,
    SENTENCE_MARKS,
    DocumentModelConfig,
    option,
)
from gtransformer.models.common.model import DocumentModel, register
from gtransformer.models.common.pretrained import from_transformer, is_copied, make_neutral

DOC_MODES = ("partial", "full")
CONTEXT_ATTENTION = ("combined", "global")
ATTENTION, SSRU = DECODER_UNITS = ("attention", "ssru")
ALL_PARAMETERS, NEW, TOP = TRAINED_PARAMETERS = ("all", "new", "top")


@dataclass
class GTransformerConfig(DocumentModelConfig):
    """A document model, and which of its layers look beyond the sentence."""

    encoder_ctxlayers: int = option(
        2, "top encoder layers with combined (group and global) self-attention"
    )
    decoder_ctxlayers: int = option(
        2, "top decoder layers with combined (group and global) self-attention"
    )
    cross_ctxlayers: int = option(
        2, "top decoder layers with combined (group and global) cross-attention"
    )
    context_attention: str = option(
        "combined",
        "on the top layers that --*-ctxlayers count: group and global attention, or global alone "
        "(Table 6)",
        CONTEXT_ATTENTION,
    )
    no_language_locality: bool = option(
        False,
        "self-attention of every layer sees the whole document, in encoder and decoder (Table 5)",
    )
    no_translation_locality: bool = option(
        False, "cross-attention of every layer sees the whole source document (Table 5)"
    )
    positions: str = option(
        DOCUMENT,
        "document: as in the paper; sentence: they restart there, and global attention receives "
        "sentence numbers",
        POSITION_KINDS,
    )
    gate_bias: float | None = option(
        None, "initial bias of gates; the larger, the less of global attention passes (default: 0)"
    )
    neutral_gates: bool = option(
        False,
        "with --load-partial, identity-initialised gates, which change nothing at first",
    )
    sentence_model: str | None = option(
        None,
        "start from this sentence Transformer, a checkpoint of fairseq's task translation or of "
        "this package, with equal outputs at first (not with --doc-mode full); the data must have "
        "its dictionary",
    )
    sentence_marks: str = option(
        BOTH_MARKS,
        "boundary tokens that layers see. both: <s> and </s>; end: </s> behind a source and "
        "around a target sentence, as in fairseq's task translation; start: no <s> on the source "
        "side, as in Marian (set by --sentence-model)",
        SENTENCE_MARKS,
    )
    output_words: int | None = option(
        None,
        "only the first N entries of the dictionary can be predicted, the sentence model's (set by "
        "--sentence-model)",
    )
    first_output_word: int | None = option(
        None,
        "what is in front of this entry of the dictionary cannot be predicted (set by "
        "--sentence-model)",
    )
    decoder_unit: str = option(
        ATTENTION,
        "attention, or ssru, the recurrent unit of Marian's small models (set by --sentence-model)",
        DECODER_UNITS,
    )
    target_prefix: str | None = option(
        None,
        "the given word that every target sentence begins with, a language's (set by "
        "--sentence-model)",
    )
    load_partial_global_from_local: bool = option(
        False, "as --load-partial, but global attention starts as a copy of group attention"
    )
    trained_parameters: str = option(
        ALL_PARAMETERS,
        "what fine-tuning trains. new: what the pretrained model does not have; top: all of the "
        "layers with new parameters",
        TRAINED_PARAMETERS,
    )


GROUP = "group"  # Eq. 8 alone
COMBINED = "combined"  # Eq. 10: group and global attention, gated
GLOBAL = "global"  # Eq. 5 alone, over the whole document
SCOPES = {
    GROUP: ((BySentence(),),),
    COMBINED: ((BySentence(),), (ByDocument(),)),
    GLOBAL: ((ByDocument(),),),
}


def attention_kinds(cfg: GTransformerConfig, part: str) -> list[str]:
    """Return GROUP, COMBINED or GLOBAL for every layer, lowest first.

    Args:
        part: "encoder" or "decoder" (self-attention), or "cross" (the decoder's attention to the
            source).
    """
    layers = cfg.encoder_layers if part == "encoder" else cfg.decoder_layers
    unbound = cfg.no_translation_locality if part == "cross" else cfg.no_language_locality
    # --doc-mode full is the plain Transformer over the document: no group attention on any layer.
    if cfg.doc_mode == "full" or unbound:
        return [GLOBAL] * layers
    context = getattr(cfg, f"{part}_ctxlayers")
    # Combined attention on top alone (section 4.2): lower layers work within the sentence.
    return [GROUP] * (layers - context) + [cfg.context_attention] * context


def _block(cfg: GTransformerConfig, name: str, kind: str, **more) -> AttentionBlock:
    """Return attention of a kind, with its sentence numbers and initial gate bias."""
    # Positions that restart do not say which sentence comes first; numbers do.
    numbered, bias = cfg.positions == SENTENCE, cfg.gate_bias or 0.0
    return AttentionBlock(name, SCOPES[kind], numbered=numbered, gate_bias=bias, **more)


@register("gtransformer", GTransformerConfig)
class GTransformerModel(DocumentModel):
    """Encoder-decoder over whole documents; ``--doc-mode full`` makes it a plain Transformer over
    the document.
    """

    @classmethod
    def check(cls, cfg: GTransformerConfig) -> None:
        """Raise UserError for more combined layers than there are layers."""
        depth = {
            "encoder": cfg.encoder_layers,
            "decoder": cfg.decoder_layers,
            "cross": cfg.decoder_layers,
        }
        for name, layers in depth.items():
            context = getattr(cfg, f"{name}_ctxlayers")
            # A list multiplied by a negative number is empty: the model would have more layers.
            if cfg.doc_mode == "partial" and not 0 <= context <= layers:
                raise UserError(
                    f"--{name}-ctxlayers {context} is not between 0 and the {layers} layers there "
                    "are"
                )

    @classmethod
    def encoder_blocks(cls, cfg: GTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        """Return self-attention (group: Eq. 8 with G_Q = G_K = G_X)."""
        return [(_block(cfg, "self_attn", kind),) for kind in attention_kinds(cfg, "encoder")]

    @classmethod
    def decoder_blocks(cls, cfg: GTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        """Return self-attention (group: G_Q = G_K = G_Y) and cross-attention (group: G_Q = G_Y, G_K
        = G_X).
        """
        recurrent = cfg.decoder_unit == SSRU
        self_kinds, cross_kinds = attention_kinds(cfg, "decoder"), attention_kinds(cfg, "cross")
        return [
            (
                _block(cfg, "self_attn", self_kind, recurrent=recurrent),
                _block(cfg, "encoder_attn", cross_kind, memory="source"),
            )
            for self_kind, cross_kind in zip(self_kinds, cross_kinds, strict=True)
        ]

    def learns_as_new(self, name: str) -> bool:
        """See the base class; a copy of group attention counts as pretrained, as in the release."""
        return super().learns_as_new(name) and not (
            self.cfg.load_partial_global_from_local and is_copied(name)
        )

    def from_transformer(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """See the base class; global attention may be a copy of group attention, and gates
        identity-initialised.
        """
        complete = from_transformer(state, self, self.cfg.load_partial_global_from_local)
        if self.cfg.neutral_gates:
            # A checkpoint's own gates have been trained and stay.
            fresh = [name for name in complete if name not in state]
            make_neutral(complete, fresh, self.cfg.gate_bias or 0.0)
        return complete
