"""Attention entropy of a trained model on a split of a prepared corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from fairseq import utils

from gtransformer.analysis.entropy import EntropyMeter
from gtransformer.errors import UserError
from gtransformer.tasks.trained import load_trained


@torch.no_grad()
def measure(
    prepared: Path,
    checkpoint: Path,
    split: str,
    per_head: bool,
    max_tokens: int,
    cpu: bool = False,
    skip_too_long: bool = False,
) -> EntropyMeter:
    """Run the model over a split, in evaluation mode, and measure.

    Raises UserError for a missing file, another model, or an instance that does not fit the model's positions, unless
    ``skip_too_long``.
    """
    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    if not (prepared / "bin").is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with scripts/prepare.sh")
    # The task drops words of its training set; what is measured is the text as it is.
    model, task = load_trained(checkpoint, data=str(prepared / "bin"), doc_noise_mask=0.0)
    task.load_dataset(split)
    on_gpu = torch.cuda.is_available() and not cpu
    model = model.cuda() if on_gpu else model
    batches = task.get_batch_iterator(
        task.dataset(split),
        max_tokens=max_tokens,
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=skip_too_long,
    ).next_epoch_itr(shuffle=False)
    meter = EntropyMeter(per_head)
    with meter.on(model):
        for batch in batches:
            model(**(utils.move_to_cuda(batch) if on_gpu else batch)["net_input"])
    return meter


def table(records: Sequence[dict]) -> str:
    """A line for each layer."""
    lines = ["part     reach   layer    flat  entropy (bits)"]
    for one in records:
        bits = " ".join(f"{value:7.4f}" for value in one["bits"])
        lines.append(f"{one['part']:8} {one['reach']:7} {one['layer']:4d}  {one['flat']:7.4f}  {bits}")
    return "\n".join(lines)
