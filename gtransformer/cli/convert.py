"""Convert files of WMT, IWSLT, TMX, TSV, subtitles, text, ctxpro or ContraPro to a raw corpus."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import SPLITS, raw_file
from gtransformer.preprocess.formats import FORMATS, Options, divided, read, write_split
from gtransformer.preprocess.plain_text import write_documents
from gtransformer.preprocess.suites import (
    read_ctxpro,
    read_suite,
    with_translations,
    write_sources,
)


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer convert", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(required=True, metavar="files|ctxpro|contrapro")
    files = kinds.add_parser(
        "files", help="files of WMT and IWSLT, TMX, TSV, subtitles, plain text"
    )
    add = files.add_argument
    add(
        "--input",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="source and target, or one file with both",
    )
    add(
        "--format", choices=FORMATS, help="format (default: by the ending of the first file's name)"
    )
    add(
        "--ids",
        type=Path,
        metavar="FILE",
        help="plain: document ids, one a line, or OPUS's four columns",
    )
    add(
        "--reference",
        default="",
        metavar="NAME",
        help="xml, tsv: the reference to take, if there are several",
    )
    add(
        "--columns",
        nargs="+",
        default=[],
        metavar="NAME",
        help="tsv: column names, if the file has none",
    )
    add("--one-document", action="store_true", help="tmx: the file is a document")
    suite = kinds.add_parser("ctxpro", help="items of ctxpro: each becomes a document")
    add = suite.add_argument
    add("--items", type=Path, nargs="+", required=True, metavar="JSON", help="files as published")
    add(
        "--inputs",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="sentences of each file of --items",
    )
    add(
        "--without",
        type=Path,
        nargs="+",
        default=[],
        metavar="JSON",
        help="leave out films of these files",
    )
    add(
        "--context-translations",
        type=Path,
        metavar="FILE",
        help="translation of the source written before: also write the target side",
    )
    pronouns = kinds.add_parser("contrapro", help="items of ContraPro: each becomes a document")
    add = pronouns.add_argument
    add(
        "--items",
        type=Path,
        required=True,
        metavar="PATH",
        help="contrapro.json, or the directory of its text form",
    )
    add(
        "--documents",
        type=Path,
        metavar="DIR",
        help="contrapro.json: OpenSubtitles 2018, DIR/ID.en and DIR/ID.de",
    )
    add(
        "--context",
        type=int,
        metavar="N",
        help="sentences of context (default: 1 with contrapro.json, else all)",
    )
    for kind, function in (
        (files, convert_files),
        (suite, convert_ctxpro),
        (pronouns, convert_contrapro),
    ):
        kind.set_defaults(convert=function)
        kind.add_argument("output", type=Path, help="raw corpus to write to")
        which = kind.add_mutually_exclusive_group(required=True)
        which.add_argument("--split", choices=list(SPLITS), help="split to write")
        if kind is files:
            which.add_argument(
                "--divide", metavar="A,B,C", help="shares of train, dev and test: 0.8,0.1,0.1"
            )
        kind.add_argument(
            "-s",
            "--source-lang",
            default="en",
            metavar="LANG",
            help="source language (default: en)",
        )
        kind.add_argument(
            "-t",
            "--target-lang",
            default="de",
            metavar="LANG",
            help="target language (default: de)",
        )
        kind.add_argument("--overwrite", action="store_true", help="replace a split that exists")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, write, print counts."""
    args = build_parser().parse_args(argv)
    args.langs = args.source_lang, args.target_lang
    if args.source_lang == args.target_lang:
        raise UserError(
            f"source and target language are both {args.source_lang}; give two with -s and -t"
        )
    again = args.overwrite or getattr(
        args, "context_translations", None
    )  # of the source that is there
    for split in [args.split] if args.split else SPLITS:
        existing = sorted(args.output.glob(f"concatenated_*_{split}_*"))
        if existing and not again:
            raise UserError(f"{existing[0]}: exists already; --overwrite replaces it")
    args.convert(args)


def convert_files(args: argparse.Namespace) -> None:
    """Write the documents of files in one of the formats."""
    options = Options(
        args.langs, args.format, args.reference, args.columns, args.ids, args.one_document
    )
    documents = read(args.input, options)
    splits = {args.split: documents} if args.split else divided(documents, args.divide)
    for split, part in splits.items():
        written = write_split(args.output, split, args.langs, part)
        report(split, written.files, written.documents, written.sentences)
        if written.half_empty:
            print(f"note: {written.half_empty} sentence pairs have an empty side")
    for what, count in (+options.left_out).items():
        print(f"note: {count} {what} were left out")


def report(split: str, files: Iterable[Path], documents: int, sentences: int) -> None:
    """Print what was written."""
    for path in files:
        print(f"written: {path}")
    print(f"{split}: {documents} documents, {sentences} sentences")


def convert_contrapro(args: argparse.Namespace) -> None:
    """Write the source documents of ContraPro: each item's context, then its sentence."""
    suite = read_suite([args.items], args.context, args.documents)
    documents = [
        [sentence for sentence in map(clean_line, item.source) if sentence] for item in suite.items
    ]
    path = raw_file(args.output, suite.langs, args.split, suite.langs[0])
    write_documents(path, documents)
    report(args.split, [path], len(documents), sum(map(len, documents)))


def convert_ctxpro(args: argparse.Namespace) -> None:
    """Write the documents of items; their target side only if context translations are given."""
    entries, documents, left_out = read_ctxpro(args.items, args.inputs, args.without)
    pairs = None
    if args.context_translations:  # read before anything is written
        pairs = with_translations(entries, documents, args.context_translations)
    files = write_sources(args.output, args.split, args.langs, entries, documents)
    if pairs:
        files = [*write_split(args.output, args.split, args.langs, pairs).files, files[1]]
    report(args.split, files, len(documents), sum(map(len, documents)))
    for what, items in left_out.items():
        print(
            f"note: {len(items)} items were left out, {what}: "
            f"{', '.join(items[:10])}{' ...' * (len(items) > 10)}"
        )
