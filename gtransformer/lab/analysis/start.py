"""Loss per token of a sentence model and of document models initialised from it, before any update.

The sentence model scores the sentences of a split one by one; document models score its whole instances, all in
float32. Words and ``</s>`` count. Forced symbols, ``<s>`` and the language symbol, do not.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.evaluation.sentence_scores import Layout, Request, SentenceScorer
from gtransformer.lab.items.split_instances import corpus_instances
from gtransformer.models.common.config import DOCUMENT
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.tasks.checkpoints import read_settings, read_state
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.sentence_start import is_own, start_from_sentence_model, words_before_symbols
from gtransformer.tasks.trained import load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask
from gtransformer.translation.precision import model_options

Progress = Callable[[Iterable], Iterable]
NEUTRAL = "neutral"  # instead of a gate's bias: identity-initialised gates
PAPER = "paper"  # gates and positions as in the paper


def measure(
    prepared: Path,
    checkpoint: Path,
    split: str,
    gates: Sequence[float | str],
    context_layers: int = 2,
    most: int | None = None,
    seed: int = 1,
    max_tokens: int = 4096,
    cpu: bool = False,
    progress: Progress = lambda batches: batches,
) -> dict[str, Any]:
    """Return nats per token of the sentence model and of document models initialised from it, as a JSON object.

    Args:
        gates: for each document model the bias of its gates, or ``NEUTRAL``; ``PAPER``: gates and positions as in the
            paper.
        context_layers: number of upper layers with global attention, in encoder, decoder and cross-attention.
        most: number of the split's first instances; None: all.
        seed: of random initialisation.
        progress: wraps a list of batches.

    ``largest`` is the largest difference of a token's loss. Raises UserError for a model that no training could start
    from.
    """
    instance_index = InstanceIndex.load(find_instance_index(prepared, split))
    pair = {"source_lang": instance_index.source_lang, "target_lang": instance_index.target_lang}
    data = str(prepared / "bin")
    task = TranslationDocTask.setup_task(TranslationDocConfig(data=data, dataset_impl=None, **pair))
    corpus = corpus_instances(task, prepared, split)
    documents = [corpus.read(number) for number in range(len(corpus.spans))][:most]
    whole = [Request(*sides, name=f"instance {number}") for number, sides in enumerate(documents)]
    layers = {f"{part}_ctxlayers": context_layers for part in ("encoder", "decoder", "cross")}
    dictionaries = task.source_dictionary, task.target_dictionary
    start, costs = GTransformerConfig(sentence_model=str(checkpoint), doc_mode="partial"), {}
    start.max_source_positions = start.max_target_positions = UNLIMITED_POSITIONS
    start_from_sentence_model(start, None, task)
    for gate in gates:
        torch.manual_seed(seed)
        model = GTransformerModel.build(dataclasses.replace(start, **layers, **_gates(gate)), *dictionaries)
        model.load_state_dict(read_state(Path(start.sentence_model))["model"])
        scorer = SentenceScorer(_placed(model.eval(), cpu), *dictionaries, max_tokens)
        costs[gate if isinstance(gate, str) else f"{gate:g}"] = _costs(scorer, whole, progress)
    model, known, own = sentence_model(checkpoint, task)
    layouts = None if own else tuple(Layout(one.eos()) for one in known)
    alone = [Request([one], [other]) for sides in documents for one, other in zip(*sides, strict=True)]
    teacher = _costs(SentenceScorer(_placed(model, cpu), *known, max_tokens, layouts), alone, progress)
    return {
        "split": split,
        "instances": len(whole),
        "sentences": len(alone),
        "tokens": len(teacher),
        "sentence_model": statistics.fmean(teacher),
        "starts": {
            name: {
                "nats": statistics.fmean(cost),
                "above": statistics.fmean([one - other for one, other in zip(cost, teacher, strict=True)]),
                "largest": max(abs(one - other) for one, other in zip(cost, teacher, strict=True)),
            }
            for name, cost in costs.items()
        },
    }


def _gates(gate: float | str) -> dict[str, Any]:
    """Return the options for a model with these initial gates."""
    if gate == PAPER:  # positions through the document, random gates
        return {"positions": DOCUMENT, "gate_bias": None, "neutral_gates": False}
    return {"gate_bias": 0.0 if gate == NEUTRAL else gate, "neutral_gates": gate == NEUTRAL}


def _placed(model: torch.nn.Module, cpu: bool) -> torch.nn.Module:
    return model.cuda() if torch.cuda.is_available() and not cpu else model


def _costs(scorer: SentenceScorer, requests: Sequence[Request], progress: Progress) -> list[float]:
    """Return every token's loss by sentence, in the order of the requests."""
    return [-value for parts in scorer.score_tokens(requests, progress) for part in parts for value in part]


def sentence_model(checkpoint: Path, task: TranslationDocTask) -> tuple[nn.Module, tuple[Dictionary, Dictionary], bool]:
    """Return the sentence model in float32, its dictionaries, and whether it is a model of this package.

    A model of fairseq's task ``translation`` is built as there, without this package's additional symbols. Check it
    first (``start_from_sentence_model``).
    """
    ours = task.source_dictionary, task.target_dictionary
    if is_own(read_settings(checkpoint)):
        return load_trained(checkpoint, data=task.cfg.data, **model_options("float32"))[0], ours, True
    source, target = (cut(one, words_before_symbols(one, task.langs)) for one in ours)
    built = TranslationTask(TranslationConfig(), source, target)
    (model,), _, _ = load_model_ensemble_and_task([str(checkpoint)], task=built)
    return model.eval(), (source, target), False


def cut(dictionary: Dictionary, words: int) -> Dictionary:
    """Return a dictionary with the first ``count`` entries."""
    found = Dictionary()
    for number in range(found.nspecial, words):
        found.add_symbol(dictionary.symbols[number], dictionary.count[number])
    return found
