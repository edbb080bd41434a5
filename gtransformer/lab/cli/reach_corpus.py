"""Write a contrastive set in which every answer is disclosed a known number of sentences back and
nowhere nearer (DIR/set), and a corpus to train on (DIR): letters of the demonstration corpus
and, for each, three documents like the set's. The same options give identical files on every
machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.lab.cli.demo_corpus import (
    add_sizes,
    at_least,
    print_seen,
    print_splits,
    split_sizes,
)
from gtransformer.lab.demo.reach_corpus import ITEMS, SET, write_reach_corpus


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="directory to write to (made if missing)"
    )
    add_sizes(parser)
    parser.add_argument(
        "--items",
        type=at_least(1),
        default=400,
        metavar="N",
        help="least items for each phenomenon and row of distances (default 400)",
    )


def main(options: argparse.Namespace) -> None:
    """Run the command; raises SystemExit with status 2 on a wrong option."""
    summary = write_reach_corpus(options.output, split_sizes(options), options.seed, options.items)
    print_splits(summary["splits"])
    print_seen(summary["seen_in_training"])
    for side, counts in summary["items"].items():
        for phenomenon, rows in counts.items():
            print(
                f"items {side}, {phenomenon}: "
                + ", ".join(f"{count} at {row}" for row, count in rows.items())
            )
    print(f"written to {options.output}; the items are {Path(options.output) / SET / ITEMS}")
