"""Fine-tuning: two learning rates (Bao et al. 2021, section 5.1 and appendix C.1), whether the
pretrained model fits, and which parameters stay as they are.

Some stay in the second of two steps (Zhang et al. 2018, section 2.4), and in a G-Transformer that
starts as its sentence model is.
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
from gtransformer.plugin.bert import load_bert
from gtransformer.plugin.checkpoints import LAST, read_settings, read_state
from gtransformer.plugin.optimizers import FUSED, TWO_RATES, mark_parameter
from gtransformer.plugin.options import option_of

logger = logging.getLogger(__name__)

# Options that do not change parameters: with other values a model would load, but compute something
# else.
STRUCTURE = """
    encoder_attention_heads decoder_attention_heads encoder_normalize_before
    decoder_normalize_before activation_fn no_scale_embedding no_token_positional_embeddings
    sentence_marks sinusoids
""".split()
LAYER = re.compile(r"(encoder|decoder)\.layers\.\d+\.")


def prepare_finetuning(
    model: nn.Module,
    task_cfg: Any,
    whole: DictConfig | None,
    dictionaries: tuple[Dictionary, Dictionary],
) -> None:
    """Prepare a model for training as ``--doc-double-lr``, ``--load-partial`` and their like say.

    Args:
        whole: all options of the training, which are changed; None for a model that is built
            without one.
        dictionaries: of source and target.

    Raises UserError for a pretrained model that does not fit, or is missing.
    """
    cfg = getattr(model, "cfg", None)
    resumes = whole is not None and resumes_training(whole)
    bert = getattr(cfg, "bert_checkpoint", None)
    if bert and not resumes:  # else the checkpoint holds the trained encoder
        load_bert(model, bert)
    # Freezing comes before the optimizer is made, so that frozen parameters have no state.
    trained = str(getattr(cfg, "trained_parameters", ALL_PARAMETERS))
    if getattr(cfg, "freeze_sentence_parameters", False):
        trained = NEW
    if trained != ALL_PARAMETERS:
        freeze_pretrained(model, trained)
    if task_cfg.doc_double_lr:
        rates = task_cfg.lr_scale_pretrained, task_cfg.weight_decay_randinit
        for name, parameter in model.named_parameters():
            mark_parameter(parameter, model.learns_as_new(name), *rates)
    if whole is None:
        return
    if task_cfg.doc_double_lr:
        choose_two_rates(whole)
    start = Path(whole.checkpoint.save_dir) / LAST if resumes else pretrained_path(whole)
    if start is None:  # the model begins with random parameters
        partial = ("load_partial", "load_partial_global_from_local")
        frozen = trained != ALL_PARAMETERS and not bert
        if frozen or any(getattr(cfg, name, False) for name in partial):
            raise UserError(
                "--load-partial and parameters that are not trained: there is no model to start "
                "from; name one with --finetune-from-model"
            )
        return
    check_pretrained(start, cfg, dictionaries)
    if not resumes:
        add_hours_of_start(whole, read_state(start))
    if start.is_dir():  # a model directory, which fairseq cannot load
        model.load_state_dict(read_parameters(start))
        with open_dict(whole):
            whole.checkpoint.finetune_from_model = None


def freeze_pretrained(model: nn.Module, trained: str = NEW) -> None:
    """Let parameters that a Transformer has be without gradient, and so without optimizer state.

    ``trained``: NEW: all of them; TOP: but for those of layers that have further parameters, too.
    """
    names = [name for name, _ in model.named_parameters()]
    # What the pretrained model lacks is random and has to be trained in any case.
    new = {name for name in names if not model.is_pretrained(name)}
    layers = {layer_of(name) for name in new} - {None} if trained == TOP else set()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in new or layer_of(name) in layers)
    counts = [parameter.numel() for parameter in model.parameters() if parameter.requires_grad]
    logger.info("%d parameters are trained (%s)", sum(counts), trained)


def layer_of(name: str) -> str | None:
    """Return ``encoder.layers.2.`` of a parameter in it; None outside of layers."""
    layer = LAYER.match(name)
    return layer and layer[0]


def choose_two_rates(whole: DictConfig) -> None:
    """Let ``--optimizer adam`` be the Adam with two learning rates. Raise UserError for another
    optimizer.

    An option of the release alone must be enough; fairseq has no other place where a task could
    choose an optimizer.
    """
    chosen = whole.optimizer._name
    if chosen not in ("adam", FUSED, TWO_RATES):
        raise UserError(
            f"--doc-double-lr works with --optimizer adam or {FUSED}, not with {chosen}"
        )
    with open_dict(whole):
        whole.optimizer._name = TWO_RATES
        # Flattened, parameters of both groups would be one.
        whole.common.fp16_no_flatten_grads = True


def whole_config(part: DictConfig) -> DictConfig | None:
    """Return the configuration of the training that a section of it belongs to; None for one that
    stands alone.
    """
    root = part._get_root() if isinstance(part, DictConfig) else None
    return root if root is not None and "checkpoint" in root and "optimizer" in root else None


def resumes_training(whole: DictConfig) -> bool:
    """Return whether training resumes from its own last checkpoint; another is named by
    --restore-file.
    """
    options = whole.checkpoint
    return options.restore_file == LAST and (Path(options.save_dir) / LAST).is_file()


def pretrained_path(whole: DictConfig) -> Path | None:
    """Return the checkpoint that a training loads, if it is not its own last one. Raise UserError
    if it is missing.
    """
    if resumes_training(whole):
        return None
    options = whole.checkpoint
    for name in ("restore_file", "continue_once", "finetune_from_model"):
        if options.get(name) and options[name] != LAST:
            path = Path(options[name])
            if not path.exists():  # fairseq would train from random parameters
                raise UserError(f"{option_of(name)} {path}: no such checkpoint; train it first")
            return path
    return None


def add_hours_of_start(whole: DictConfig, state: Mapping[str, Any]) -> None:
    """Let ``--stop-time-hours`` count this training alone: fairseq also counts the hours of the
    model it starts from, whose checkpoint is ``state``.
    """
    options, limit = whole.checkpoint, whole.optimization
    if limit.stop_time_hours > 0 and (options.restore_file == LAST or options.reset_optimizer):
        facts = state.get("extra_state") or {}
        limit.stop_time_hours += facts.get("previous_training_time", 0.0) / 3600


def check_pretrained(
    path: Path, model_cfg: Any, dictionaries: tuple[Dictionary, Dictionary]
) -> None:
    """Raise UserError if the checkpoint that training loads does not fit in what parameters do not
    show.

    Compared, where the checkpoint says it: number of heads, place of the layer norms, activation,
    embedding scale, marks; and its dictionaries, where they can still be found.
    """
    settings = read_settings(path)
    for key in STRUCTURE:
        # Either may lack an option: older checkpoints, and models of fairseq.
        ours, theirs = getattr(model_cfg, key, None), settings["model"].get(key)
        if None not in (ours, theirs) and str(theirs) != str(ours):
            raise UserError(
                f"{path}: trained with {option_of(key)} {theirs}, this model has {ours}; use the "
                "same"
            )
    for side, dictionary in zip(("source_lang", "target_lang"), dictionaries, strict=True):
        check_words(path, settings["task"], settings["task"].get(side), dictionary)


def check_words(
    path: Path, task: Mapping[str, Any], lang: str | None, dictionary: Dictionary
) -> None:
    """Raise UserError where the dictionary of a checkpoint's model has other words than the data's.

    Compared where it lies beside the checkpoint, as published ones do, or with the data that
    ``task`` names.
    """
    folders = [path if path.is_dir() else path.parent]
    if isinstance(task.get("data"), str):
        folders.append(Path(utils.split_paths(task["data"])[0]))
    for file in (folder / f"dict.{lang}.txt" for folder in folders):
        if not file.is_file():
            continue
        theirs = Dictionary.load(str(file)).symbols
        # Of other lengths: the data's also has language symbols and <mask> at its end.
        pairs = zip(theirs, dictionary.symbols, strict=False)
        for number, (their_word, word) in enumerate(pairs):
            if their_word != word:
                raise UserError(
                    f"{path}: its dictionary {file} has '{their_word}' as entry {number}, this "
                    f"data's has '{word}': the model needs the same dictionary, so prepare the "
                    "data with --vocabulary or --dictionary"
                )
        return
