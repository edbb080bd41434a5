"""Write the mean of checkpoints of one training."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.files import check_output


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer average", description=__doc__)
    parser.add_argument(
        "checkpoints",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="directory of checkpoints, or checkpoints",
    )
    parser.add_argument(
        "--last", type=int, metavar="N",
        help="average the last N numbered checkpoints, or fewer if there are not N",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="checkpoint to write"
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Find the checkpoints, write their mean, print their names."""
    args = build_parser().parse_args(argv)

    # Imported here, so that --help need not wait for PyTorch and fairseq.
    from gtransformer.plugin.checkpoints import average, last_checkpoints

    paths = args.checkpoints
    if args.last:
        paths = last_checkpoints(paths[0], args.last)
    check_output(args.output, paths)
    print(f"the mean of {len(paths)} checkpoints: {', '.join(path.name for path in paths)}")
    average(paths, args.output)
    print(f"written: {args.output}")
