"""Download a corpus, verify it and write it in the raw corpus format: those of Maruf et al. (2019), LibreOffice's help.

``gtransformer corpus get ted`` writes ``data/ted/concatenated_en2de_{train,dev,test}_{en,de}.txt``, and ``gtransformer
corpus get libreoffice -t pt`` writes ``data/libreoffice-en-pt``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.installation import data_directory
from gtransformer.preprocess.corpus import BENCHMARKS
from gtransformer.preprocess.download import PUBLIC_HOME, download
from gtransformer.preprocess.libreoffice import LIBREOFFICE, TARGETS, get_help


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer corpus get", description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=[*BENCHMARKS, LIBREOFFICE])
    parser.add_argument("--data", type=Path, help="directory of corpora ($DATA, or data/ in the checkout)")
    parser.add_argument(
        "--source",
        default=os.environ.get("GTRANSFORMER_MIRROR") or PUBLIC_HOME,
        help="take it from this folder or archive, a path or an address ($GTRANSFORMER_MIRROR, or %(default)s)",
    )
    parser.add_argument(
        "-t", "--target-lang", choices=TARGETS, help=f"for {LIBREOFFICE}, whose source is en ({TARGETS[0]})"
    )
    parser.add_argument(
        "--packages",
        type=Path,
        nargs="+",
        metavar="DEB",
        help=f"for {LIBREOFFICE}: the Debian packages of both languages (default: apt-get download fetches them)",
    )
    parser.add_argument(
        "--accept-changed", action="store_true", help="accept files whose checksum differs from the known one"
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Download one corpus."""
    args = build_parser().parse_args(argv)
    data = args.data or data_directory()
    if args.corpus == LIBREOFFICE:
        target = get_help(data, args.target_lang or TARGETS[0], args.packages or (), args.accept_changed)
    elif args.target_lang or args.packages:
        raise UserError(f"{args.corpus}: --target-lang and --packages are for {LIBREOFFICE} only; leave them out")
    else:
        target = download(args.corpus, data, args.source, args.accept_changed)
    print(f"corpus: {target}")


if __name__ == "__main__":
    raise SystemExit(main())
