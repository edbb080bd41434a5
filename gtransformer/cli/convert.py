"""Convert corpora to the raw format: WMT, IWSLT, TMX, TSV, lines with ids, or items of ctxpro and ContraPro."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.corpus import SPLITS
from gtransformer.preprocess.ctxpro import ANTECEDENT, SCORED, read_suite, with_translations, write_sources
from gtransformer.preprocess.formats import read_parallel, write_split
from gtransformer.preprocess.formats.documents import REFERENCE, SOURCE, Reading, Side, aligned
from gtransformer.preprocess.formats.lines import read_with_ids


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer convert", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="files|ids|ctxpro|contrapro")
    files = kinds.add_parser("files", help="WMT's XML, SGM, IWSLT, TMX, TSV: the format is told by the content")
    add = files.add_argument
    add("--input", type=Path, nargs="+", required=True, metavar="FILE", help="one file, or two, the source first")
    add("--reference", default="", metavar="NAME", help="which reference, if there are several")
    add("--columns", nargs="+", default=[], metavar="NAME", help="a table's columns if its first line lacks them")
    of_tmx = files.add_mutually_exclusive_group()
    of_tmx.add_argument("--document-property", metavar="TYPE", help="of TMX: the property with the document's name")
    of_tmx.add_argument("--one-document", action="store_true", help="of TMX: the file is a document")
    ids = kinds.add_parser("ids", help="text on both sides and a document id for every line: WMT, or moses of OPUS")
    ids.add_argument("--source", type=Path, required=True, metavar="FILE", help="a sentence per line")
    ids.add_argument("--target", type=Path, required=True, metavar="FILE", help="its translations, line by line")
    ids.add_argument("--ids", type=Path, required=True, metavar="FILE", help="the id of every line's document")
    suite = kinds.add_parser("ctxpro", help="ctxpro: items as documents: source context and the scored sentence")
    add = suite.add_argument
    add("--items", type=Path, nargs="+", required=True, metavar="JSON", help="one or several files")
    add("--inputs", type=Path, nargs="+", required=True, metavar="FILE", help="for each of --items, a line per item")
    add("--without", type=Path, nargs="+", default=[], metavar="JSON", help="leave out films that are in these files")
    add(
        "--context-translations",
        type=Path,
        metavar="FILE",
        help="translation of the source that this command writes; then the target side is also written, with the "
        "references of the last sentence and of the sentence with the antecedent",
    )
    pronouns = kinds.add_parser("contrapro", help="ContraPro: items as documents, for generative accuracy")
    add = pronouns.add_argument
    add("--items", type=Path, required=True, metavar="PATH", help="contrapro.json, or the folder of its text form")
    add("--documents", type=Path, metavar="DIR", help="of contrapro.json: the documents of OpenSubtitles2018")
    add("--context", type=int, metavar="N", help="sentences before each item (contrapro.json: 1; text form: all)")
    for kind in (files, ids, suite, pronouns):
        kind.add_argument("output", type=Path, help="directory of the raw corpus")
        kind.add_argument("--split", choices=list(SPLITS), required=True, help="which split of it this is")
        if kind is not pronouns:
            kind.add_argument("-s", "--source-lang", default="en", help="(%(default)s)")
            kind.add_argument("-t", "--target-lang", default="de", help="(%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, write, print counts."""
    args = build_parser().parse_args(argv)
    if args.kind == "contrapro":
        return convert_contrapro(args)
    if args.source_lang == args.target_lang:
        raise UserError(f"source and target language are both {args.source_lang}; give two with -s and -t")
    return {"files": convert_files, "ids": convert_ids, "ctxpro": convert_ctxpro}[args.kind](args)


def convert_files(args: argparse.Namespace) -> None:
    """Write the documents of files whose content tells their format."""
    if len(args.input) > 2:
        raise UserError(f"{args.input[2]}: give one file with both sides, or two")
    document_property = "" if args.one_document else args.document_property
    reading = Reading((args.source_lang, args.target_lang), tuple(args.columns), document_property)
    write(args, read_parallel(args.input, reading, args.reference))
    for what, count in reading.left_out.items():
        print(f"note: {count} {what} were left out")


def convert_ids(args: argparse.Namespace) -> None:
    """Write the documents of texts with an id for each line."""
    source, target = Side(SOURCE, args.source_lang), Side(REFERENCE, args.target_lang)
    documents = read_with_ids({source: args.source, target: args.target}, args.ids)
    write(args, (aligned(document, source, document, target) for document in documents))


def write(args: argparse.Namespace, documents: Iterable) -> None:
    """Write documents as a split and print counts."""
    written = write_split(args.output, args.split, (args.source_lang, args.target_lang), documents)
    report(args, written.files, written.documents, written.sentences)
    if written.half_empty:
        print(f"note: {written.half_empty} sentence pairs have an empty side")


def report(args: argparse.Namespace, files: Iterable[Path], documents: int, sentences: int) -> None:
    """Print what was written."""
    for path in files:
        print(f"written: {path}")
    print(f"{args.split}: {documents} documents, {sentences} sentences")


def convert_contrapro(args: argparse.Namespace) -> None:
    """Write the source documents of ContraPro, and its items in the form of ctxpro's."""
    from gtransformer.evaluation.suite_files import LANGS, UNMATCHED, contrapro_documents

    entries, documents, unmatched = contrapro_documents(args.items, args.context, args.documents)
    files = write_sources(args.output, args.split, LANGS, entries, documents, "contrapro")
    report(args, files, len(documents), sum(map(len, documents)))
    if unmatched:
        print(UNMATCHED.format(unmatched))
    far = sum(entry.get("ante distance", 0) > entry[SCORED] for entry in entries)
    if far:
        print(f"note: for {far} items the sentence with the antecedent is not in the context")


def convert_ctxpro(args: argparse.Namespace) -> None:
    """Write the documents of items; their target side only if context translations are given."""
    langs = (args.source_lang, args.target_lang)
    entries, documents, left_out = read_suite(args.items, args.inputs, args.without)
    files = write_sources(args.output, args.split, langs, entries, documents)
    if args.context_translations:
        pairs = with_translations(entries, documents, args.context_translations, files)
        files = [*write_split(args.output, args.split, langs, pairs).files, files[1]]
    report(args, files, len(documents), sum(map(len, documents)))
    if left_out:
        print(f"note: {left_out} items were left out, as their films are in other files")
    lost = sum("ante distance" in entry and ANTECEDENT not in entry for entry in entries)
    if lost:
        print(f"note: for {lost} items the sentence with the antecedent is not in the context")


if __name__ == "__main__":
    raise SystemExit(main())
