"""Load a trained model and its task from a checkpoint."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.batch_fields import TEXT_POSITION
from gtransformer.data.batching import NOTHING, SIZE, fill_batches
from gtransformer.data.instances import STORED
from gtransformer.errors import UserError, explain
from gtransformer.modules.kernels import quantise
from gtransformer.modules.processor import has_bfloat16, has_int8
from gtransformer.search.strategies import FULL, PRECISIONS

# Options for translating given instances as they are, whatever instances the model was trained on.
AS_GIVEN = {
    "instances": STORED,
    "instance_tokens": None,
    "context_sentences": None,
    "target_context_sentences": None,
    "context_loss": "on",
    "batch_order": SIZE,
    "shuffled_context": NOTHING,
    "strategy": FULL,
    "window_tokens": None,
    "eval_bleu": False,
    "gen_output": None,
    "prepend_bos": False,
    "doc_constraint": False,  # --sentence-rule is set instead
}
# Options for measuring on unchanged text: no word dropout, and no added, omitted or permuted instances.
AS_IT_IS = {
    "doc_noise_mask": 0.0,
    "more_training_data": None,
    "training_weights": None,
    "max_pair_tokens": None,
    "shuffled_context": NOTHING,
}


def load_trained(checkpoint: str | Path, **overrides) -> tuple[FairseqEncoderDecoderModel, object]:
    """Load the model of a checkpoint, in evaluation mode, and its fairseq task.

    Args:
        overrides: values that replace the stored configuration's (``data="prepared/bin"``).

    Raises UserError if the file is missing or damaged, does not fit the dictionaries, or is no encoder-decoder model.
    """
    try:
        (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], overrides)
    except Exception as error:  # a damaged file, or another model's, makes the loader raise anything
        message = explain(error)
        reason = " ".join(str(error).split())[:300]
        raise UserError(message or f"checkpoint {checkpoint} cannot be loaded: {reason}") from error
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise UserError(f"{checkpoint}: holds a {type(model).__name__}, not a translation model; give another one")
    return model.eval(), task


def in_batches(
    task: FairseqTask,
    model: nn.Module,
    generator: object,
    sources: Sequence[Tensor],
    costs: Sequence[int],
    max_tokens: int,
    positions: Sequence[tuple[int, int]] | None = None,
) -> Iterator[tuple[int, list[dict]]]:
    """Yield the number of every source (length,) int64 and fairseq's hypotheses for it, in any order.

    Args:
        generator: of ``task.build_generator``.
        costs: tokens that each source counts in a batch.
        max_tokens: tokens of a batch.
        positions: of each source its ``TEXT_POSITION``; None: not known.
    """
    lengths = [len(one) for one in sources]
    dataset = task.build_dataset_for_inference(list(sources), lengths)
    dataset.numbers = None if positions is None else np.array([sentence for _, sentence in positions])
    # Longest first: lack of memory shows at once, and documents of a batch end at about the same time.
    order = sorted(range(len(sources)), key=lambda number: (-lengths[number], number))
    device = next(model.parameters()).device
    for batch in fill_batches(order, [costs[number] for number in order], max_tokens, None):
        sample = dataset.collater([dataset[int(number)] for number in batch])
        if positions is not None:
            sample[TEXT_POSITION] = [positions[number] for number in sample["id"].tolist()]
        if device.type == "cuda":
            sample = utils.move_to_cuda(sample, device)
        yield from zip(sample["id"].tolist(), task.inference_step(generator, [model], sample), strict=True)


def check_precision(precision: str, device: torch.device) -> str:
    """Return ``precision``. Raise UserError if a model cannot be used in it on this device."""
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown; give one of {', '.join(PRECISIONS)}")
    if precision == "float16" and device.type != "cuda":
        raise UserError("--precision float16 is for GPUs, and this run has none; leave it out")
    if precision == "bfloat16" and device.type == "cpu" and not has_bfloat16():
        raise UserError(
            "--precision bfloat16: this processor has no instructions for it (AVX512-BF16 or AMX), so it would "
            "be slow; use --precision float32"
        )
    if precision == "int8" and device.type != "cpu":
        raise UserError("--precision int8 is for CPUs, and this run has a GPU; use --precision float16, or --cpu")
    if precision == "int8" and not has_int8():
        raise UserError("--precision int8: this processor has no instructions for it (AVX2); leave it out")
    return precision


def model_options(precision: str) -> dict[str, str]:
    """Return the model's options for a precision; none for "auto", which keeps the precision of training.

    bfloat16 is ``--autocast``: matrix products with converted weights, while states, norms, softmax and log
    probabilities stay in float32. For float16 the whole model is converted, for int8 its linear layers are
    (``kernels.quantise``), so that autocast is off.
    """
    return {} if precision == "auto" else {"autocast": "bfloat16" if precision == "bfloat16" else "none"}


def convert_to(precision: str, model: nn.Module) -> None:
    """Convert a loaded model to float16 or int8; in other precisions it stays as it is.

    Raises UserError for int8 and a model that has no linear layers of this package.
    """
    if precision == "float16":
        model.half()
    if precision == "int8" and not quantise(model):
        raise UserError(f"--precision int8: {type(model).__name__} is no model of this package; leave it out")


def import_user_dir(folder: str | Path | None) -> None:
    """Import the code of a user-dir, as fairseq's programs do, unless it is None or has been imported.

    fairseq's own parsers import only the user-dir on the command line of the process. Raises UserError if there is no
    such folder.
    """
    if folder is None:
        return
    code = Path(folder).absolute() / "__init__.py"
    if not code.is_file():
        raise UserError(f"--user-dir {folder}: no {code.name} there; give the folder that holds the system's code")
    try:
        utils.import_user_module(Namespace(user_dir=str(folder)))
    except BaseException:
        utils.import_user_module.memo.discard(str(code.parent))  # so that a second attempt imports it again
        raise
