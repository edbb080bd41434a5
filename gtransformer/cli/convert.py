"""Convert files of WMT, IWSLT, TMX, TSV, subtitles, text, ctxpro or ContraPro to a raw corpus."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.corpus import SPLITS, LeftOut, raw_file
from gtransformer.preprocess.formats import FORMATS, Options, draw_splits, read, write_split
from gtransformer.preprocess.plain_text import write_documents
from gtransformer.preprocess.suites import read_ctxpro, read_suite, with_translations


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.set_defaults(context_translations=None, divide=None)
    common = CommandParser(add_help=False)
    common.add_argument("output", type=Path, help="raw corpus to write to")
    common.add_langs()
    common.add_argument("--overwrite", action="store_true", help="replace a split that exists")
    split = {"choices": list(SPLITS), "help": "split to write"}
    kinds = parser.add_subparsers(required=True, metavar="files|ctxpro|contrapro")
    files = kinds.add_parser("files", parents=[common], help="WMT, TMX, TSV, subtitles, text")
    files.set_defaults(convert=convert_files)
    which = files.add_mutually_exclusive_group(required=True).add_argument
    which("--split", **split)
    which("--divide", metavar="A,B,C", help="shares of train, dev and test: 0.8,0.1,0.1")
    add = files.add_argument
    sides = "source and target, or one file with both"
    add("--input", type=Path, nargs="+", required=True, metavar="FILE", help=sides)
    add("--format", choices=FORMATS, help="default: by the ending of the first file's name")
    add("--ids", type=Path, metavar="FILE", help="plain: the document of each line, or OPUS's ids")
    add("--reference", default="", metavar="NAME", help="xml, tsv: which of several references")
    add("--columns", nargs="+", default=[], metavar="NAME", help="tsv: of a file without them")
    add("--one-document", action="store_true", help="tmx: the file is a document")

    ctxpro = kinds.add_parser("ctxpro", parents=[common], help="items, each as a document")
    ctxpro.set_defaults(convert=convert_ctxpro)
    add = ctxpro.add_argument
    add("--split", required=True, **split)
    add("--items", type=Path, nargs="+", required=True, metavar="JSON", help="files as published")
    add("--inputs", type=Path, nargs="+", required=True, metavar="FILE", help="their sentences")
    add("--without", type=Path, nargs="+", default=[], metavar="JSON", help="leave out their films")
    translated = "translation of the source written before: also write the target side"
    add("--context-translations", type=Path, metavar="FILE", help=translated)

    contrapro = kinds.add_parser("contrapro", parents=[common], help="items, each as a document")
    contrapro.set_defaults(convert=convert_contrapro)
    add = contrapro.add_argument
    add("--split", required=True, **split)
    add("--items", type=Path, required=True, metavar="PATH", help="contrapro.json or a directory")
    contrapro.add_contrapro()


def main(args: argparse.Namespace) -> None:
    """Read, write, print counts."""
    args.langs = args.source_lang, args.target_lang
    if args.source_lang == args.target_lang:
        raise UserError(f"-s and -t {args.source_lang}: both sides would be one file; give two")
    # With --context-translations the source of the split is there already.
    again = args.overwrite or args.context_translations
    for split in SPLITS if args.divide else [args.split]:
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
    splits = draw_splits(documents, args.divide) if args.divide else {args.split: documents}
    for split, part in splits.items():
        written = write_split(args.output, split, args.langs, part)
        report(split, written.documents, written.sentences, options.left_out)
        if written.half_empty:
            print(f"note: {written.half_empty} sentence pairs have an empty side")


def report(split: str, documents: int, sentences: int, left_out: LeftOut) -> None:
    """Print what was written and, once, what was left out."""
    print(f"{split}: {documents} documents, {sentences} sentences")
    while left_out:
        what, names = left_out.popitem()
        more = ", ..." if len(names) > 10 else ""
        print(f"note: {len(names)} {what} were left out: {', '.join(names[:10])}{more}")


def convert_contrapro(args: argparse.Namespace) -> None:
    """Write the source documents of ContraPro: each item's context, then its sentence."""
    suite = read_suite([args.items], args.context, args.documents)
    documents = [list(filter(None, map(clean_line, item.source))) for item in suite.items]
    path = raw_file(args.output, suite.langs, args.split, suite.langs[0])
    write_documents(path, documents)
    report(args.split, len(documents), sum(map(len, documents)), LeftOut())


def convert_ctxpro(args: argparse.Namespace) -> None:
    """Write the documents of items; their target side only if context translations are given."""
    entries, documents, left_out = read_ctxpro(args.items, args.inputs, args.without)
    if args.context_translations:
        pairs = with_translations(entries, documents, args.context_translations)
        write_split(args.output, args.split, args.langs, pairs)
    else:
        source = raw_file(args.output, args.langs, args.split, args.source_lang)
        write_documents(source, documents)
    write_json(args.output / f"ctxpro_{args.split}.json", entries)
    report(args.split, len(documents), sum(map(len, documents)), left_out)
