"""A sentence model, and the document model that begins from it with ``--sentence-model``, before any training."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from gtransformer.models.common.config import DOCUMENT
from gtransformer.models.common.embedding import UNLIMITED_POSITIONS
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.tasks.checkpoint_file import read_settings, read_state
from gtransformer.tasks.precision import model_options
from gtransformer.tasks.sentence_start import is_own, start_from_sentence_model, words_before_symbols
from gtransformer.tasks.trained import load_trained
from gtransformer.tasks.translation_doc import TranslationDocTask

# Positions through the document, gates at random.
AS_IN_THE_PAPER = {"positions": DOCUMENT, "gate_bias": None, "neutral_gates": False}


def start_options(checkpoint: Path, task: TranslationDocTask) -> GTransformerConfig:
    """The options of the model that training begins with. Raises UserError as ``start_from_sentence_model``."""
    cfg = GTransformerConfig(sentence_model=str(checkpoint), doc_mode="partial")
    cfg.max_source_positions = cfg.max_target_positions = UNLIMITED_POSITIONS
    start_from_sentence_model(cfg, None, task)
    return cfg


def document_model(cfg: GTransformerConfig, task: TranslationDocTask, seed: int = 1, **changes: Any) -> nn.Module:
    """The model of ``start_options``, with ``changes``; in float32."""
    torch.manual_seed(seed)
    model = GTransformerModel.build_model(dataclasses.replace(cfg, **changes), task)
    model.load_state_dict(read_state(Path(cfg.sentence_model))["model"])
    return model.eval()


def sentence_model(checkpoint: Path, task: TranslationDocTask) -> tuple[nn.Module, tuple[Dictionary, Dictionary], bool]:
    """The sentence model itself, in float32; the dictionaries that it knows; and whether it is one of this package.

    One of fairseq's task ``translation`` is built as that builds it, and knows none of the symbols that this package
    adds. It should have been looked at before (``start_options``).
    """
    ours = task.source_dictionary, task.target_dictionary
    if is_own(read_settings(checkpoint)):
        return load_trained(checkpoint, data=task.cfg.data, **model_options("float32"))[0], ours, True
    source, target = (cut(one, words_before_symbols(one, task.langs)) for one in ours)
    built = TranslationTask(TranslationConfig(), source, target)
    (model,), _, _ = load_model_ensemble_and_task([str(checkpoint)], task=built)
    return model.eval(), (source, target), False


def cut(dictionary: Dictionary, words: int) -> Dictionary:
    """The first so many entries of a dictionary."""
    found = Dictionary()
    for number in range(found.nspecial, words):
        found.add_symbol(dictionary.symbols[number], dictionary.count[number])
    return found
