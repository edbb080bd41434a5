"""What a training must keep of the checkpoint that it begins from: all that parameters do not show, and yet rely on.

Where positions begin, which marks layers see, and which words can be predicted: a model that reads otherwise loads, and
is wrong from its first update on. It is compared with every checkpoint, the training's own last one included.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from omegaconf import DictConfig, OmegaConf, open_dict

from gtransformer.data.dictionaries import control_symbols
from gtransformer.errors import UserError
from gtransformer.files import MODEL_FILE
from gtransformer.models.common.config import BOTH_MARKS, DOCUMENT, END_MARK, OFF, SENTENCE
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.models.gtransformer.model import ALL_PARAMETERS, ATTENTION, COMBINED, attention_kinds
from gtransformer.modules.attention import stays_shut
from gtransformer.modules.positions import FAIRSEQ
from gtransformer.tasks.accepted_options import FUSED, option_of
from gtransformer.tasks.checkpoints import LAST, read_settings, read_state, settings_of
from gtransformer.tasks.finetuning import (
    as_given,
    check_optimizer,
    check_same,
    check_system,
    check_words,
    goes_on,
    keep_given,
    pretrained_path,
)
from gtransformer.tasks.first_pass import check_sentence_model
from gtransformer.tasks.options import Rows, refuse

logger = logging.getLogger(__name__)


LOADING = ("load_partial", "load_partial_global_from_local")
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
LEAST, MOST = -3, 10  # of neutral gates the bias; at the least group attention is scaled up twentyfold
SYSTEM = "gtransformer"  # the architectures whose positions and marks can be chosen
READING = {
    "positions": DOCUMENT,
    "sentence_marks": BOTH_MARKS,
    "output_words": None,
    "first_output_word": None,
    "target_prefix": None,
    "decoder_unit": ATTENTION,
    "sinusoids": FAIRSEQ,
    "layer_norm_eps": 1e-5,
}  # with the values of older checkpoints


# What no training can begin with; ``whole`` is None for a model that is built without one.
BEGINNING: Rows = (
    (
        lambda c: str(getattr(c.model, "autocast", "none")) == "float16",
        "--autocast float16 cannot train, since nothing scales the loss and small gradients would vanish; use "
        "--autocast bfloat16, or fairseq's --fp16, which scales it",
    ),
    (
        lambda c: c.whole and c.neutral and not (goes_on(c.whole) or (c.loads and pretrained_path(c.whole))),
        "--neutral-gates: group attention is scaled as a sentence model is loaded; give one with --sentence-model, or "
        "with --finetune-from-model and --load-partial, or leave the option out",
    ),
    (
        lambda c: c.whole and c.loads and not (goes_on(c.whole) or pretrained_path(c.whole)),
        "{loads}: there is no model to load; name one with --finetune-from-model, or leave the option out",
    ),
    (
        # --sentence-model sets the option whatever the layers are
        lambda c: c.whole and c.neutral and not (c.model.sentence_model or _has_gates(c.model)),
        "--neutral-gates: no layer of this model has gates; leave the option out",
    ),
    (
        lambda c: c.whole and c.neutral and c.bias is not None and not LEAST <= c.bias <= MOST,
        "--gate-bias {bias:g} with --neutral-gates: next to nothing of one attention would be let through; give 0, or "
        f"a bias between {LEAST} and {MOST}",
    ),
    (
        lambda c: c.whole and c.bias is not None and stays_shut(c.bias),
        "--gate-bias {bias:g}: gates would stay shut, since their sigmoid is exactly 1 and what is behind them has no "
        "gradient; give 3, and shut gates only to gtransformer lab start, which trains nothing",
    ),
    (
        lambda c: (
            c.whole
            and getattr(c.task, "doc_noise_mask", 0)
            and str(getattr(c.model, "trained_parameters", ALL_PARAMETERS)) != ALL_PARAMETERS
            and getattr(c.model, "output_words", None) is not None
        ),
        "--doc-noise-mask: the sentence model knows no <mask>, and with --trained-parameters its "
        "embedding would stay random; leave one of the two out",
    ),
)


# Options of what a training starts from that exclude each other.
STARTING: Rows = (
    (
        lambda c: c.saved.finetune_from_model and c.restored,
        "--finetune-from-model and --restore-file name two models to start from; leave one of them out",
    ),
    (
        lambda c: c.saved.finetune_from_model and c.reset,
        "--finetune-from-model takes another model's parameters alone, so {reset} has nothing to do; leave it out, or, "
        "to resume a training with it, leave --finetune-from-model out",
    ),
    (
        lambda c: c.restored and c.saved.get("reset_optimizer") and (Path(c.saved.save_dir) / LAST).is_file(),
        "--restore-file {saved.restore_file} with --reset-optimizer would begin again and overwrite the training in "
        "--save-dir {saved.save_dir}; to resume that, give --finetune-from-model in place of the two; to begin again, "
        "another --save-dir, or delete this one",
    ),
)


def check_beginning(model_cfg: Any, task_cfg: Any, whole: DictConfig | None) -> None:
    """Raise UserError for a beginning that training cannot have, or a checkpoint that is of another kind.

    Args:
        model_cfg: of the model that is trained, as ``--sentence-model`` has left it.
        task_cfg: of its task.
        whole: all options of the training; None for a model that is built without one.
    """
    check_combinations(model_cfg, task_cfg, whole)
    if whole is None:
        return
    saved = whole.checkpoint
    reset = next((option_of(name) for name in RESETS if saved.get(name)), None)
    refuse(STARTING, saved=saved, restored=saved.restore_file != LAST, reset=reset)
    path = pretrained_path(whole) or Path(saved.save_dir) / LAST
    check_system(model_cfg, whole)
    check_reading(model_cfg, read_settings(path), path)
    check_same(model_cfg, task_cfg, whole)
    check_optimizer(whole)
    keep_given(whole)


def check_combinations(model_cfg: Any, task_cfg: Any, whole: DictConfig | None) -> None:
    """Raise UserError for options that no training can begin with, as ``check_beginning``."""
    refuse(
        BEGINNING,
        model=model_cfg,
        task=task_cfg,
        whole=whole,
        bias=getattr(model_cfg, "gate_bias", None),
        neutral=getattr(model_cfg, "neutral_gates", False),
        loads=next((option_of(name) for name in LOADING if getattr(model_cfg, name, False)), None),
    )


def _is_fused(criterion: DictConfig) -> bool:
    """Whether a loss is this package's in one pass, which sees the output layer; with these options it is fairseq's."""
    needs_all_logits = criterion.get("report_accuracy") or criterion.get("ignore_prefix_size")
    return criterion._name == FUSED and not needs_all_logits


def _has_gates(model_cfg: Any) -> bool:
    return any(COMBINED in attention_kinds(model_cfg, part) for part in ("encoder", "decoder", "cross"))


def check_reading(model_cfg: Any, settings: dict[str, dict[str, Any]], path: Path) -> None:
    """Raise UserError where the G-Transformer of a checkpoint reads or writes its text otherwise.

    Positions are free where it is one over whole instances (``--doc-mode full``), and where ``--sentence-model`` names
    it: a single sentence has the same either way.
    """
    theirs = settings.get("model", {})
    if not str(theirs.get("_name") or theirs.get("arch")).startswith(SYSTEM):
        return
    free = str(settings.get("task", {}).get("doc_mode")) == "full" or getattr(model_cfg, "sentence_model", None)
    for key, usual in READING.items():
        saved, ours = (value or usual for value in (theirs.get(key), getattr(model_cfg, key, None)))
        if str(saved) != str(ours) and not (free and key == "positions"):
            raise UserError(
                f"{path}: trained {as_given(key, saved)}, this training is {as_given(key, ours)}; choose as there, or, "
                "to resume a training that began with --sentence-model, give that option again"
            )


TASK = "translation_doc"
SIDES = ("encoder", "decoder")
# What a sentence model is; dropout and how it is computed are the training's own.
OF_SENTENCE_MODELS = (
    *(f"{side}_{key}" for side in SIDES for key in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")),
    *(f"{side}_{key}" for side in SIDES for key in ("normalize_before", "learned_pos")),
    "activation_fn",
    "share_decoder_input_output_embed",
    "share_all_embeddings",
    "no_token_positional_embeddings",
    "no_scale_embedding",
    "layernorm_embedding",
    "layer_norm_eps",
    "sinusoids",
    "output_bias",
    "decoder_unit",
    "first_output_word",
    "target_prefix",
)
# Of fairseq, with text that begins or ends with a language.
WITH_LANGUAGES = ("translation_from_pretrained_bart", "multilingual_translation", "denoising", "multilingual_denoising")
EXPECTED = ("encoder.layers.0.self_attn", "decoder.layers.0.encoder_attn")
INEXACT = ("no_language_locality", "no_translation_locality")  # attention that was trained on single sentences


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
    if path.is_dir():  # a model directory
        path /= MODEL_FILE
    if not path.is_file():
        raise UserError(f"--sentence-model {path}: no such checkpoint; train or fetch it first")
    state = read_state(path, "a checkpoint of fairseq")
    settings, tables = settings_of(state), _tables(state["model"], path)
    own, by_sentence = is_own(settings), str(cfg.doc_mode) == "partial"
    _check_options(cfg, whole, path, own and settings["model"].get("output_words") is None)
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
                "the model's own dictionary (docs/train.md)"
            )
        check_words(path, settings["task"], lang, dictionary)
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        for key in OF_SENTENCE_MODELS:
            value = settings["model"].get(key)
            if value is None and isinstance(getattr(cfg, key), bool):  # older than the option
                value = False
            if value is not None:
                setattr(cfg, key, value)
        for side, name in zip(SIDES, ("max_source_positions", "max_target_positions"), strict=True):
            if getattr(cfg, f"{side}_learned_pos") and not cfg.no_token_positional_embeddings:
                rows = len(state["model"][f"{side}.embed_positions.weight"])
                setattr(cfg, name, rows - task.source_dictionary.pad() - 1)
        cfg.load_partial, cfg.marks_loss = True, OFF
        if by_sentence:
            cfg.positions = SENTENCE
            if cfg.gate_bias is None:
                cfg.gate_bias, cfg.neutral_gates = 0.0, True
        marks = settings["model"].get("sentence_marks") or BOTH_MARKS, settings["model"].get("output_words")
        cfg.sentence_marks, cfg.output_words = marks if own else (END_MARK, tables["decoder"])
    changed = [one for one in INEXACT if getattr(cfg, one, False)]
    if not by_sentence:
        changed.insert(0, f"doc_mode {cfg.doc_mode}")
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
    logger.info("--sentence-model %s: %s", path, ", ".join(f"{key} {getattr(cfg, key)}" for key in OF_SENTENCE_MODELS))


def is_own(settings: Mapping[str, Any]) -> bool:
    """Whether the options in a checkpoint are of a model of this package."""
    return settings["task"].get("_name", settings["task"].get("task")) == TASK


def words_before_symbols(dictionary: Dictionary, langs: list[str]) -> int:
    """How many entries stand in front of the language symbols and ``<mask>``, which end a dictionary."""
    return min(map(dictionary.index, control_symbols(langs)))


def _check_options(cfg: Any, whole: DictConfig | None, path: Path, predicts_all: bool) -> None:
    if whole is None:
        return
    given = whole.checkpoint
    if given.finetune_from_model not in (None, str(path)) or given.restore_file != LAST:
        raise UserError(
            f"--sentence-model {path}: training starts from one model; leave --finetune-from-model and --restore-file "
            "out"
        )
    criterion = whole.criterion
    if not predicts_all and criterion._name != "cross_entropy" and not _is_fused(criterion):
        raise UserError(
            f"--sentence-model {path}: some symbols can never be predicted, which --criterion {criterion._name} with "
            "these options cannot take; give fused_label_smoothed_cross_entropy without --report-accuracy and "
            "--ignore-prefix-size"
        )


def _tables(parameters: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Entries of the dictionaries of encoder and decoder."""
    tables = {side: parameters.get(f"{side}.embed_tokens.weight") for side in SIDES}
    if None in tables.values() or not all(any(name.startswith(part) for name in parameters) for part in EXPECTED):
        raise UserError(f"{path}: no Transformer with encoder and decoder; give the checkpoint of one")
    return {side: len(table) for side, table in tables.items()}


def _check_kind(settings: Mapping[str, Any], parameters: Mapping[str, Any], path: Path, own: bool) -> None:
    """Refuses what has a Transformer's parameters, or all of them among others, and does not compute what one does."""
    if own and not all(map(is_transformers, parameters)):
        raise UserError(
            f"{path}: a document model; start from it with --finetune-from-model and the options that it was trained "
            "with, or give the sentence model that it came from"
        )
    task = settings["task"]
    if own:
        check_sentence_model(task, f"--sentence-model {path}")
    else:
        name = task.get("_name", task.get("task"))
        if name in WITH_LANGUAGES or task.get("encoder_langtok") or task.get("decoder_langtok"):
            raise UserError(
                f"{path}: trained with --task {name} on text with symbols of languages, which a corpus of this package "
                "has not; give a model of --task translation"
            )
        if name not in (None, "translation"):
            logger.warning(
                "--sentence-model %s: trained with --task %s; the start is exact if its sentences are words and </s> "
                "alone, as with --task translation",
                path,
                name,
            )
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
