"""Every system as a tiny random model in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairseq.data import Dictionary

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, Scope
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, interval
from tests.support import drawn, tiny_model


@dataclass(frozen=True)
class LastSentences(Scope):
    """The query's own sentence and so many before it."""

    name = "last_sentences"
    before: int

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        first = keys.sentence.searchsorted(queries.sentence - self.before, "left")
        end = keys.sentence.searchsorted(queries.sentence, "right")
        return interval(queries, keys, first, end, causal)


class LastSentencesModel(InstanceTransformerModel):
    """Decoder layers whose heads look one and two sentences back."""

    @classmethod
    def decoder_blocks(cls, cfg: DocumentModelConfig) -> list[tuple[AttentionBlock, ...]]:
        own = AttentionBlock("self_attn", ((LastSentences(1), LastSentences(2)),))
        return [
            (own, AttentionBlock("encoder_attn", ((ByDocument(),),), memory="source"))
        ] * cfg.decoder_layers


def windows(**options) -> Callable[[Dictionary], DocumentModel]:
    """Makes the system with window attention."""
    settings = {"window": 3, "length_ratio": 1.3, **options}
    return lambda dictionary: drawn(
        dictionary, WindowTransformerModel, WindowTransformerConfig, **settings
    )


SYSTEMS: dict[str, Callable[[Dictionary], DocumentModel]] = {
    "gtransformer": lambda dictionary: tiny_model(dictionary).double(),
    "gtransformer by sentence": lambda dictionary: tiny_model(
        dictionary, positions="sentence"
    ).double(),
    "gtransformer with SSRU": lambda dictionary: tiny_model(
        dictionary, decoder_unit="ssru"
    ).double(),
    "doc_transformer": lambda dictionary: drawn(dictionary, InstanceTransformerModel),
    "lst_transformer": lambda dictionary: drawn(
        dictionary, LstTransformerModel, LstTransformerConfig
    ),
    "lst_transformer by sentence": lambda dictionary: drawn(
        dictionary, LstTransformerModel, LstTransformerConfig, translation_locality=True
    ),
    "window one-to-one": windows(decode_alignment="one-to-one"),
    "window linear, relative": windows(decode_alignment="linear", window_positions="relative"),
    "window by sentence": windows(decode_alignment="sentence", window=40),
    "last sentences": lambda dictionary: drawn(dictionary, LastSentencesModel),
}
