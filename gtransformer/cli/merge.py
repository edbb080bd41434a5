"""``python -m gtransformer.cli.merge OUT SHARD...``: shards of a corpus put together (``scripts/merge.sh``)."""

from __future__ import annotations

import argparse
import shlex
import sys

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.preprocess.manifest import table
from gtransformer.preprocess.shards import merge


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(
        prog="scripts/merge.sh",
        description="Put together all shards of a corpus that scripts/prepare.sh --shard I/N prepared apart: what one "
        "run with the same vocabulary would have made.",
    )
    parser.add_argument("output", help="directory to write to")
    parser.add_argument("shards", nargs="+", metavar="shard", help="directories of all shards, in any order")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Merge and print the counts."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    print(table(merge(args.shards, args.output, shlex.join(["scripts/merge.sh", *argv]))))


if __name__ == "__main__":
    raise SystemExit(main())
