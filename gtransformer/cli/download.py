"""Fetch a benchmark corpus of Maruf et al. (2019), verify it and lay it out in the raw corpus format.

``gtransformer corpus get ted`` writes ``data/ted/concatenated_en2de_{train,dev,test}_{en,de}.txt``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.preprocess.download import CORPORA, PUBLIC_HOME, data_directory, download


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(prog="gtransformer corpus get", description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--data", type=Path, help="where corpora lie ($DATA, or data/ in the checkout)")
    parser.add_argument(
        "--source",
        default=os.environ.get("GTRANSFORMER_MIRROR") or PUBLIC_HOME,
        help="where to fetch from: a folder's address or an archive's ($GTRANSFORMER_MIRROR, or %(default)s)",
    )
    parser.add_argument(
        "--accept-changed", action="store_true", help="take files whose checksum differs from the one we know"
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Download one corpus."""
    args = build_parser().parse_args(argv)
    target = download(args.corpus, args.data or data_directory(), args.source, args.accept_changed)
    print(f"corpus: {target}")


if __name__ == "__main__":
    raise SystemExit(main())
