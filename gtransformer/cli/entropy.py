"""Attention entropy of a trained model on a split (``python -m gtransformer.cli.entropy PREPARED --path FILE``)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from gtransformer.analysis.entropy import EntropyMeter
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.files import check_output, write_json


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m gtransformer.cli.entropy",
        description="Mean entropy of attention in bits, by layer, beside what flat attention would have.",
    )
    parser.add_argument("prepared", type=Path, help="a prepared corpus")
    parser.add_argument("--path", type=Path, required=True, metavar="FILE", help="the model's checkpoint")
    parser.add_argument("--split", default="valid", help="(%(default)s)")
    parser.add_argument("--per-head", action="store_true", help="of each head; else of the mean over heads")
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="tokens of a batch (%(default)s)")
    parser.add_argument(
        "--skip-invalid-size-inputs-valid-test",
        action="store_true",
        help="leave out instances with more tokens than the model has positions, as fairseq's programs do",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the numbers as JSON, too")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return parser


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
    from fairseq import utils

    from gtransformer.tasks.trained import load_trained

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


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Measure, print and keep."""
    args = build_parser().parse_args(argv)
    if args.output:
        check_output(args.output)
    if args.max_tokens < 1:
        raise UserError(f"--max-tokens {args.max_tokens}: give at least 1")
    skip = args.skip_invalid_size_inputs_valid_test
    meter = measure(args.prepared, args.path, args.split, args.per_head, args.max_tokens, args.cpu, skip)
    records = meter.to_json()
    print(table(records))
    if args.output:
        result = {"version": 1, "split": args.split, "per_head": args.per_head, "entropy": records}
        write_json(args.output, result | {"device": device_name(), **provenance("gtransformer.cli.entropy", argv)})


if __name__ == "__main__":
    raise SystemExit(main())
