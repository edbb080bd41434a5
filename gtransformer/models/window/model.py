"""Window attention in every self- and cross-attention, at a memory that is linear in the document's length."""

import math
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model

from gtransformer.errors import UserError
from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.config import DocumentModelConfig, option, with_options
from gtransformer.models.common.model import DocumentModel, check_choices
from gtransformer.models.window.attention import ALIGNMENTS, LINEAR, SENTENCE, AlignedWindow, OwnWindow

POSITIONS = ("absolute", "relative")


# The annotations below must be types, not strings, because fairseq builds its command line from them.
@dataclass
class WindowTransformerConfig(DocumentModelConfig):
    """A Transformer whose attention is a window; defaults are the paper's best (its section 4.3, Table 4)."""

    window: int = option(20, "w: every query sees the keys at most so many positions from the middle of its window")
    window_positions: ChoiceEnum(POSITIONS) = option(
        "relative",
        "absolute: position embeddings at the input; relative: in place of them vectors in self-attention for each "
        "distance up to the window's (Shaw et al. 2018)",
    )
    train_alignment: ChoiceEnum(ALIGNMENTS) = option(
        LINEAR,
        "middle of cross-attention's windows while whole target documents are known (training, scoring). linear: both "
        "documents stretched to one length; sentence: from the first token of the sentence's source on; one-to-one: "
        "the same place",
    )
    decode_alignment: ChoiceEnum(ALIGNMENTS) = option(
        SENTENCE, "the same in decoding, where linear stretches by --length-ratio; --model-overrides changes it"
    )
    length_ratio: Optional[float] = option(  # noqa: UP045
        None,
        "source tokens for each target token, mean over documents; training takes it from its data and saves it with "
        "the model",
    )


NAME = "window_transformer"


@register_model(NAME, dataclass=WindowTransformerConfig)
class WindowTransformerModel(DocumentModel):
    """A Transformer that never sees further than its window."""

    @classmethod
    def build_model(cls, cfg: WindowTransformerConfig, task):
        """Build; with relative positions there are none at the input, whatever the options say."""
        cls.check(cfg)
        without = cfg.no_token_positional_embeddings or str(cfg.window_positions) == "relative"
        model = super().build_model(with_options(cfg, no_token_positional_embeddings=without), task)
        model.cfg = cfg
        return model

    @classmethod
    def check(cls, cfg: WindowTransformerConfig) -> None:
        """UserError for a window without neighbours, unknown names, and linear decoding without a ratio."""
        if cfg.window < 1:
            raise UserError(f"--window {cfg.window}: give at least 1")
        check_choices(cfg, window_positions=POSITIONS, train_alignment=ALIGNMENTS, decode_alignment=ALIGNMENTS)
        if cfg.length_ratio is not None and not 0 < cfg.length_ratio < math.inf:
            raise UserError(f"--length-ratio {cfg.length_ratio:g}: give a number greater than 0")
        if cfg.length_ratio is None and str(cfg.decode_alignment) == LINEAR:
            raise UserError(
                "--decode-alignment linear needs --length-ratio, source tokens for each target token; training through "
                "fairseq-train takes it from its data"
            )

    @classmethod
    def encoder_blocks(cls, cfg: WindowTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(cls._own(cfg, causal=False),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: WindowTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        scope = AlignedWindow(cfg.window, str(cfg.train_alignment), str(cfg.decode_alignment), cfg.length_ratio or 1.0)
        cross = AttentionBlock("encoder_attn", ((scope,),), memory="source")
        return [(cls._own(cfg, causal=True), cross)] * cfg.decoder_layers

    @staticmethod
    def _own(cfg: WindowTransformerConfig, causal: bool) -> AttentionBlock:
        relative = cfg.window if str(cfg.window_positions) == "relative" else None
        return AttentionBlock("self_attn", ((OwnWindow(cfg.window),),), causal=causal, relative=relative)


register_sizes(NAME, WindowTransformerModel, WindowTransformerConfig)
