"""``--sentence-model``: a document model that begins as any sentence Transformer of fairseq, or of this package.

What it is (sizes, norms, positions, sharing) is read from its checkpoint; the training then starts from it as with
``--finetune-from-model`` and ``--load-partial``. Models of fairseq's task ``translation`` know neither ``<s>`` nor the
symbols that this package adds at the end of a dictionary; ``--sentence-marks end`` and ``--output-words`` say so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from omegaconf import DictConfig, OmegaConf, open_dict

from gtransformer.errors import UserError
from gtransformer.models.common.config import BOTH, END, OFF, SENTENCE
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.models.gtransformer.model import COMBINED
from gtransformer.tasks.checkpoint_file import read_state, settings_of
from gtransformer.tasks.finetuning import LAST, check_words
from gtransformer.tasks.sentence_model import check_sentence_model

logger = logging.getLogger(__name__)

SIDES = ("encoder", "decoder")
# What a sentence model is; dropout and how it is computed are the training's own.
STRUCTURE = (
    *(f"{side}_{key}" for side in SIDES for key in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")),
    *(f"{side}_{key}" for side in SIDES for key in ("normalize_before", "learned_pos")),
    "activation_fn",
    "share_decoder_input_output_embed",
    "share_all_embeddings",
    "no_token_positional_embeddings",
    "no_scale_embedding",
    "layernorm_embedding",
)
ATTENTION = ("encoder.layers.0.self_attn", "decoder.layers.0.encoder_attn")
INEXACT = ("no_language_locality", "no_translation_locality")  # attention that was trained on single sentences
OWN_TASK = "translation_doc"


def start_from_sentence_model(cfg: Any, whole: DictConfig | None, task) -> None:
    """Let a model's options, and those of its training, be what ``sentence_model`` among them wants.

    Args:
        cfg: of the model that is about to be built, changed.
        whole: all options of the training, changed; None for a model that is built without one.
        task: with dictionaries, languages and options.

    Raises UserError for a checkpoint that is none of a Transformer, that is no sentence model (as far as it says), that
    translates other languages or with another dictionary, and for options that contradict it.
    """
    if not getattr(cfg, "sentence_model", None):
        return
    path = Path(cfg.sentence_model)
    if not path.is_file():
        raise UserError(f"--sentence-model {path}: no such checkpoint; train or fetch it first")
    state = read_state(path, "a checkpoint of fairseq")
    settings, tables = settings_of(state), _tables(state["model"], path)
    own = is_own(settings)
    _check_options(cfg, whole, path, own)
    _check_languages(settings["task"], task, path)
    _check_kind(settings, state["model"], path, own)
    for side, dictionary, lang in (
        ("encoder", task.source_dictionary, task.cfg.source_lang),
        ("decoder", task.target_dictionary, task.cfg.target_lang),
    ):
        words = len(dictionary) if own else words_before_symbols(dictionary, task.langs)
        if tables[side] != words:
            raise UserError(
                f"{path}: its {lang} dictionary has {tables[side]} entries, this data's {words}: prepare the data with "
                "the model's own dictionary (docs/finetuning.md)"
            )
        _check_words(path, settings["task"], lang, dictionary)
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        for key in STRUCTURE:
            value = settings["model"].get(key)
            if value is None and isinstance(getattr(cfg, key), bool):  # older than the option
                value = False
            if value is not None:
                setattr(cfg, key, value)
        for side, name in zip(SIDES, ("max_source_positions", "max_target_positions"), strict=True):
            if getattr(cfg, f"{side}_learned_pos") and not cfg.no_token_positional_embeddings:
                rows = len(state["model"][f"{side}.embed_positions.weight"])
                setattr(cfg, name, rows - task.source_dictionary.pad() - 1)
        cfg.load_partial, cfg.positions, cfg.marks_loss = True, SENTENCE, OFF
        if cfg.gate_bias is None:
            cfg.gate_bias, cfg.neutral_gates = 0.0, True
        marks = settings["model"].get("sentence_marks") or BOTH, settings["model"].get("output_words")
        cfg.sentence_marks, cfg.output_words = marks if own else (END, tables["decoder"])
    changed = [one for one in INEXACT if getattr(cfg, one, False)]
    if str(getattr(cfg, "context_attention", COMBINED)) != COMBINED:
        changed.insert(0, f"context_attention {cfg.context_attention}")
    if changed:
        logger.warning(
            "--sentence-model %s: the start is not exact, since with --%s its attention sees other sentences from the "
            "first update on; leave it out to begin where the sentence model is",
            path,
            " and --".join(one.replace("_", "-") for one in changed),
        )
    if whole is not None:
        with open_dict(whole):
            whole.checkpoint.finetune_from_model = str(path)
    logger.info("--sentence-model %s: %s", path, ", ".join(f"{key} {getattr(cfg, key)}" for key in STRUCTURE))


def is_own(settings: Mapping[str, Any]) -> bool:
    """Whether the options in a checkpoint are of a model of this package."""
    return settings["task"].get("_name", settings["task"].get("task")) == OWN_TASK


def words_before_symbols(dictionary: Dictionary, langs: list[str]) -> int:
    """How many entries stand in front of the language symbols and ``<mask>``, which end a dictionary."""
    return min(dictionary.index(symbol) for symbol in (*(f"[{lang}]" for lang in langs), "<mask>"))


def _check_options(cfg: Any, whole: DictConfig | None, path: Path, own: bool) -> None:
    if str(cfg.doc_mode) != "partial":
        raise UserError(f"--sentence-model {path}: its attention becomes group attention, so give --doc-mode partial")
    if whole is None:
        return
    given = whole.checkpoint
    if given.finetune_from_model not in (None, str(path)) or given.restore_file != LAST:
        raise UserError(
            f"--sentence-model {path}: training starts from one model; leave --finetune-from-model and --restore-file "
            "out"
        )
    criterion = whole.criterion
    plain = str(criterion._name) in ("cross_entropy", "fused_label_smoothed_cross_entropy")
    needs_all = any(getattr(criterion, name, None) for name in ("report_accuracy", "ignore_prefix_size"))
    if not own and (not plain or needs_all):
        raise UserError(
            f"--sentence-model {path}: some symbols can never be predicted, which --criterion {criterion._name} with "
            "these options cannot take; give fused_label_smoothed_cross_entropy without --report-accuracy and "
            "--ignore-prefix-size"
        )


def _tables(parameters: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Entries of the dictionaries of encoder and decoder."""
    tables = {side: parameters.get(f"{side}.embed_tokens.weight") for side in SIDES}
    if None in tables.values() or not all(any(name.startswith(part) for name in parameters) for part in ATTENTION):
        raise UserError(f"{path}: no Transformer with encoder and decoder; give the checkpoint of one")
    return {side: len(table) for side, table in tables.items()}


def _check_kind(settings: Mapping[str, Any], parameters: Mapping[str, Any], path: Path, own: bool) -> None:
    """Refuses what has a Transformer's parameters, or all of them among others, and does not compute what one does."""
    if own and not all(map(is_transformers, parameters)):
        raise UserError(
            f"{path}: a document model; start from it with --finetune-from-model and the options that it was trained "
            "with, or give the sentence model that it came from"
        )
    if own:
        check_sentence_model(settings["task"], f"--sentence-model {path}")
    if settings["model"].get("cross_self_attention"):
        raise UserError(
            f"{path}: trained with --cross-self-attention, which no document model has: its decoder looks at source "
            "and target in one attention; give a Transformer without it"
        )


def _check_languages(theirs: Mapping[str, Any], task, path: Path) -> None:
    pair = task.cfg.source_lang, task.cfg.target_lang
    found = theirs.get("source_lang") or pair[0], theirs.get("target_lang") or pair[1]
    if found != pair:
        raise UserError(
            f"{path}: translates {'-'.join(found)}, this data is {'-'.join(pair)}; give a model of these languages"
        )


def _check_words(path: Path, theirs: Mapping[str, Any], lang: str, dictionary: Dictionary) -> None:
    """Word by word, where its dictionary lies beside the checkpoint, as published ones do, or with its own data."""
    data = theirs.get("data")
    folders = [path.parent, *([Path(data.split(":")[0])] if isinstance(data, str) else [])]
    file = next((file for folder in folders if (file := folder / f"dict.{lang}.txt").is_file()), None)
    if file is not None:
        check_words(path, file, dictionary)
