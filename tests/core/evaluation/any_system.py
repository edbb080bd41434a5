"""Tiny models of every system in float64, and what one gives a sentence: a plain pass over a text written by hand."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields

import torch
from fairseq.data import Dictionary

from gtransformer.evaluation.sentence_scores import TokenLists
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.models.transformer import InstanceTransformerModel, LstTransformerConfig, LstTransformerModel
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.support import tiny_config

SYSTEMS = {
    "transformer": (InstanceTransformerModel, DocumentModelConfig, {}),
    "lst": (LstTransformerModel, LstTransformerConfig, {}),
    "lst by sentence": (LstTransformerModel, LstTransformerConfig, {"translation_locality": True}),
    "gtransformer": (GTransformerModel, GTransformerConfig, {"doc_mode": "partial"}),
    **{
        f"window {alignment}": (WindowTransformerModel, WindowTransformerConfig, {"train_alignment": alignment})
        for alignment in ("linear", "sentence", "one-to-one")
    },
}


def make_system(name: str, dictionary: Dictionary) -> DocumentModel:
    """A model of ``SYSTEMS`` in float64 with weights drawn wide, so that sentences differ."""
    kind, config, options = SYSTEMS[name]
    known = {field.name for field in fields(config)}
    sizes = {key: value for key, value in vars(tiny_config()).items() if key in known}
    options = {**({"window": 3, "length_ratio": 1.2} if "window" in known else {}), **options}
    torch.manual_seed(3)
    model = kind.build_model(
        config(**{**sizes, **options}), Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.dim() == 2 else parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


@torch.no_grad()
def score_by_hand(model, dictionary: Dictionary, source: TokenLists, target: TokenLists, sentence: int) -> float:
    """Log probability of one sentence of the target, all of both sides being read as in training."""
    bos, eos = dictionary.bos(), dictionary.eos()
    read, written = ([token for one in side for token in (bos, *one, eos)] for side in (source, target))
    logits, _ = model(torch.tensor([read]), torch.tensor([len(read)]), torch.tensor([written]))
    table = torch.log_softmax(logits[0].double(), dim=-1)
    total, number = 0.0, 0
    for position, token in enumerate(written[1:]):
        if token == bos:
            number += 1
        elif number == sentence:
            total += table[position, token].item()
    return total
