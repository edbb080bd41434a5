"""A system of one's own, outside of the package: on its top layers the decoder also sees the sentence before.

``--user-dir docs/example_system/neighbours --arch neighbours``; docs/architecture.md goes through it.
"""

from dataclasses import dataclass

import numpy as np
from fairseq.models import register_model

import gtransformer  # noqa: F401  (registers the task, the criterion and the other architectures)
from gtransformer.models.common.architectures import register_sizes
from gtransformer.models.common.blocks import AttentionBlock, BySentence, Scope
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import DocumentModel, check_sharing, make_embeddings
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, in_reading_order


# 1. Who sees whom: a scope gives every query the interval of keys that it sees.
@dataclass(frozen=True)
class WithPrevious(Scope):
    """The keys of the query's own sentence and of the one before it."""

    name = "with_previous"
    prefix_sentences = 2  # the reach, named for decoding; without this line it is slower and as right

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        """Tags count the sentences of a document, from 1."""
        sentence, wanted = ((side.doc.astype(np.int64) << 32) + side.tag for side in (keys, queries))
        first, end = np.searchsorted(sentence, wanted - 1, "left"), np.searchsorted(sentence, wanted, "right")
        return in_reading_order(queries, keys, first, end, causal)


# 2. What can be set on the command line, besides all that document models have.
@dataclass
class NeighboursConfig(DocumentModelConfig):
    """A document model, and how many of its layers see the sentence before."""

    decoder_neighbour_layers: int = option(1, "top decoder layers whose self-attention sees the sentence before, too")


# 3. Which layer has which attention, lowest first.
SENTENCE, WITH_PREVIOUS = ((BySentence(),),), ((WithPrevious(),),)


def encoder_blocks(cfg: NeighboursConfig) -> list[tuple[AttentionBlock, ...]]:
    """Self-attention within the sentence."""
    return [(AttentionBlock("self_attn", SENTENCE),)] * cfg.encoder_layers


def decoder_blocks(cfg: NeighboursConfig) -> list[tuple[AttentionBlock, ...]]:
    """Self-attention within the sentence, on the top layers with the one before; cross-attention to the sentence."""
    top = cfg.decoder_neighbour_layers
    return [
        (
            AttentionBlock("self_attn", scopes, causal=True),
            AttentionBlock("encoder_attn", SENTENCE, memory="source"),
        )
        for scopes in [SENTENCE] * (cfg.decoder_layers - top) + [WITH_PREVIOUS] * top
    ]


# 4. The model, known to fairseq by its name.
@register_model("neighbours", dataclass=NeighboursConfig)
class NeighboursModel(DocumentModel):
    """Encoder and decoder with the attention declared above."""

    @classmethod
    def build_model(cls, cfg: NeighboursConfig, task) -> "NeighboursModel":
        """Build from a configuration and a task with source and target dictionaries."""
        check_sharing(cfg, task.source_dictionary, task.target_dictionary)
        source, target = make_embeddings(cfg, task.source_dictionary, task.target_dictionary)
        encoder = DocumentEncoder(cfg, task.source_dictionary, source, encoder_blocks(cfg))
        return cls(cfg, encoder, DocumentDecoder(cfg, task.target_dictionary, target, decoder_blocks(cfg)))


# 5. Its named sizes, neighbours_mini to neighbours_large.
register_sizes("neighbours", NeighboursModel, NeighboursConfig)
