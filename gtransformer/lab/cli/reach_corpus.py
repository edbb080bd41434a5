"""Write the contrastive set by distance of context: ``gtransformer lab reach-corpus --output
DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.lab.cli.demo_corpus import (
    add_sizes,
    at_least,
    print_seen,
    print_splits,
    split_sizes,
)
from gtransformer.lab.demo.reach_corpus import ITEMS, SET, write_reach_corpus


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(
        prog="gtransformer lab reach-corpus",
        description="Write a contrastive set in which every answer is disclosed a known number of "
        f"sentences back and nowhere nearer (DIR/{SET}), and a corpus to train on (DIR): letters "
        "of the demonstration corpus and, for each, three documents like the set's. The same "
        "options give identical files on every machine.",
    )
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
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the command; raises SystemExit with status 2 on a wrong option."""
    options = build_parser().parse_args(argv)
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


if __name__ == "__main__":
    raise SystemExit(main())
