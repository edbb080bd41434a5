"""``gtransformer postprocess --lang de < bpe > plain``: BPE undone, detruecased, detokenised."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.chain import LineProcessor, Postprocessor, postprocessor_for, settings_for
from gtransformer.preprocess.parallel import available_cores, map_chunks


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(
        prog="gtransformer postprocess",
        description="Turn BPE, or tokenised and truecased, text into plain text.",
    )
    parser.add_argument("--lang", required=True, help="language of the text, e.g. de")
    parser.add_argument(
        "--prepared",
        metavar="DIR",
        help="the prepared corpus or model directory whose tokens these are, for its rules (default: Moses' rules)",
    )
    parser.add_argument("--input", help="file to read (default: standard input)")
    parser.add_argument("--output", help="file to write (default: standard output)")
    parser.add_argument("--instances", action="store_true", help="lines are instances (<s> ... </s> <s> ... </s>)")
    parser.add_argument("--workers", type=int, default=available_cores(), help="processes (default: all cores)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Turn BPE, or tokenised and truecased, text into plain text."""
    args = build_parser().parse_args(argv)
    if args.prepared:
        settings_for(args.prepared, args.lang)  # raises for another language
        processor = postprocessor_for(args.prepared, args.lang)
    else:
        processor = Postprocessor(args.lang)
    if sys.stdout is None and not args.output:
        raise UserError("standard output is closed; name a file with --output")
    if args.workers < 1:
        raise UserError(f"--workers {args.workers}: give 1 or more")
    if not args.output:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    lines = read_lines(args.input or "/dev/stdin")
    chunks = map_chunks(LineProcessor(processor, args.instances), lines, args.workers, label="postprocess")
    with atomic_write(args.output) if args.output else nullcontext(sys.stdout) as stream:
        stream.writelines(f"{line}\n" for chunk in chunks for line in chunk)


if __name__ == "__main__":
    raise SystemExit(main())
