"""Corpora of other formats as a raw corpus: a document id a line (WMT), or OPUS XML."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.preprocess.corpus import SPLITS
from gtransformer.preprocess.formats import (
    REFUSE,
    RETURNING_ID,
    RETURNING_OPUS,
    LeftOut,
    read_opus,
    read_with_ids,
    write_split,
)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(prog="gtransformer corpus convert", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="ids|opus")
    ids = kinds.add_parser("ids", help="text on both sides and a document id for every line, as WMT has it")
    ids.add_argument("--source", type=Path, required=True, metavar="FILE", help="a sentence a line")
    ids.add_argument("--target", type=Path, required=True, metavar="FILE", help="its translations, line by line")
    ids.add_argument("--ids", type=Path, required=True, metavar="FILE", help="the id of every line's document")
    ids.add_argument("--target-ids", type=Path, metavar="FILE", help="the target's own, with the same borders")
    links = kinds.add_parser("opus", help="OPUS: documents in XML, and a file of sentence alignments")
    links.add_argument("--alignment", type=Path, required=True, metavar="XML", help="groups of links (XCES)")
    links.add_argument("--documents", type=Path, required=True, metavar="DIR", help="where fromDoc and toDoc lie")
    for kind, returning, what in (
        (ids, RETURNING_ID, "an id that stands again"), (links, RETURNING_OPUS, "a document that does"),
    ):  # fmt: skip
        kind.add_argument("output", type=Path, help="directory of the raw corpus")
        kind.add_argument("--split", choices=list(SPLITS), required=True, help="which split of it this is")
        kind.add_argument("-s", "--source-lang", default="en", help="(%(default)s)")
        kind.add_argument("-t", "--target-lang", default="de", help="(%(default)s)")
        kind.add_argument("--returning", choices=returning, default=REFUSE, help=f"{what} later (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, write, say how much."""
    args = build_parser().parse_args(argv)
    langs, left = (args.source_lang, args.target_lang), LeftOut()
    if args.kind == "ids":
        documents = read_with_ids(args.source, args.target, args.ids, args.target_ids, args.returning)
    else:
        documents = read_opus(args.alignment, args.documents, langs, args.returning, left)
    written = write_split(args.output, args.split, langs, documents)
    for path in written.files:
        print(f"written: {path}")
    print(f"{args.split}: {written.documents} documents, {written.sentences} sentences")
    for count, what in (
        (written.half_empty, "sentence pairs have an empty side"),
        (left.links, "links with an empty side were left out"),
        (left.empty, "groups without any other link were left out"),
        (left.returned, "groups of documents that came back were left out"),
    ):
        if count:
            print(f"note: {count} {what}")


if __name__ == "__main__":
    raise SystemExit(main())
