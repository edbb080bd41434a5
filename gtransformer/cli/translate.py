"""Translate plain text with a saved model: one output line for each input line, in order.

``gtransformer translate --model DIR FILE -o OUT``. One sentence a line; a blank line or ``<d>`` separates documents,
also in the output.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.files import atomic_write, check_output
from gtransformer.preprocess.plain_text import input_lines
from gtransformer.search.strategies import PRECISIONS
from gtransformer.translation.options import add_search_options
from gtransformer.translation.splitter import SentenceSplitter


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    parser = CommandParser(prog="gtransformer translate", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "input", nargs="?", default="-", metavar="FILE",
        help="plain text (.xz, .gz, too), or the raw corpus of one language; - or nothing is standard input",
    )  # fmt: skip
    add("--model", type=Path, required=True, metavar="DIR", help="made by gtransformer export")
    add("-o", "--output", default="-", metavar="FILE", help="output file (default: standard output)")
    add("--format", choices=["text", "json"], default="text", help="json: one object a line")
    add(
        "--nbest", type=int,
        help="of each line its part of the N best translations of the text searched at once, separated by tabs",
    )  # fmt: skip
    add("--scores", action="store_true", help="the log probability before each translation")
    add("--split-sentences", action="store_true", help="lines are running text: split it, and join the translations")
    add_search_options(parser)
    add("--cpu", action="store_true", help="do not use a GPU")
    add(
        "--precision", choices=PRECISIONS, default="auto",
        help="of products; bfloat16 is for GPUs and for CPUs with instructions for it, float16 for GPUs, int8 for CPUs "
        "with instructions for it (%(default)s: what the model was trained with --autocast, else float32)",
    )  # fmt: skip
    parser.add_user_dir()
    add("--quiet", action="store_true", help="no progress on standard error, only errors and remarks on the text")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, translate, write window by window."""
    args = build_parser().parse_args(argv)
    if args.output != "-":
        check_output(args.output, [args.input])
    lines = list(input_lines(args.input))

    from gtransformer.translation.api import GTransformer

    for name in ("fairseq", "gtransformer.tasks"):
        logging.getLogger(name).setLevel(logging.WARNING)
    began = time.monotonic()
    model = GTransformer.from_pretrained(args.model, "cpu" if args.cpu else None, args.precision)
    options = model.options.given(vars(args))
    split = SentenceSplitter(model.directory.source_lang) if args.split_sentences else None
    windows = model.translate_lines(lines, options, split)
    remarks, documents = model.remarks(), 0
    to_stdout = args.output == "-"
    with (
        nullcontext(sys.stdout) if to_stdout else atomic_write(args.output) as stream,
        tqdm(total=len(lines), unit=" lines", disable=args.quiet, leave=False) as bar,
    ):
        for window in windows:
            for translated in window:
                shape = translated.as_json if args.format == "json" else translated.as_text
                stream.write(f"{shape(args.scores, args.nbest is not None)}\n")
                remarks.add(translated.line, translated.at_limit)
            stream.flush()
            bar.update(len(window))
            documents = window[-1].line.position.documents
    for remark in remarks:
        print(remark, file=sys.stderr)
    if not args.quiet:
        seconds = time.monotonic() - began
        print(f"translated {len(lines)} lines ({documents} documents) in {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
