"""Loss per token of a sentence model and of document models that start from it, before any update.

The sentence model scores the sentences of a split one by one; document models score its whole
instances, in float32. Words and ``</s>`` count, the given ``<s>`` and the language symbol do not.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.references import find_instance_index
from gtransformer.evaluation.sentence_scores import Layout, Request, SentenceScorer, TokenLists
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.plugin.checkpoints import load_trained, read_settings, read_state
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.sentence_start import (
    is_own,
    start_from_sentence_model,
    words_before_symbols,
)
from gtransformer.plugin.task import TranslationDocTask
from gtransformer.translation.engine import model_options

STARTS = {
    "neutral": {"gate_bias": 0.0, "neutral_gates": True},
    "paper": {
        "positions": "document",
        "gate_bias": None,
        "neutral_gates": False,
    },  # gates at random
}


def measure(
    prepared: Path, checkpoint: Path, split: str, starts: Sequence[str], context_layers: int = 2
) -> dict[str, Any]:
    """Return nats per token: of the sentence model and, for each of the ``STARTS``, of the document
    model.

    Args:
        context_layers: number of upper layers with global attention, in encoder, decoder and
            cross-attention.

    ``largest`` is the largest difference of a token's loss. Raises UserError for a model that no
    training can start from.
    """
    index = InstanceIndex.load(find_instance_index(prepared, split))
    config = TranslationDocConfig(data=str(prepared / "bin"), dataset_impl=None)
    config.source_lang, config.target_lang = index.source_lang, index.target_lang
    task = TranslationDocTask.setup_task(config)
    task.load_dataset(split)
    dataset, dictionaries = task.dataset(split), (task.source_dictionary, task.target_dictionary)
    documents = []
    for number in range(len(dataset)):
        source, target = dataset.src[number].tolist(), dataset.tgt[number].tolist()
        sides = split_tokens(source, dictionaries[0]), split_tokens(target, dictionaries[1])
        documents.append(sides)
    whole = [Request(*sides) for sides in documents]
    start, costs = GTransformerConfig(sentence_model=str(checkpoint), doc_mode="partial"), {}
    # Whole instances are scored, however long the sentence model's positions are.
    start.max_source_positions = start.max_target_positions = UNLIMITED_POSITIONS
    start_from_sentence_model(start, None, task)
    layers = {f"{part}_ctxlayers": context_layers for part in ("encoder", "decoder", "cross")}
    for name in starts:
        torch.manual_seed(1)  # the paper's start draws gates and global attention
        model = GTransformerModel.build(
            dataclasses.replace(start, **layers, **STARTS[name]), *dictionaries
        )
        model.load_state_dict(read_state(Path(start.sentence_model))["model"])
        costs[name] = _costs(SentenceScorer(model.eval(), *dictionaries), whole)
    model, known, own = _sentence_model(checkpoint, task)
    # A model of fairseq was never trained on <s>: its decoder starts from </s>.
    layouts = None if own else tuple(Layout(one.eos()) for one in known)
    alone = [
        Request([one], [other]) for sides in documents for one, other in zip(*sides, strict=True)
    ]
    teacher = _costs(SentenceScorer(model, *known, layouts=layouts), alone)
    return {
        "tokens": len(teacher),
        "sentence_model": statistics.fmean(teacher),
        "starts": {
            name: {
                "nats": statistics.fmean(cost),
                "largest": max(abs(one - other) for one, other in zip(cost, teacher, strict=True)),
            }
            for name, cost in costs.items()
        },
    }


def split_tokens(tokens: list[int], words: Dictionary) -> TokenLists:
    """Return the sentences of ``<s> a b </s> <s> c </s>``, without boundary tokens."""
    sentences: TokenLists = []
    for token in tokens:
        if token == words.bos():
            sentences.append([])
        elif token != words.eos():
            sentences[-1].append(token)
    return sentences


def _costs(scorer: SentenceScorer, requests: Sequence[Request]) -> list[float]:
    """Return every token's loss by sentence, in the order of the requests."""
    return [-value for parts in scorer.score_tokens(requests) for part in parts for value in part]


def _sentence_model(
    checkpoint: Path, task: TranslationDocTask
) -> tuple[nn.Module, tuple[Dictionary, ...], bool]:
    """Return the sentence model in float32, its dictionaries, and whether it is a model of this
    package.

    A model of fairseq's task ``translation`` has its own words, without this package's symbols.
    """
    ours = task.source_dictionary, task.target_dictionary
    if is_own(read_settings(checkpoint)):
        return (
            load_trained(checkpoint, data=task.cfg.data, **model_options("float32"))[0],
            ours,
            True,
        )
    theirs = []
    for one in ours:
        words = Dictionary()
        for number in range(words.nspecial, words_before_symbols(one, task.langs)):
            words.add_symbol(one.symbols[number], one.count[number])
        theirs.append(words)
    built = TranslationTask(TranslationConfig(), *theirs)
    (model,), _, _ = load_model_ensemble_and_task([str(checkpoint)], task=built)
    return model.eval(), tuple(theirs), False
