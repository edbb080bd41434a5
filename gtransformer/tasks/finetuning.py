"""Fine-tuning: two learning rates, and does the pretrained model fit (section 5.1, appendix C.1).

And what is not trained: in the second of two steps (Zhang et al. 2018, section 2.4), or of a G-Transformer that starts
as its sentence model is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import Dictionary
from omegaconf import DictConfig, open_dict
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.gtransformer.model import ALL_PARAMETERS, NEW, TOP
from gtransformer.models.saved import read_parameters
from gtransformer.optim import fused_adam
from gtransformer.optim.adam_two_rates import NAME, mark_parameter
from gtransformer.plugin.bert import load_bert
from gtransformer.tasks.checkpoints import LAST, STRUCTURE, load_lazily, read_settings
from gtransformer.tasks.options import option_of

logger = logging.getLogger(__name__)

FREEZE = "--freeze-sentence-parameters"
LAYER = re.compile(r"(encoder|decoder)\.layers\.\d+\.")


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
        load_bert(model, bert)
    if hasattr(cfg, "load_partial"):
        check_pretrained(cfg, whole, dictionaries)
    if goes_on(whole) and not whole.checkpoint.reset_optimizer:
        last = Path(whole.checkpoint.save_dir) / LAST
        if load_lazily(last).get("last_optimizer_state") is None:
            raise UserError(
                f"{last}: has no state of the optimizer (--no-save-optimizer-state), so the learning rate would begin "
                "again; choose another --save-dir"
            )
    if getattr(cfg, "freeze_sentence_parameters", False):
        freeze_pretrained(model, whole)
    elif str(getattr(cfg, "trained_parameters", None) or ALL_PARAMETERS) != ALL_PARAMETERS:
        freeze_pretrained(model, whole, str(cfg.trained_parameters), f"--trained-parameters {cfg.trained_parameters}")
    start = pretrained_path(whole)
    if start is not None and start.is_dir():  # a model directory, which fairseq cannot load
        model.load_state_dict(read_parameters(start))
        with open_dict(whole):
            whole.checkpoint.finetune_from_model = None


def freeze_pretrained(model: nn.Module, whole: DictConfig | None, trained: str = NEW, option: str = FREEZE) -> None:
    """Let parameters that a Transformer has be without gradient, and so without optimizer state.

    Args:
        trained: NEW: all of them; TOP: but for those of layers that have further parameters, too.
        option: what asks for it, as it is given.

    Raises UserError where training starts from no checkpoint: they would stay random; and in a precision that rounds
    all parameters, trained or not.
    """
    starts = pretrained_path(whole) is not None or bool(getattr(getattr(model, "cfg", None), "bert_checkpoint", None))
    if whole is not None and not starts and not goes_on(whole):
        raise UserError(f"{option}: there is no model to start from; give --finetune-from-model and --load-partial")
    if whole is not None and (whole.common.fp16 or whole.common.bf16):
        raise UserError(f"{option}: --fp16 and --bf16 round all parameters; give --amp or --autocast bfloat16 instead")
    if whole is not None and whole.task.doc_noise_mask and getattr(model.cfg, "output_words", None) is not None:
        raise UserError(f"{option}: <mask> is new in the dictionary and would stay random; leave --doc-noise-mask out")
    names = [name for name, _ in model.named_parameters()]
    new = {name for name in names if not model.is_pretrained(name)}
    layers = {layer_of(name) for name in new} - {None} if trained == TOP else set()
    count = 0
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in new or layer_of(name) in layers)
        count += parameter.numel() * parameter.requires_grad
    total = sum(parameter.numel() for parameter in model.parameters())
    logger.info("%s: %d of %d parameters are trained", option, count, total)


def layer_of(name: str) -> str | None:
    """``encoder.layers.2.`` of a parameter in it; None outside of layers."""
    found = LAYER.match(name)
    return found and found[0]


def goes_on(whole: DictConfig | None) -> bool:
    """Whether training takes up its own last checkpoint, which has everything; another is named by --restore-file."""
    own = whole is not None and whole.checkpoint.restore_file == LAST
    return own and (Path(whole.checkpoint.save_dir) / LAST).is_file()


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

    Raises UserError for another optimizer than Adam.
    """
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
    if not path.exists():  # fairseq would train from random parameters
        raise UserError(f"{option_of(name)} {path}: no such checkpoint; train or fetch it first")
    return path


def check_words(path: Path, task: Mapping[str, Any], lang: str | None, dictionary: Dictionary) -> None:
    """Raise UserError where the dictionary of a checkpoint's model has other words than the data's.

    Compared where it lies beside the checkpoint, as published ones do, or with the data that ``task`` names.
    """
    folders = [path if path.is_dir() else path.parent]
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
    options = whole.checkpoint
    start = options.get("continue_once") or options.finetune_from_model
    if options.restore_file != LAST and options.reset_optimizer:  # the release's way to name the start
        start = options.restore_file
    if start and Path(start).is_file() and whole.optimization.stop_time_hours > 0:
        before = (load_lazily(Path(start)).get("extra_state") or {}).get("previous_training_time", 0.0)
        whole.optimization.stop_time_hours += before / 3600
