"""Convert corpora to the raw format: WMT, IWSLT, Europarl, OPUS, TMX, tables, or items of ctxpro and ContraPro."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.corpus import SPLITS
from gtransformer.preprocess.ctxpro import (
    ANTECEDENT,
    SCORED,
    film,
    read_expectations,
    read_items,
    with_translations,
    write_sources,
)
from gtransformer.preprocess.formats import read_parallel, write_split
from gtransformer.preprocess.formats.documents import (
    BY,
    CHAPTER,
    REFERENCE,
    REFUSE,
    RETURNING_ID,
    RETURNING_OPUS,
    SOURCE,
    Reading,
    Side,
    aligned,
)
from gtransformer.preprocess.formats.lines import read_with_ids
from gtransformer.preprocess.formats.opus import read_opus


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer convert", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="files|ids|opus|ctxpro|contrapro")
    files = kinds.add_parser(
        "files",
        help="WMT's XML, SGM or folder, IWSLT, Europarl, TMX, TSV, JSON lines: the format is told by the content",
    )
    files.add_argument(
        "--input",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="one file (or WMT's folder) with both sides, or two, the source first",
    )
    files.add_argument("--reference", default="", metavar="NAME", help="which reference, if there are several")
    files.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="NAME",
        help="a table's columns if its first line does not name them: docid src ref, as in sacrebleu --echo",
    )
    of_tmx = files.add_mutually_exclusive_group()
    of_tmx.add_argument("--document-property", metavar="TYPE", help="of TMX: the property with the document's name")
    of_tmx.add_argument(
        "--one-document",
        action="store_const",
        const="",
        dest="document_property",
        help="of TMX: the file is a document",
    )
    files.add_argument("--by", choices=BY, default=CHAPTER, help="what is a document of Europarl (%(default)s)")
    ids = kinds.add_parser("ids", help="text on both sides and a document id for every line: WMT, or moses of OPUS")
    ids.add_argument("--source", type=Path, required=True, metavar="FILE", help="a sentence per line")
    ids.add_argument("--target", type=Path, required=True, metavar="FILE", help="its translations, line by line")
    ids.add_argument("--ids", type=Path, required=True, metavar="FILE", help="the id of every line's document")
    ids.add_argument("--target-ids", type=Path, metavar="FILE", help="the target side's ids, with the same boundaries")
    links = kinds.add_parser("opus", help="OPUS: documents in XML, and a file of sentence alignments")
    links.add_argument("--alignment", type=Path, required=True, metavar="XML", help="groups of links (XCES)")
    links.add_argument("--documents", type=Path, required=True, metavar="DIR", help="folder of fromDoc and toDoc")
    suite = kinds.add_parser("ctxpro", help="ctxpro: items as documents: source context and the scored sentence")
    suite.add_argument("--items", type=Path, nargs="+", required=True, metavar="JSON", help="one or several files")
    suite.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="for each of --items, a line per item: context and sentence separated by <eos>",
    )
    suite.add_argument(
        "--without",
        type=Path,
        nargs="+",
        default=[],
        metavar="JSON",
        help="leave out items of films that are also in these files, such as a test set",
    )
    suite.add_argument(
        "--context-translations",
        type=Path,
        metavar="FILE",
        help="translation of the source that this command writes; then the target side is also written, with the "
        "references of the last sentence and of the sentence with the antecedent",
    )
    pronouns = kinds.add_parser("contrapro", help="ContraPro: items as documents, for generative accuracy")
    pronouns.add_argument(
        "--items", type=Path, required=True, metavar="PATH", help="contrapro.json, or the folder of its text form"
    )
    pronouns.add_argument(
        "--documents", type=Path, metavar="DIR", help="of contrapro.json: the documents of OpenSubtitles2018"
    )
    pronouns.add_argument(
        "--context", type=int, metavar="N", help="sentences before each item (contrapro.json: 1; text form: all)"
    )
    for kind, returning, what in (
        (files, RETURNING_ID, "an id that occurs again"),
        (ids, RETURNING_ID, "an id that occurs again"), (links, RETURNING_OPUS, "a document that occurs again"),
        (suite, (), ""), (pronouns, (), ""),
    ):  # fmt: skip
        kind.add_argument("output", type=Path, help="directory of the raw corpus")
        kind.add_argument("--split", choices=list(SPLITS), required=True, help="which split of it this is")
        if kind is not pronouns:
            kind.add_argument("-s", "--source-lang", default="en", help="(%(default)s)")
            kind.add_argument("-t", "--target-lang", default="de", help="(%(default)s)")
        if returning:
            kind.add_argument("--returning", choices=returning, default=REFUSE, help=f"{what} later (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, write, print counts."""
    args = build_parser().parse_args(argv)
    if args.kind == "contrapro":
        return convert_contrapro(args)
    langs = (args.source_lang, args.target_lang)
    if langs[0] == langs[1]:
        raise UserError(f"source and target language are both {langs[0]}; give two with -s and -t")
    if args.kind == "ctxpro":
        return convert_ctxpro(args, langs)
    reading = Reading(langs, args.returning)
    source, target = (Side(role, lang) for role, lang in zip((SOURCE, REFERENCE), langs, strict=True))
    if args.kind == "files":
        if len(args.input) > 2:
            raise UserError(f"{args.input[2]}: give one file with both sides, or two")
        reading = replace(reading, columns=tuple(args.columns), document_property=args.document_property, by=args.by)
        documents = read_parallel(args.input, reading, args.reference)
    else:
        if args.kind == "ids":
            ids = {source: args.ids, **({target: args.target_ids} if args.target_ids else {})}
            found = read_with_ids({source: args.source, target: args.target}, ids, args.returning)
        else:
            found = read_opus(args.alignment, args.documents, reading)
        documents = (aligned(document, source, document, target) for document in found)
    written = write_split(args.output, args.split, langs, documents)
    for path in written.files:
        print(f"written: {path}")
    print(f"{args.split}: {written.documents} documents, {written.sentences} sentences")
    left = reading.left_out
    for count, what in (
        (written.half_empty, "sentence pairs have an empty side"),
        (left.links, "links with an empty side were left out"),
        (left.empty, "groups without any other link were left out"),
        (left.returned, "groups of documents that occurred again were left out"),
        (left.units, "translation units that lack a language were left out"),
        (left.documents, "documents that lack a side were left out"),
    ):
        if count:
            print(f"note: {count} {what}")


def convert_contrapro(args: argparse.Namespace) -> None:
    """Write the source documents of ContraPro, and its items in the form of ctxpro's."""
    from gtransformer.evaluation.suite_files import LANGS, UNMATCHED, contrapro_documents

    if args.context is not None and args.context < 0:
        raise UserError(f"--context {args.context}: give 0 or more")
    entries, documents, unmatched = contrapro_documents(args.items, args.context, args.documents)
    for path in write_sources(args.output, args.split, LANGS, entries, documents, "contrapro"):
        print(f"written: {path}")
    print(f"{args.split}: {len(documents)} documents, {sum(map(len, documents))} sentences")
    far = sum(entry.get("ante distance", 0) > entry[SCORED] for entry in entries)
    if far:
        print(f"note: for {far} items the sentence with the antecedent is not in the context")
    if unmatched:
        print(UNMATCHED.format(unmatched))
    print("to score: translate the source and give the translation to gtransformer generative with these items")


def convert_ctxpro(args: argparse.Namespace, langs: tuple[str, str]) -> None:
    """Write the documents of items; their target side only if context translations are given."""
    if len(args.items) != len(args.inputs):
        raise UserError(f"{args.inputs[-1]}: {len(args.items)} files of items, but {len(args.inputs)} of inputs")
    entries, documents = [], []
    for items, inputs in zip(args.items, args.inputs, strict=True):
        for whole, part in zip((entries, documents), read_items(items, inputs), strict=True):
            whole += part
    films = {film(entry) for path in args.without for entry in read_expectations(path)} - {None}
    kept = [number for number, entry in enumerate(entries) if film(entry) not in films]
    if not kept:
        raise UserError(f"{args.items[0]}: no item is left; all their films are in the files of --without")
    left_out = len(entries) - len(kept)
    entries, documents = [entries[number] for number in kept], [documents[number] for number in kept]
    files = write_sources(args.output, args.split, langs, entries, documents)
    if args.context_translations:
        pairs = with_translations(entries, documents, args.context_translations, files)
        files = [*write_split(args.output, args.split, langs, pairs).files, files[1]]
    for path in files:
        print(f"written: {path}")
    print(f"{args.split}: {len(documents)} documents, {sum(map(len, documents))} sentences")
    lost = sum("ante distance" in entry and ANTECEDENT not in entry for entry in entries)
    if left_out:
        print(f"note: {left_out} items were left out, as their films are in other files")
    if lost:
        print(f"note: for {lost} items the sentence with the antecedent is not in the context")
    if not args.context_translations:
        print("to score: translate the source and give the translation to gtransformer generative with these items")
        print("to train: translate the source and give the translation as --context-translations")


if __name__ == "__main__":
    raise SystemExit(main())
