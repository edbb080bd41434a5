"""The start from a sentence model (``--sentence-model``): a document model's options follow from
its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor

from gtransformer.data.dictionaries import control_symbols
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.models.common.config import BOTH_MARKS, END_MARK, OFF, SENTENCE
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.plugin.checkpoints import read_state, settings_of
from gtransformer.plugin.config import FUSED_LOSS
from gtransformer.plugin.finetuning import check_words
from gtransformer.plugin.options import check_languages

SIDES = ("encoder", "decoder")
# What a sentence model is; dropout and how it is computed are the training's own.
OF_ITS_SIDES = """
    embed_dim ffn_embed_dim layers attention_heads normalize_before learned_pos
""".split()
OF_SENTENCE_MODELS = (
    """
    activation_fn share_decoder_input_output_embed share_all_embeddings
    no_token_positional_embeddings no_scale_embedding layernorm_embedding layer_norm_eps sinusoids
    output_bias decoder_unit first_output_word target_prefix
""".split()
    + [f"{side}_{name}" for side in SIDES for name in OF_ITS_SIDES]
)


def start_from_sentence_model(cfg: Any, whole: DictConfig | None, task) -> None:
    """Let a model's options, and those of its training, be what ``sentence_model`` among them
    wants.

    It is a checkpoint or a model directory.

    Args:
        cfg: of the model that is about to be built, changed.
        whole: all options of the training, changed; None for a model that is built without one.
        task: with dictionaries, languages and options.

    Raises UserError for a checkpoint that is no sentence model (as far as it says), or that
    translates other languages or with another dictionary.
    """
    if not getattr(cfg, "sentence_model", None):
        return
    path = Path(cfg.sentence_model)
    state = read_state(path)
    settings = settings_of(state)
    own = is_own(settings)  # else fairseq's, which has read no <s>, and no language symbols
    check_languages(settings["task"], task.cfg)
    scheme = InstanceScheme.stored_in(settings["task"])  # how long stored instances are is unknown
    single = scheme.kind == STORED or scheme.max_sentences == 1
    if own and not (single and all(map(is_transformers, state["model"]))):
        raise UserError(
            f"--sentence-model {path}: no model of single sentences; start from a document model "
            "with --finetune-from-model and its own options"
        )
    for side, dictionary, lang in zip(
        SIDES, (task.src_dict, task.tgt_dict), task.sides.pair, strict=True
    ):
        rows = len(state["model"][f"{side}.embed_tokens.weight"])
        words = len(dictionary) if own else words_before_symbols(dictionary, task.langs)
        if rows != words:
            raise UserError(
                f"{path}: its {lang} dictionary has {rows} entries, this data's {words}: prepare "
                "the data with the model's own dictionary (docs/train.md)"
            )
        check_words(path, settings["task"], lang, dictionary)
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        take_structure(cfg, settings["model"], state["model"], task.src_dict.pad())
        # Its layers know </s> alone, and its output layer no word of our own.
        cfg.sentence_marks, cfg.output_words = END_MARK, rows
        if own:
            cfg.sentence_marks = settings["model"].get("sentence_marks") or BOTH_MARKS
            cfg.output_words = settings["model"].get("output_words")
    if whole is not None:
        if cfg.output_words is not None:
            check_criterion(whole.criterion)
        if whole.checkpoint.finetune_from_model not in (None, str(path)):
            raise UserError("--sentence-model and --finetune-from-model: leave one of them out")
        with open_dict(whole):
            whole.checkpoint.finetune_from_model = str(path)


def take_structure(
    cfg: Any, saved: Mapping[str, Any], parameters: Mapping[str, Tensor], padding: int
) -> None:
    """Let a model's options be those of its sentence model, and such that it begins as the sentence
    model is.

    Args:
        saved: options of the sentence model.
        parameters: its parameters.
        padding: index of padding in its source dictionary.
    """
    for key in OF_SENTENCE_MODELS:
        value = saved.get(key)
        if value is None and isinstance(getattr(cfg, key), bool):
            value = False  # fairseq's older checkpoints lack some
        if value is not None:
            setattr(cfg, key, value)
    for side, name in zip(SIDES, ("max_source_positions", "max_target_positions"), strict=True):
        if getattr(cfg, f"{side}_learned_pos") and not cfg.no_token_positional_embeddings:
            setattr(cfg, name, len(parameters[f"{side}.embed_positions.weight"]) - padding - 1)
    cfg.load_partial, cfg.marks_loss = True, OFF
    if str(cfg.doc_mode) == "partial":
        cfg.positions = SENTENCE
        if cfg.gate_bias is None:
            cfg.gate_bias, cfg.neutral_gates = 0.0, True


def check_criterion(criterion: DictConfig) -> None:
    """Raise UserError for a loss that is infinite where some words can never be predicted."""
    all_logits = criterion.get("report_accuracy") or criterion.get("ignore_prefix_size")
    if criterion._name != "cross_entropy" and (criterion._name != FUSED_LOSS or all_logits):
        raise UserError(
            f"--sentence-model: some symbols can never be predicted, so --criterion "
            f"{criterion._name} would be infinite; give {FUSED_LOSS} without --report-accuracy and "
            "--ignore-prefix-size"
        )


def is_own(settings: Mapping[str, Any]) -> bool:
    """Whether the options in a checkpoint are of a model of this package."""
    task = settings["task"]
    return task.get("_name", task.get("task")) == "translation_doc"


def words_before_symbols(dictionary: Dictionary, langs: list[str]) -> int:
    """How many entries stand in front of the language symbols and ``<mask>``, which end a
    dictionary.
    """
    return min(map(dictionary.index, control_symbols(langs)))
