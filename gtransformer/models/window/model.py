"""Window attention in every self- and cross-attention, at a memory that is linear in the document's length."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext

from fairseq.models import register_model
from omegaconf import OmegaConf, open_dict

from gtransformer.errors import UserError
from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.model import DocumentModel, check_choices
from gtransformer.models.window.attention import ALIGNMENTS, LINEAR, AlignedWindow, OwnWindow
from gtransformer.models.window.config import POSITIONS, WindowTransformerConfig

NAME = "window_transformer"


@register_model(NAME, dataclass=WindowTransformerConfig)
class WindowTransformerModel(DocumentModel):
    """A Transformer that never sees further than its window."""

    @classmethod
    def build_model(cls, cfg: WindowTransformerConfig, task) -> WindowTransformerModel:
        """Build; with relative positions there are none at the input, whatever the options say."""
        cls.check(cfg)
        inner = copy.deepcopy(cfg)
        with open_dict(inner) if OmegaConf.is_config(inner) else nullcontext():
            inner.no_token_positional_embeddings |= str(cfg.window_positions) == "relative"
        model = super().build_model(inner, task)
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
