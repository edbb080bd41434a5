"""Compare the loss of a sentence model and of document models initialised from it, before any update.

``gtransformer lab start PREPARED --sentence-model checkpoint.pt`` scores a split with the sentence model, one sentence
at a time, and with G-Transformers initialised as by ``--sentence-model``, whole instances at a time.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import check_counts, cli_main
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.evaluation.text_table import align
from gtransformer.files import PARAMETERS, check_output, sha256, write_json
from gtransformer.preprocess.parallel import progress
from gtransformer.provenance import device_name, provenance

GATES = ["neutral", 3.0, "paper"]


def gate(text: str) -> float | str:
    """Return a bias, or the name of another initialisation."""
    if text in GATES:
        return text
    if math.isfinite(bias := float(text)):
        return bias
    raise argparse.ArgumentTypeError(f"{text}: give a finite number, or one of {', '.join(map(str, GATES))}")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab start", description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path, help="corpus prepared with the sentence model's dictionaries")
    parser.add_argument(
        "--sentence-model",
        type=Path,
        required=True,
        metavar="CHECKPOINT",
        help="sentence model of fairseq or of this package, or the directory of a converted model",
    )
    parser.add_argument("--split", default="valid", help="train, valid or test (%(default)s)")
    parser.add_argument(
        "--gates",
        type=gate,
        nargs="+",
        default=GATES,
        metavar="BIAS",
        help="initial gates: 'neutral', a bias (1000: closed), or 'paper': random gates, with positions "
        "through the document (default: neutral 3 paper)",
    )
    parser.add_argument(
        "--context-layers", type=int, default=2, metavar="N", help="upper layers with global attention (%(default)s)"
    )
    parser.add_argument(
        "--instances", type=int, metavar="N", help="use the first N instances of the split (default: all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of random initialisation (%(default)s)")
    parser.add_argument("--max-tokens", type=int, default=4096, help="tokens of a batch (%(default)s)")
    parser.add_argument("--output", type=Path, metavar="JSON", help="also write the numbers as JSON")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.analysis.start import measure

    model = args.sentence_model
    file = model / PARAMETERS if model.is_dir() else model
    if args.output:
        check_output(args.output, [file])
    check_counts(args, "instances", "max_tokens")
    find_instance_index(args.prepared, args.split)
    began = time.monotonic()
    found = measure(
        args.prepared, model, args.split, args.gates, args.context_layers, args.instances, args.seed,
        args.max_tokens, args.cpu, lambda batches: progress(batches, "batches"),
    )  # fmt: skip
    print(table(found))
    if args.output:
        result = {"version": 1, "checkpoint_sha256": sha256(file), **found}
        result |= {"seconds": round(time.monotonic() - began, 2), "device": device_name()}
        write_json(args.output, result | provenance("lab start", argv))
        print(f"\nresults: {args.output}")


def table(found: dict) -> str:
    """Return a table with a row per model."""
    from gtransformer.lab.analysis.start import NEUTRAL, PAPER

    rows = [["model", "nats per token", "above the sentence model", "largest difference of a token"]]
    rows.append(["sentence model, sentence by sentence", f"{found['sentence_model']:.5f}", "-", "-"])
    for name, one in found["starts"].items():
        kind = {PAPER: "as in the paper", NEUTRAL: "neutral gates"}.get(name, f"gates from {name}")
        kind = f"documents, {kind}"
        rows.append([kind, f"{one['nats']:.5f}", f"{one['above']:+.5f}", f"{one['largest']:.2g}"])
    counts = ", ".join(f"{found[key]} {key}" for key in ("instances", "sentences", "tokens"))
    return f"{align(rows, range(1, 4))}\n{counts} (words and </s>)"


if __name__ == "__main__":
    raise SystemExit(main())
