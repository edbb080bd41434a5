"""Corpora of other formats as a raw corpus: a document id a line (WMT), OPUS XML, or ctxpro's items with context."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.corpus import SPLITS
from gtransformer.preprocess.ctxpro import (
    ANTECEDENT,
    film,
    read_expectations,
    read_items,
    with_translations,
    write_sources,
)
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
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer corpus convert", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="ids|opus|ctxpro")
    ids = kinds.add_parser("ids", help="text on both sides and a document id for every line, as WMT has it")
    ids.add_argument("--source", type=Path, required=True, metavar="FILE", help="a sentence a line")
    ids.add_argument("--target", type=Path, required=True, metavar="FILE", help="its translations, line by line")
    ids.add_argument("--ids", type=Path, required=True, metavar="FILE", help="the id of every line's document")
    ids.add_argument("--target-ids", type=Path, metavar="FILE", help="the target's own, with the same borders")
    links = kinds.add_parser("opus", help="OPUS: documents in XML, and a file of sentence alignments")
    links.add_argument("--alignment", type=Path, required=True, metavar="XML", help="groups of links (XCES)")
    links.add_argument("--documents", type=Path, required=True, metavar="DIR", help="where fromDoc and toDoc lie")
    suite = kinds.add_parser(
        "ctxpro", help="ctxpro: items as documents, source context and the sentence that is scored"
    )
    suite.add_argument("--items", type=Path, nargs="+", required=True, metavar="JSON", help="one or several files")
    suite.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="of each: a line an item, context and sentence separated by <eos>",
    )
    suite.add_argument(
        "--without",
        type=Path,
        nargs="+",
        default=[],
        metavar="JSON",
        help="leave out items of films that are in these files too, as of a test set",
    )
    suite.add_argument(
        "--context-translations",
        type=Path,
        metavar="FILE",
        help="translation of the source that this command writes; with it the target side is written, too, with the "
        "references of the last sentence and of the one with the antecedent",
    )
    for kind, returning, what in (
        (ids, RETURNING_ID, "an id that stands again"), (links, RETURNING_OPUS, "a document that does"),
        (suite, (), ""),
    ):  # fmt: skip
        kind.add_argument("output", type=Path, help="directory of the raw corpus")
        kind.add_argument("--split", choices=list(SPLITS), required=True, help="which split of it this is")
        kind.add_argument("-s", "--source-lang", default="en", help="(%(default)s)")
        kind.add_argument("-t", "--target-lang", default="de", help="(%(default)s)")
        if returning:
            kind.add_argument("--returning", choices=returning, default=REFUSE, help=f"{what} later (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, write, say how much."""
    args = build_parser().parse_args(argv)
    langs, left = (args.source_lang, args.target_lang), LeftOut()
    if args.kind == "ctxpro":
        return convert_ctxpro(args, langs)
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


def convert_ctxpro(args: argparse.Namespace, langs: tuple[str, str]) -> None:
    """Write the documents of items, without their target side where it is not given."""
    if len(args.items) != len(args.inputs):
        raise UserError(f"{args.inputs[-1]}: {len(args.items)} files of items, but {len(args.inputs)} of inputs")
    entries, documents = [], []
    for items, inputs in zip(args.items, args.inputs, strict=True):
        for whole, part in zip((entries, documents), read_items(items, inputs), strict=True):
            whole += part
    films = {film(entry) for path in args.without for entry in read_expectations(path)} - {None}
    kept = [number for number, entry in enumerate(entries) if film(entry) not in films]
    if not kept:
        raise UserError(f"{args.items[0]}: no item is left; the films of all are in the files of --without")
    left_out = len(entries) - len(kept)
    entries, documents = [entries[number] for number in kept], [documents[number] for number in kept]
    files = write_sources(args.output, args.split, langs, entries, documents)
    if args.context_translations:
        pairs = with_translations(entries, documents, args.context_translations, files[0])
        files = [*write_split(args.output, args.split, langs, pairs).files, files[1]]
    for path in files:
        print(f"written: {path}")
    print(f"{args.split}: {len(documents)} documents, {sum(map(len, documents))} sentences")
    lost = sum("ante distance" in entry and ANTECEDENT not in entry for entry in entries)
    if left_out:
        print(f"note: {left_out} items of films in other files were left out")
    if lost:
        print(f"note: of {lost} items the sentence with the antecedent is not in the context")
    if not args.context_translations:
        print("to score: translate the source and give it to gtransformer generative with the items written here")
        print("to train: translate the source and give it as --context-translations")


if __name__ == "__main__":
    raise SystemExit(main())
