"""Fine-tuning: two learning rates, and does the pretrained model fit (section 5.1, appendix C.1).

And what is not trained: in the second of two steps (Zhang et al. 2018, section 2.4), or of a G-Transformer that starts
as its sentence model is.
"""

from __future__ import annotations

import logging
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import Dictionary
from omegaconf import DictConfig, open_dict
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.gtransformer.model import ALL_PARAMETERS, NEW, TOP
from gtransformer.optim import fused_adam
from gtransformer.optim.adam_two_rates import NAME, mark_parameter
from gtransformer.tasks.checkpoints import LAST, STRUCTURE, load_lazily, read_settings
from gtransformer.tasks.options import option_of

logger = logging.getLogger(__name__)

FREEZE = "--freeze-sentence-parameters"
LAYER = re.compile(r"(encoder|decoder)\.layers\.\d+\.")
ROUNDING = ("fp16", "bf16")  # fairseq's options that round all parameters, trained or not


def prepare_finetuning(
    model: nn.Module, task_cfg: Any, whole: DictConfig | None, dictionaries: tuple[Dictionary, Dictionary]
) -> None:
    """What ``--doc-double-lr``, ``--load-partial`` and their like want done to a model before training.

    Args:
        whole: all options of the training; None for a model that is built without one.
        dictionaries: of source and target.
    """
    if task_cfg.doc_double_lr:
        set_two_rates(model, task_cfg, whole)
    cfg = getattr(model, "cfg", None)
    bert = getattr(cfg, "bert_checkpoint", None)
    if bert and not goes_on(whole):
        model.load_bert(bert)
    if hasattr(cfg, "load_partial"):
        check_pretrained(cfg, whole, dictionaries)
    trained, said = frozen_by(cfg)
    if trained != ALL_PARAMETERS:
        freeze_pretrained(model, whole, trained, said.removeprefix("with "))


def frozen_by(model_cfg: Any) -> tuple[str, str]:
    """What a model's options say is trained (``TRAINED_PARAMETERS``), and how they say it."""
    if getattr(model_cfg, "freeze_sentence_parameters", False):
        return NEW, f"with {FREEZE}"
    if hasattr(model_cfg, "freeze_sentence_parameters"):
        return ALL_PARAMETERS, f"without {FREEZE}"
    chosen = getattr(model_cfg, "trained_parameters", None)
    return str(chosen or ALL_PARAMETERS), f"with --trained-parameters {chosen}" if chosen else "with nothing frozen"


def freeze_pretrained(model: nn.Module, whole: DictConfig | None, trained: str = NEW, option: str = FREEZE) -> None:
    """Let parameters that a Transformer has be without gradient, and so without optimizer state.

    Args:
        trained: NEW: all of them; TOP: but for those of layers that have further parameters, too.
        option: what asks for it, as it is given.

    Raises UserError where training starts from no checkpoint: they would stay random; in a precision that rounds them;
    and where nothing would be trained.
    """
    starts = pretrained_path(whole) is not None or bool(getattr(getattr(model, "cfg", None), "bert_checkpoint", None))
    if whole is not None and not starts and not goes_on(whole):
        raise UserError(
            f"{option} is the second step of training, but there is nothing to start from; give --finetune-from-model "
            "CHECKPOINT of the first step, and --load-partial if it is a sentence model"
        )
    if whole is not None:
        check_rounding(whole.common, option)
    names = [name for name, _ in model.named_parameters()]
    new = {name for name in names if not model.is_pretrained(name)}
    if not new:
        raise UserError(f"{option}: this model has nothing that a sentence model has not, so nothing would be trained")
    layers = {layer_of(name) for name in new} - {None} if trained == TOP else set()
    count = 0
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in new or layer_of(name) in layers)
        count += parameter.numel() * parameter.requires_grad
    total = sum(parameter.numel() for parameter in model.parameters())
    logger.info("%s: %d of %d parameters are trained", option, count, total)


def check_rounding(common: DictConfig | Namespace, option: str) -> None:
    """UserError for a precision among fairseq's options in which ``option`` cannot leave parameters as they are."""
    rounding = next((name for name in ROUNDING if getattr(common, name)), None)
    if rounding:
        raise UserError(
            f"{option}: --{rounding} rounds all parameters, also those that are to stay as they are; give --amp or "
            "--autocast bfloat16 in its place"
        )


def layer_of(name: str) -> str | None:
    """``encoder.layers.2.`` of a parameter in it; None outside of layers."""
    found = LAYER.match(name)
    return found and found[0]


def goes_on(whole: DictConfig | None) -> bool:
    """Whether training takes up its own last checkpoint, which has everything; another is named by --restore-file."""
    own = whole is not None and whole.checkpoint.restore_file == LAST
    return own and (Path(whole.checkpoint.save_dir) / LAST).is_file()


def name_own_last(options: DictConfig) -> None:
    """Replace a path of the training's own last checkpoint in --restore-file by the default, which means the same."""
    if Path(options.restore_file).resolve() == (Path(options.save_dir) / LAST).resolve():
        options.restore_file = LAST


def whole_config(part: DictConfig) -> DictConfig | None:
    """The configuration that a section given by fairseq's training belongs to; None for one that stands alone."""
    root = part._get_root() if isinstance(part, DictConfig) else None
    return root if root is not None and "checkpoint" in root and "optimizer" in root else None


def set_two_rates(model: nn.Module, task_cfg: Any, whole: DictConfig | None) -> None:
    """Mark the model's parameters, and let ``--optimizer adam`` be the Adam that minds it (``--doc-double-lr``).

    Args:
        model: a model that says of its parameters by name whether each ``learns_as_new``.
        task_cfg: with ``lr_scale_pretrained`` and ``weight_decay_randinit``.
        whole: all options of the training, which are changed; None leaves the choice of optimizer to the caller.

    Raises UserError for another kind of model, another optimizer than Adam, and a scale that is not positive.
    """
    if not hasattr(model, "learns_as_new"):
        raise UserError(f"--doc-double-lr is for the architectures gtransformer_*, not for {type(model).__name__}")
    if not task_cfg.lr_scale_pretrained > 0:
        raise UserError(f"--lr-scale-pretrained {task_cfg.lr_scale_pretrained}: give a number greater than 0")
    for name, parameter in model.named_parameters():
        fresh = model.learns_as_new(name)
        mark_parameter(parameter, fresh, task_cfg.lr_scale_pretrained, task_cfg.weight_decay_randinit)
    if whole is None:
        return
    chosen = whole.optimizer._name
    if chosen not in ("adam", fused_adam.NAME, NAME):
        raise UserError(f"--doc-double-lr works with --optimizer adam or {fused_adam.NAME}, not with {chosen}")
    # An option of the release alone must be enough; fairseq has no other place where a task could choose an optimizer.
    with open_dict(whole):
        whole.optimizer._name = NAME
        whole.common.fp16_no_flatten_grads = True  # flattened, parameters of both groups would be one
    logger.info("--doc-double-lr: pretrained parameters learn at %g times --lr", task_cfg.lr_scale_pretrained)


def check_pretrained(
    model_cfg: DictConfig, whole: DictConfig | None, dictionaries: tuple[Dictionary, Dictionary]
) -> None:
    """Check that the checkpoint which training is about to load fits in what parameters do not show.

    Compared, where the checkpoint says it: number of heads, place of the layer norms, activation, embedding scale,
    marks; and its dictionaries, where they can still be found. Raises UserError with the first difference, and for
    ``--load-partial`` without a model.
    """
    if whole is None:
        return
    path = Path(whole.checkpoint.save_dir) / LAST if goes_on(whole) else pretrained_path(whole)
    if path is None:
        if model_cfg.load_partial or getattr(model_cfg, "load_partial_global_from_local", False):
            raise UserError("--load-partial: there is no model to load; name one with --finetune-from-model")
        return
    settings = read_settings(path)
    theirs = settings.get("model", {})
    for key in STRUCTURE:
        ours = getattr(model_cfg, key, None)
        if ours is not None and theirs.get(key) is not None and str(theirs[key]) != str(ours):
            raise UserError(f"{path}: trained with {option_of(key)} {theirs[key]}, this model has {ours}; use the same")
    task = settings.get("task", {})
    for side, dictionary in zip(("source_lang", "target_lang"), dictionaries, strict=True):
        check_words(path, task, task.get(side), dictionary)


def pretrained_path(whole: DictConfig | None) -> Path | None:
    """The checkpoint that this training will load, if it is not its own last one. UserError if it is missing."""
    if whole is None:
        return None
    options, name = whole.checkpoint, "restore_file"
    if options.restore_file == LAST:
        own = (Path(options.save_dir) / LAST).is_file()
        named = [one for one in ("continue_once", "finetune_from_model") if getattr(options, one, None)]
        name = None if own or not named else named[0]
    if name is None:
        return None
    path = Path(getattr(options, name))
    if not path.is_file():  # fairseq would train from random parameters
        raise UserError(f"{option_of(name)} {path}: no such checkpoint; train or fetch it first")
    return path


def check_words(path: Path, task: Mapping[str, Any], lang: str | None, dictionary: Dictionary) -> None:
    """Raise UserError where the dictionary of a checkpoint's model has other words than the data's.

    Compared where it lies beside the checkpoint, as published ones do, or with the data that ``task`` names.
    """
    folders = [path.parent]
    if isinstance(task.get("data"), str):
        folders.append(Path(utils.split_paths(task["data"])[0]))
    file = next((file for folder in folders if (file := folder / f"dict.{lang}.txt").is_file()), None)
    words = [] if file is None else Dictionary.load(str(file)).symbols
    for number, (theirs, ours) in enumerate(zip(words, dictionary.symbols, strict=False)):
        if theirs != ours:
            raise UserError(
                f"{path}: its dictionary {file} has '{theirs}' as entry {number}, this data's has '{ours}': "
                "the model needs the same dictionary, so prepare the data with --vocabulary or --dictionary"
            )


def add_hours_of_start(whole: DictConfig) -> None:
    """Let ``--stop-time-hours`` count this training alone: fairseq also counts the hours of the model it starts from.

    Args:
        whole: all options of the training; they are changed.
    """
    start = whole.checkpoint.get("continue_once") or whole.checkpoint.finetune_from_model
    if start and whole.optimization.stop_time_hours > 0:
        before = (load_lazily(Path(start)).get("extra_state") or {}).get("previous_training_time", 0.0)
        whole.optimization.stop_time_hours += before / 3600
