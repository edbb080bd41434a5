"""Translate plain text with a saved model: one output line for each input line, in order.

``gtransformer-translate --model DIR FILE``. One sentence a line; a blank line or ``<d>`` stands between documents (and
in the output, too). ``--output OUT`` can be interrupted: the same command goes on where it stopped. Several files are
translated with the model loaded once: ``FILE FILE --output DIR``.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, is_replaceable, sha256
from gtransformer.preprocess.corpus import NONE, input_lines, text_lines
from gtransformer.preprocess.parallel import progress
from gtransformer.tasks.first_pass import CHECKPOINT as FIRST_MODEL
from gtransformer.tasks.trained import PRECISIONS
from gtransformer.translation.api import GTransformer, TranslatedLine
from gtransformer.translation.formats import Format, make_format
from gtransformer.translation.lines import TextPosition
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.options import SearchOptions, add_search_options
from gtransformer.translation.resumable import Finished, ResumableOutput, outputs_of, record_of
from gtransformer.translation.splitter import SentenceSplitter

EVERY = 10.0  # seconds between two signs of life


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(prog="scripts/translate.sh", description=__doc__.splitlines()[0])
    parser.add_argument(
        "input",
        nargs="*",
        metavar="FILE",
        help="plain text (.xz, .gz, too); - or nothing is a pipe; several need -o DIR",
    )
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="made by scripts/export.sh")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; can be gone on with (default: standard output). Of "
        "several files a directory, for files of the same names; those that are finished there are kept"
    )  # fmt: skip
    parser.add_argument("--format", choices=["text", "json"], default="text", help="json: one object a line")
    parser.add_argument("--nbest", type=int, help="so many translations of each line, separated by tabs")
    parser.add_argument("--scores", action="store_true", help="the log probability before each translation")
    parser.add_argument(
        "--split-sentences", action="store_true", help="lines are running text: split it, and put it together again"
    )
    parser.add_argument(
        "--first-pass", type=Path, metavar="FILE",
        help="of models of two passes: the checkpoint (.pt) of a sentence model, or first translations of the text, "
        "line for line, in place of the directory's",
    )  # fmt: skip
    add_search_options(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="auto",
        help="of products; bfloat16 is for GPUs and for CPUs with instructions for it, float16 for GPUs (%(default)s: "
        "what the model was trained with --autocast, else float32)",
    )  # fmt: skip
    parser.add_argument(
        "--fp16", action="store_const", dest="precision", const="float16", help="the same as --precision float16"
    )
    parser.add_argument("--moses", metavar="DIR", help="Moses, if the model's corpus was prepared with it")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run and begin anew")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def parse(argv: list[str]) -> argparse.Namespace:
    """The options; files may stand on both sides of them, and behind ``--``."""
    # argparse, when it mixes, refuses what stands behind ``--`` alone.
    end = argv.index("--") if "--" in argv else len(argv)
    args = build_parser().parse_intermixed_args(argv[:end])
    args.input = [*(args.input or []), *argv[end + 1 :]]
    return args


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, translate, write."""
    args = parse(sys.argv[1:] if argv is None else argv)
    texts = texts_of(args)
    for name in ("fairseq", "gtransformer.tasks"):
        logging.getLogger(name).setLevel(logging.WARNING)
    directory = ModelDirectory.open(args.model)
    options = directory.search.given(vars(args))
    totals = [count_lines(text) for text in texts]
    split = SentenceSplitter(directory.source_lang) if args.split_sentences else None
    key = {
        "model": directory.fingerprint, "search": options.recorded(), "format": args.format, "nbest": args.nbest,
        "scores": args.scores, "split_sentences": args.split_sentences, "moses": args.moses,
        "fp16": args.precision == "float16",
    }  # fmt: skip
    if args.precision in ("float32", "bfloat16"):  # others are said by fp16, as in files that were begun without these
        key["precision"] = args.precision
    if args.first_pass is not None:
        key["first_pass"] = sha256(args.first_pass)
    shape = make_format(args.format, args.scores, args.nbest is not None)

    @cache
    def load(first_pass: Path | None) -> GTransformer:
        device = "cpu" if args.cpu else None
        return GTransformer.from_pretrained(
            args.model, device, moses=args.moses, precision=args.precision, first_pass=first_pass
        )

    if len(texts) == 1:
        if args.output and (record := record_of(Path(args.output))).is_file():  # it was one of several, and is no more
            record.unlink()
        translate_text(texts[0], totals[0], key, shape, load, options, split)
        return
    for text, total, one in zip(texts, totals, finished_of(texts, key), strict=True):
        if one is not None:
            one.begin()
            translate_text(text, total, key, shape, load, options, split)
            one.end()


def texts_of(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The options for each text, with one ``input`` and ``output``.

    Raises UserError for several without a directory for their translations, or with one where they cannot be.
    """
    names = args.input or ["-"]
    if len(names) == 1:
        return [argparse.Namespace(**vars(args) | {"input": names[0]})]
    if not args.output or (Path(args.output).exists() and not Path(args.output).is_dir()):
        raise UserError(f"{len(names)} files: their translations need a directory; give one with --output DIR")
    if "-" in names or (args.first_pass is not None and args.first_pass.suffix != FIRST_MODEL):
        raise UserError(f"{len(names)} files: neither standard input nor first translations can be among several texts")
    return [
        argparse.Namespace(**vars(args) | {"input": name, "output": str(output)})
        for name, output in zip(names, outputs_of(names, args.output), strict=True)
    ]


def finished_of(texts: list[argparse.Namespace], key: dict) -> list[Finished | None]:
    """What is known of the translation of each of several texts; None for one that is there and kept.

    Raises UserError for one that is there and another than would be made now.
    """
    known = [Finished(text.input, Path(text.output), key) for text in texts]
    if texts[0].restart:
        for one in known:
            one.begin()
        return list(known)
    kept = [one.is_there() for one in known]
    for one, keep in zip(known, kept, strict=True):
        if keep:
            print(f"{one.output}: there already, kept (--restart makes it again)", file=sys.stderr)
    return [None if keep else one for one, keep in zip(known, kept, strict=True)]


def translate_text(
    args: argparse.Namespace,
    total: int | None,
    key: dict,
    shape: Format,
    load: Callable[[Path | None], GTransformer],
    options: SearchOptions,
    split: SentenceSplitter | None,
) -> None:
    """Translate one text of ``total`` lines; ``load`` gives the model, once it is known that there is work for it."""
    began = time.monotonic()
    with ExitStack() as stack:
        output = open_output(args, key, stack)
        lines = stack.enter_context(closing(input_lines(args.input)))
        start = TextPosition()
        if isinstance(output, ResumableOutput):
            output.skip(lines, args.input)
            start = output.place
        checkpoint, first = args.first_pass, None
        if checkpoint is not None and checkpoint.suffix != FIRST_MODEL:
            checkpoint, first = None, islice(text_lines(args.first_pass), start.lines, None)
        model = load(checkpoint)
        bar = progress(label="translate", unit=" lines", total=total, initial=start.lines, disable=args.quiet)
        place, sentences, cut = start, 0, 0
        with bar, ticking(bar), said_on_interrupt(output):
            for window in model.translate_lines(lines, options, split, start, first):
                place = window[-1].line.place
                write(window, shape, output)
                sentences += sum(not translated.line.breaks for translated in window)
                cut += sum(translated.line.was_cut for translated in window)
                bar.update(len(window))
        if isinstance(output, ResumableOutput):
            output.finish()
    if not args.quiet:
        say(start, place, sentences, cut, time.monotonic() - began, model.engine.device.type)


@contextmanager
def ticking(bar: tqdm) -> Iterator[None]:
    """Draw the bar anew at least every ten seconds, whether it has moved or not: a window may take longer.

    By a timer of the system, whose signals come to the main thread; a thread of its own might draw in a line's middle.
    """
    if bar.disable or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: bar.refresh())
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def said_on_interrupt(output: ResumableOutput | BinaryIO) -> Iterator[None]:
    """Where the user interrupts, say what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        if isinstance(output, ResumableOutput):
            kept = f"{output.place.lines} lines are kept in {output.part}; the same command goes on after them"
            print(kept if output.place.lines else "nothing is translated yet", file=sys.stderr)
        raise


def open_output(args: argparse.Namespace, key: dict, stack: ExitStack) -> ResumableOutput | BinaryIO:
    """The file that can be gone on with; standard output, or a device or pipe, where there is nothing to go on with."""
    if not args.output:
        return sys.stdout.buffer
    if is_replaceable(args.output):
        return stack.enter_context(ResumableOutput(args.output, key, args.restart))
    return stack.enter_context(atomic_write(args.output, "wb"))


def write(window: list[TranslatedLine], shape, output: ResumableOutput | BinaryIO) -> None:
    """Write the lines of a window."""
    lines = [shape(translated) for translated in window]
    if not isinstance(output, ResumableOutput):
        output.write("".join(f"{line}\n" for line in lines).encode())
        output.flush()
        return
    for translated in window:
        output.note(translated.line.text)
    output.add(lines, window[-1].line.place)


def say(start: TextPosition, place: TextPosition, sentences: int, cut: int, seconds: float, device: str) -> None:
    """The summary on standard error."""
    resumed = f", gone on with after line {start.lines}" if start.lines else ""
    documents = f"{place.documents} document{'' if place.documents == 1 else 's'}"
    documents += "" if place.borders == NONE else f" {place.borders}"
    now = f"{sentences} sentences in {seconds:.1f} s on {device}"
    print(f"translated {place.lines} lines ({documents}){resumed}; {now}", file=sys.stderr)
    if cut:
        print(f"{cut} sentences had more tokens than the model has positions; they were cut in parts", file=sys.stderr)


def count_lines(args: argparse.Namespace) -> int | None:
    """The number of lines of a file, None of a pipe; an unreadable one is reported before anything is translated.

    Raises UserError as ``text_lines``, and where input and output are the same file.
    """
    path = Path(args.input)
    if args.input == "-" or (path.exists() and not path.is_file()):  # a named pipe can be read once only
        return None
    if args.output and Path(args.output).exists() and Path(args.output).samefile(args.input):
        raise UserError(f"{args.output}: input and output are the same file; give another --output")
    return sum(1 for _ in input_lines(args.input))


if __name__ == "__main__":
    raise SystemExit(main())
