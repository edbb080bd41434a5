"""Loss of a sentence model and of G-Transformers that start from it, before any update.

``gtransformer lab start PREPARED --sentence-model checkpoint.pt``
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.evaluation.tables import align


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "prepared", type=Path, help="corpus prepared with the sentence model's dictionaries"
    )
    parser.add_argument(
        "--sentence-model",
        type=Path,
        required=True,
        metavar="CHECKPOINT",
        help="checkpoint or model directory",
    )
    parser.add_argument(
        "--split", default="valid", help="train, valid or test (default: %(default)s)"
    )


def main(args: argparse.Namespace) -> None:
    """Measure and print."""
    from gtransformer.lab.start import STARTS, measure

    found = measure(args.prepared, args.sentence_model, args.split, list(STARTS))
    rows = [["model", "nats per token", "largest difference of a token"]]
    rows.append(["sentence model", f"{found['sentence_model']:.5f}", "-"])
    rows += [
        [name, f"{one['nats']:.5f}", f"{one['largest']:.2g}"]
        for name, one in found["starts"].items()
    ]
    print(f"{align(rows)}\n{found['tokens']} tokens")
