"""A system outside the package: on its top layers the decoder also sees the previous sentence.

``--user-dir docs/example_system/neighbours --arch neighbours``; docs/new_system.md explains it.
"""

from dataclasses import dataclass

import numpy as np

import gtransformer  # noqa: F401  (registers the task, the criterion and the other architectures)
from gtransformer.errors import UserError
from gtransformer.models import DocumentModel, register
from gtransformer.models.common.blocks import AttentionBlock, BySentence, Scope
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.modules.reach import interval


# 1. A scope gives every query the interval of keys that it sees.
@dataclass(frozen=True)
class WithPrevious(Scope):
    """The keys of the query's own sentence and of the one before it; tags count the sentences of an
    instance.
    """

    name = "with_previous"

    def reach(self, queries, keys, causal):
        # ``sentence`` is document and tag as one number, so an interval never leaves its document.
        first = np.searchsorted(keys.sentence, queries.sentence - 1, "left")
        end = np.searchsorted(keys.sentence, queries.sentence, "right")
        return interval(queries, keys, first, end, causal)


# 2. Options on the command line, in addition to those of all document models.
@dataclass
class NeighboursConfig(DocumentModelConfig):
    """The options of a document model, and how many decoder layers see the previous sentence."""

    decoder_neighbour_layers: int = option(
        1, "top decoder layers whose attention sees the sentence before, too"
    )


# 3. The attention of each layer, lowest first, and the system's name (--arch neighbours,
# neighbours_mini, ...).
SENTENCE, WITH_PREVIOUS = ((BySentence(),),), ((WithPrevious(),),)


@register("neighbours", NeighboursConfig)
class NeighboursModel(DocumentModel):
    """The encoder and the lower decoder layers see the current sentence only."""

    @classmethod
    def check(cls, cfg):
        if not 0 <= cfg.decoder_neighbour_layers <= cfg.decoder_layers:
            raise UserError(
                f"--decoder-neighbour-layers {cfg.decoder_neighbour_layers}: there are not so many "
                "layers"
            )

    @classmethod
    def encoder_blocks(cls, cfg):
        return [(AttentionBlock("self_attn", SENTENCE),)] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg):
        top = cfg.decoder_neighbour_layers
        return [
            (
                AttentionBlock("self_attn", scopes),
                AttentionBlock("encoder_attn", scopes, memory="source"),
            )
            for scopes in [SENTENCE] * (cfg.decoder_layers - top) + [WITH_PREVIOUS] * top
        ]
