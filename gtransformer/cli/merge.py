"""Merge separately prepared shards of a corpus: ``gtransformer corpus merge OUT SHARD...``."""

from __future__ import annotations

import argparse
import shlex
import sys

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.preprocess.manifest import table
from gtransformer.preprocess.shards import merge


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(
        prog="gtransformer corpus merge",
        description="Merge all shards of a corpus that gtransformer prepare --shard I/N wrote. The result equals "
        "that of one run with the same vocabulary.",
    )
    parser.add_argument("output", help="directory to write to")
    parser.add_argument("shards", nargs="+", metavar="shard", help="directories of all shards, in any order")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Merge and print the counts."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    print(table(merge(args.shards, args.output, shlex.join(["gtransformer", "corpus", "merge", *argv]))))


if __name__ == "__main__":
    raise SystemExit(main())
