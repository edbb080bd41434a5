"""Translate plain text or subtitles: one output line or cue for each of the input, in order.

``gtransformer translate --model DIR FILE -o OUT``. One sentence a line; a blank line or ``<d>``
separates documents, also in the output. Subtitles keep their times and tags.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, check_output
from gtransformer.preprocess.plain_text import input_lines
from gtransformer.preprocess.subtitles import GAP, is_subtitles, translate_file
from gtransformer.search.strategies import PRECISIONS
from gtransformer.translation.keep import USUAL, Keep
from gtransformer.translation.lines import sentence_splitter
from gtransformer.translation.options import add_search_options


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    text = "plain text (also .xz, .gz) or subtitles (.srt, .vtt, .ass); default: standard input"
    add("input", nargs="?", default="-", metavar="FILE", help=text)
    add("--model", type=Path, required=True, metavar="DIR", help="model directory (see export)")
    add("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    form = "json: an object a line, with source, translation and log probability"
    add("--format", choices=["text", "json"], default="text", help=form)
    add("--nbest", type=int, metavar="N", help="json: also the N best translations of each line")
    add("--one-document", action="store_true", help="blank lines do not end a document")
    gap = "subtitles: a pause of S seconds ends a document (default: %(default)s)"
    add("--gap", type=float, default=GAP, metavar="S", help=gap)
    spans = "also keep what matches, besides URLs, e-mail addresses, paths and `code`; may be "
    spans += "repeated; '': keep only the given ones"
    add("--keep", action="append", default=[], metavar="REGEX", help=spans)
    add("--split-sentences", action="store_true", help="lines hold several sentences: split them")
    add_search_options(parser)
    add("--cpu", action="store_true", help="do not use a GPU")
    products = "precision of matrix products: float16 for GPUs, int8 for CPUs, bfloat16 for both "
    products += "(%(default)s: as in training)"
    add("--precision", choices=PRECISIONS, default="auto", help=products)
    parser.add_user_dir()
    add("--quiet", action="store_true", help="show no progress")


def main(args: argparse.Namespace) -> None:
    """Read a text or subtitles, translate, write."""
    if args.output != "-":
        check_output(args.output, [args.input])
    if args.nbest is not None and args.format != "json":
        raise UserError("--nbest needs --format json")
    if is_subtitles(args.input):
        if args.format == "json":
            raise UserError("--format json is for plain text; leave it out")
        # Its ending tells the format.
        name = args.input if args.output == "-" else args.output
        if not is_subtitles(name):
            raise UserError(f"-o {name}: subtitles are written as .srt, .vtt or .ass")
        text = translate_file(args.input, name, args.gap, partial(best_translations, args))
        with output_stream(args.output) as stream:
            stream.write(text)
        return
    # All of them, so that progress has a total. A text is small beside a model.
    lines = list(input_lines(args.input))
    with output_stream(args.output) as stream:
        for line in translated(lines, args):
            text = line.as_json() if args.format == "json" else line.as_text()
            # A reader at a pipe sees each line at once.
            print(text, file=stream, flush=True)


def best_translations(args: argparse.Namespace, lines: list[str]) -> list[str]:
    """Return the translations of all lines that do not end a document."""
    return [line.as_text() for line in translated(lines, args) if not line.line.breaks]


def output_stream(name: str) -> AbstractContextManager[TextIO]:
    """Return standard output for ``-``, in UTF-8, or a file that is complete or absent."""
    if name != "-":
        return atomic_write(name)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return nullcontext(sys.stdout)


def translated(lines: list[str], args: argparse.Namespace) -> Iterator[Any]:
    """Yield each ``TranslatedLine``; progress and remarks go to stderr."""
    # Imported here, so that --help need not wait for PyTorch.
    from gtransformer.translation.api import GTransformer

    model = GTransformer.from_pretrained(args.model, "cpu" if args.cpu else None, args.precision)
    # An empty expression among them switches the usual ones off.
    model.keep = Keep(args.keep if "" in args.keep else [*USUAL, *args.keep], model.survives)
    options = model.options.given(vars(args))
    split = sentence_splitter(model.directory.source_lang) if args.split_sentences else None
    remarks, documents = model.remarks(), 0
    if not is_subtitles(args.input):  # whose lines are no cues
        remarks.place = "line {number}"
    with tqdm(total=len(lines), unit=" lines", disable=args.quiet, leave=False) as bar:
        for window in model.translate_lines(lines, options, split, args.one_document):
            for line in window:
                remarks.add(line.line, line.at_limit, line.lost)
                documents = line.line.document
                yield line
            bar.update(len(window))
    for remark in remarks:
        print(remark, file=sys.stderr)
    if not args.quiet:
        print(f"translated {len(lines)} lines ({documents} documents)", file=sys.stderr)
