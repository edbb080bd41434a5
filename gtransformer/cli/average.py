"""Write the mean of checkpoints of one training."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.files import check_output


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    paths = "directory of checkpoints, or checkpoints"
    add("checkpoints", nargs="+", type=Path, metavar="PATH", help=paths)
    last = "average the last N numbered checkpoints, or fewer if there are not N"
    add("--last", type=int, metavar="N", help=last)
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="checkpoint to write")


def main(args: argparse.Namespace) -> None:
    """Find the checkpoints, write their mean, print their names."""
    # Imported here, so that --help need not wait for PyTorch and fairseq.
    from gtransformer.plugin.checkpoints import average, last_checkpoints

    paths = args.checkpoints
    if args.last:
        paths = last_checkpoints(paths[0], args.last)
    check_output(args.output, paths)
    print(f"the mean of {len(paths)} checkpoints: {', '.join(path.name for path in paths)}")
    average(paths, args.output)
    print(f"written: {args.output}")
