"""Tiny models of every system in float64, and what one gives a sentence: a plain pass over a text
written by hand.
"""

from __future__ import annotations

import torch
from fairseq.data import Dictionary

from gtransformer.evaluation.sentence_scores import TokenLists
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.support import drawn

SYSTEMS = {
    "transformer": (InstanceTransformerModel, DocumentModelConfig, {}),
    "lst": (LstTransformerModel, LstTransformerConfig, {}),
    "lst by sentence": (LstTransformerModel, LstTransformerConfig, {"translation_locality": True}),
    "gtransformer": (GTransformerModel, GTransformerConfig, {"doc_mode": "partial"}),
    **{
        f"window {alignment}": (
            WindowTransformerModel,
            WindowTransformerConfig,
            {"window": 3, "length_ratio": 1.2, "train_alignment": alignment},
        )
        for alignment in ("linear", "sentence", "one-to-one")
    },
}


def make_system(name: str, dictionary: Dictionary) -> DocumentModel:
    """A model of ``SYSTEMS``."""
    kind, config, options = SYSTEMS[name]
    return drawn(dictionary, kind, config, seed=3, **options)


@torch.no_grad()
def score_by_hand(
    model, dictionary: Dictionary, source: TokenLists, target: TokenLists, sentence: int
) -> float:
    """Log probability of one sentence of the target, all of both sides being read as in
    training.
    """
    bos, eos = dictionary.bos(), dictionary.eos()
    read, written = (
        [token for one in side for token in (bos, *one, eos)] for side in (source, target)
    )
    logits, _ = model(torch.tensor([read]), torch.tensor([len(read)]), torch.tensor([written]))
    table = torch.log_softmax(logits[0].double(), dim=-1)
    total, number = 0.0, 0
    for position, token in enumerate(written[1:]):
        if token == bos:
            number += 1
        elif number == sentence:
            total += table[position, token].item()
    return total
