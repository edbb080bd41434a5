"""Window attention (Herold and Ney 2023): a query sees the keys at most w positions from b_i
(section 3.3, Eq. 1).

All self- and cross-attention is like this. Memory is linear in the document's length.
"""

from dataclasses import dataclass, replace

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, Scope
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.model import DocumentModel, register
from gtransformer.modules import alignment
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_window

ONE_TO_ONE, LINEAR, SENTENCE = ALIGNMENTS = ("one-to-one", "linear", "sentence")
WINDOW_POSITIONS = ("absolute", "relative")
CENTRES = {
    ONE_TO_ONE: alignment.one_to_one,
    LINEAR: alignment.linear,
    SENTENCE: alignment.sentence_aligned,
}


@dataclass(frozen=True)
class OwnWindow(Scope):
    """Self-attention to the keys around the query itself, b_i = i."""

    name = "window"
    width: int

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        return by_window(queries, keys, alignment.one_to_one(queries, keys), self.width, causal)


@dataclass(frozen=True)
class AlignedWindow(Scope):
    """Cross-attention to the keys around an aligned position.

    Attributes:
        width: w.
        whole: the alignment of whole documents, in training and scoring.
        decoding: the alignment in decoding, when the target's length is unknown.
        ratio: source tokens for each target token, for the linear alignment in decoding.
    """

    name = "window"
    width: int
    whole: str
    decoding: str
    ratio: float

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        # In decoding the target's length is unknown, which the linear alignment divides by.
        kind = self.whole if queries.whole else self.decoding
        ratio = {} if queries.whole or kind != LINEAR else {"ratio": self.ratio}
        centres = CENTRES[kind](queries, keys, **ratio)
        return by_window(queries, keys, centres, self.width, causal)


@dataclass
class WindowTransformerConfig(DocumentModelConfig):
    """A Transformer whose attention is a window; defaults are the paper's best (its section 4.3,
    Table 4).
    """

    window: int = option(
        20, "w: every query sees the keys at most so many positions from the middle of its window"
    )
    window_positions: str = option(
        "relative",
        "absolute: position embeddings at the input; relative: instead of them, vectors in "
        "self-attention for each "
        "distance up to the window's (Shaw et al. 2018)",
        WINDOW_POSITIONS,
    )
    train_alignment: str = option(
        LINEAR,
        "middle of cross-attention's windows while whole target documents are known (training, "
        "scoring). linear: both "
        "documents stretched to one length; sentence: from the first token of the sentence's "
        "source on; one-to-one: "
        "the same position",
        ALIGNMENTS,
    )
    decode_alignment: str = option(
        SENTENCE,
        "the same in decoding, where linear stretches by --length-ratio; --model-overrides changes "
        "it",
        ALIGNMENTS,
    )
    length_ratio: float | None = option(
        None,
        "source tokens for each target token, mean over documents",
    )


@register("window_transformer", WindowTransformerConfig)
class WindowTransformerModel(DocumentModel):
    """A Transformer that never sees beyond its window."""

    @classmethod
    def build(
        cls, cfg: WindowTransformerConfig, source: Vocabulary, target: Vocabulary
    ) -> DocumentModel:
        """Build; with relative positions the input has none, whatever the options say."""
        # Shaw et al.'s vectors replace positions at the input; cfg keeps what the user gave, for
        # the checkpoint.
        without = cfg.no_token_positional_embeddings or cfg.window_positions == "relative"
        model = super().build(replace(cfg, no_token_positional_embeddings=without), source, target)
        model.cfg = cfg
        return model

    @classmethod
    def check(cls, cfg: WindowTransformerConfig) -> None:
        """Raise UserError for linear decoding without a ratio."""
        if cfg.length_ratio is None and cfg.decode_alignment == LINEAR:
            raise UserError(
                "--decode-alignment linear needs --length-ratio, source tokens for each target "
                "token"
            )

    @classmethod
    def encoder_blocks(cls, cfg: WindowTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(_self_attention(cfg),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: WindowTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        # Without a ratio, decoding is not linear, and none is read.
        scope = AlignedWindow(
            cfg.window, cfg.train_alignment, cfg.decode_alignment, cfg.length_ratio or 1.0
        )
        cross_attention = AttentionBlock("encoder_attn", ((scope,),), memory="source")
        return [(_self_attention(cfg), cross_attention)] * cfg.decoder_layers


def _self_attention(cfg: WindowTransformerConfig) -> AttentionBlock:
    """Return the block of self-attention, with relative positions if the options say so."""
    # No query sees a key farther away than the window, so no larger distance needs a vector.
    relative = cfg.window if cfg.window_positions == "relative" else None
    return AttentionBlock("self_attn", ((OwnWindow(cfg.window),),), relative=relative)
