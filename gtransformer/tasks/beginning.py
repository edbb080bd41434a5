"""What a training must keep of the checkpoint that it begins from: all that parameters do not show, and yet rely on.

Where positions begin, which marks layers see, and which words can be predicted: a model that reads otherwise loads, and
is wrong from its first update on. It is compared with every checkpoint, the training's own last one included.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gtransformer.data.batching import ADDED
from gtransformer.errors import UserError
from gtransformer.models.common.config import BOTH, DOCUMENT
from gtransformer.models.gtransformer.model import ALL, COMBINED, attention_kinds
from gtransformer.modules.combine import stays_shut
from gtransformer.tasks.accepted_options import FUSED
from gtransformer.tasks.checkpoint_file import read_settings
from gtransformer.tasks.decoder_start import check_start_of_training
from gtransformer.tasks.finetuning import LAST, check_same, check_system, goes_on, keep_given, pretrained_path

logger = logging.getLogger(__name__)

MASKING = ("doc_noise_mask", "coword_dropout")
LEAST, MOST = -3, 10  # of neutral gates the bias; at the least group attention is scaled up twentyfold
SYSTEM = "gtransformer"  # the architectures whose positions and marks can be chosen
READING = {"positions": DOCUMENT, "sentence_marks": BOTH, "output_words": None}  # with the values of older checkpoints


def check_beginning(model_cfg: Any, task_cfg: Any, whole: DictConfig | None) -> None:
    """Raise UserError for a beginning that training cannot have, or a checkpoint that is of another kind.

    Args:
        model_cfg: of the model that is trained, as ``--sentence-model`` has left it.
        task_cfg: of its task.
        whole: all options of the training; None for a model that is built without one.
    """
    if str(getattr(model_cfg, "autocast", "none")) == "float16":
        raise UserError(
            "--autocast float16 cannot train, since nothing scales the loss and small gradients would vanish; use "
            "--autocast bfloat16, or fairseq's --fp16, which scales it"
        )
    if whole is None:
        return
    check_gates(model_cfg, whole)
    check_classifier(model_cfg, task_cfg, whole)
    check_masks(model_cfg, task_cfg)
    check_start_of_training(whole)
    check_system(model_cfg, whole)
    path = pretrained_path(whole) or Path(whole.checkpoint.save_dir) / LAST
    check_reading(model_cfg, read_settings(path), path)
    check_same(model_cfg, task_cfg, whole)
    keep_given(whole)


def say_defaults(model_cfg: Any, task_cfg: Any, arguments: Sequence[str]) -> None:
    """Log which options a command leaves to defaults that are other ones than the release's.

    fairseq does not keep which options were given, so the command line is asked; without ``--task`` on it
    (fairseq-hydra-train) nothing is known.
    """
    given = {argument.partition("=")[0] for argument in arguments}
    differing = {
        "--doc-mode": (str(task_cfg.doc_mode), "full", hasattr(model_cfg, "encoder_ctxlayers")),
        "--doc-noise-epochs": (task_cfg.doc_noise_epochs, 0, task_cfg.doc_noise_mask > 0),
    }
    for option, (ours, theirs, matters) in differing.items():
        if matters and "--task" in given and option not in given:
            logger.info("%s is %s by default (in the release %s); give it to choose", option, ours, theirs)


def check_reading(model_cfg: Any, settings: dict[str, dict[str, Any]], path: Path) -> None:
    """Raise UserError where the G-Transformer of a checkpoint reads or writes its text otherwise.

    Positions are free where it is one over whole instances (``--doc-mode full``), as sentence models are: a single
    sentence has the same either way.
    """
    theirs = settings.get("model", {})
    if not str(theirs.get("_name") or theirs.get("arch")).startswith(SYSTEM):
        return
    whole = str(settings.get("task", {}).get("doc_mode")) == "full"
    for key, usual in READING.items():
        saved, ours = (str(value or usual) for value in (theirs.get(key), getattr(model_cfg, key, None)))
        if saved == ours or (whole and key == "positions"):
            continue
        option = f"--{key.replace('_', '-')}"
        one, other = (f"without {option}" if value == "None" else f"with {option} {value}" for value in (saved, ours))
        raise UserError(
            f"{path}: trained {one}, this training is {other}; choose as there, or, to resume a training that began "
            "with --sentence-model, give that option again"
        )


def check_gates(model_cfg: Any, whole: DictConfig) -> None:
    """Raise UserError for gates that training could never open, and for neutral ones that cannot be made so."""
    bias = getattr(model_cfg, "gate_bias", None)
    if getattr(model_cfg, "neutral_gates", False):
        loads = model_cfg.load_partial or model_cfg.load_partial_global_from_local
        if not (goes_on(whole) or (loads and pretrained_path(whole))):
            raise UserError(
                "--neutral-gates: group attention is scaled as a sentence model is loaded; give one with "
                "--sentence-model, or with --finetune-from-model and --load-partial, or leave the option out"
            )
        gated = any(COMBINED in attention_kinds(model_cfg, part) for part in ("encoder", "decoder", "cross"))
        if not gated and not model_cfg.sentence_model:  # which sets the option whatever the layers are
            raise UserError("--neutral-gates: no layer of this model has gates; leave the option out")
        if bias is not None and not LEAST <= bias <= MOST:
            raise UserError(
                f"--gate-bias {bias:g} with --neutral-gates: next to nothing of one attention would be let through; "
                f"give 0, or a bias between {LEAST} and {MOST}"
            )
    if bias is not None and stays_shut(bias):
        raise UserError(
            f"--gate-bias {bias:g}: gates would stay shut, since their sigmoid is exactly 1 and what is behind them "
            "has no gradient; give 3, and shut gates only to scripts/start.sh, which trains nothing"
        )


def check_classifier(model_cfg: Any, task_cfg: Any, whole: DictConfig) -> None:
    """Raise UserError for a classifier of batches that nothing teaches, with a criterion that adds its loss."""
    if not getattr(model_cfg, "batch_classifier", False):
        return
    if str(task_cfg.shuffled_context) != ADDED:
        raise UserError(
            "--batch-classifier: all batches would be of one kind, and it would learn nothing; give --shuffled-context "
            "added, or leave it out"
        )
    criterion = whole.criterion
    if criterion._name != FUSED or criterion.report_accuracy or criterion.ignore_prefix_size:
        raise UserError(
            f"--batch-classifier: its loss is added by --criterion {FUSED} alone, without --report-accuracy and "
            "--ignore-prefix-size"
        )


def check_masks(model_cfg: Any, task_cfg: Any) -> None:
    """Raise UserError where words are masked by a ``<mask>`` that the sentence model lacks and that does not train."""
    option = next((name for name in MASKING if getattr(task_cfg, name, 0)), None)
    trained = str(getattr(model_cfg, "trained_parameters", ALL))
    if option and trained != ALL and getattr(model_cfg, "output_words", None) is not None:
        raise UserError(
            f"--{option.replace('_', '-')}: the sentence model knows no <mask>, and with --trained-parameters "
            f"{trained} its embedding would stay random; leave one of the two out"
        )
