"""Draw translations of a document side by side, or BLEU by input length.

``gtransformer lab picture sides.svg --texts source=test.en reference=test.de NAME=FILE``
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.files import atomic_write


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument("picture", type=Path, help="file to write (.svg; of results also .png)")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--texts",
        nargs="+",
        metavar="NAME=FILE",
        help="source, reference and translations, a sentence a line (SVG)",
    )
    kind.add_argument(
        "--results",
        type=Path,
        metavar="CSV",
        help="results.csv of an experiment whose systems are called NAME-LENGTH",
    )
    parser.add_argument(
        "--lines",
        type=int,
        nargs=2,
        metavar=("FIRST", "LAST"),
        default=(1, 20),
        help="with --texts: lines to show, from 1 (default: 1 20)",
    )


def main(args: argparse.Namespace) -> None:
    """Draw one picture."""
    from gtransformer.lab.pictures import draw_lengths, side_by_side

    if args.results:
        draw_lengths(args.results, args.picture)
        return
    first, last = args.lines
    texts = {}
    for item in args.texts:
        name, _, file = item.partition("=")
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        texts[name] = lines[first - 1 : last]
    with atomic_write(args.picture) as stream:
        stream.write(side_by_side(texts))
