"""Translate plain text with a saved model: one output line for each input line, in order.

``gtransformer translate --model DIR FILE``. One sentence a line; a blank line or ``<d>`` separates documents, also in
the output. With ``--output OUT`` the same command resumes after an interruption. For several files the model is loaded
once: ``FILE FILE --output DIR``.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError, check_counts, cli_main
from gtransformer.files import CHECKPOINT_ENDING, atomic_write, check_output, is_replaceable, read_lines, sha256
from gtransformer.preprocess.corpus import NONE, text_lines
from gtransformer.preprocess.formats.documents import HYPOTHESIS, SOURCE, Side
from gtransformer.preprocess.formats.write_back import check_writable, write_back
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.plain_text import input_lines
from gtransformer.search.strategies import PRECISIONS
from gtransformer.translation.lines import TextPosition
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.options import add_search_options
from gtransformer.translation.resumable import Finished, ResumableOutput, outputs_of, record_of, unfinished_files
from gtransformer.translation.splitter import SentenceSplitter

if TYPE_CHECKING:
    from gtransformer.translation.api import GTransformer, TranslatedLine

EVERY = 10.0  # seconds between updates of the progress bar


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    parser = CommandParser(prog="gtransformer translate", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "input", nargs="*", metavar="FILE",
        help="plain text, or the source of WMT's XML, SGM, TSV and the like (.xz, .gz, too); - or nothing is a pipe; "
        "several need -o DIR",
    )  # fmt: skip
    add_model_options(parser)
    add(
        "-o", "--output", metavar="FILE", help="output file, which can be resumed (default: standard output). For "
        "several files, or with a final slash, a directory for files of the same names; finished ones are kept"
    )  # fmt: skip
    add(
        "--format", choices=["text", "json", "input"], default="text",
        help="json: one object a line; input: as the input (WMT's XML, TSV, JSON lines), with the translation added, "
        "which has the name of the model's directory; needs --output",
    )  # fmt: skip
    add(
        "--nbest",
        type=int,
        help="of each line its part of the N best translations of the text searched at once, separated by tabs",
    )
    add("--scores", action="store_true", help="the log probability before each translation")
    add("--split-sentences", action="store_true", help="lines are running text: split it, and join the translations")
    add(
        "--first-pass", type=Path, metavar="FILE",
        help="of models of two passes: the checkpoint (.pt) of a sentence model, or first translations of the text, "
        "line for line, in place of the directory's",
    )  # fmt: skip
    return parser


def add_model_options(parser: CommandParser) -> None:
    """Add the options of a model that translates, and of its run."""
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="made by gtransformer export")
    add_search_options(parser)
    add("--cpu", action="store_true", help="do not use a GPU")
    add(
        "--jobs", type=int, default=1, metavar="N",
        help="processes with one thread each, on a CPU (default: one, with as many threads as PyTorch chooses)",
    )  # fmt: skip
    parser.add_user_dir()
    add(
        "--precision", choices=PRECISIONS, default="auto",
        help="of products; bfloat16 is for GPUs and for CPUs with instructions for it, float16 for GPUs, int8 for CPUs "
        "with instructions for it (%(default)s: what the model was trained with --autocast, else float32)",
    )  # fmt: skip
    add("--fp16", action="store_const", dest="precision", const="float16", help="the same as --precision float16")
    add("--moses", metavar="DIR", help="Moses, if the model's corpus was prepared with it")
    add("--restart", action="store_true", help="discard an interrupted run and start again")
    add("--quiet", action="store_true", help="no progress on standard error, only errors and remarks on the text")


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the options; files may come before and after them, and after ``--``."""
    # argparse's intermixed parsing does not support ``--``.
    end = argv.index("--") if "--" in argv else len(argv)
    args = build_parser().parse_intermixed_args(argv[:end])
    args.input = [*(args.input or []), *argv[end + 1 :]] or ["-"]
    args.output = None if args.output == "-" else args.output
    return args


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read, translate, write."""
    args = parse(sys.argv[1:] if argv is None else argv)
    outputs = check_outputs(args)
    if args.restart and not args.output:
        raise UserError("--restart discards an interrupted file; name it with -o, or leave --restart out")
    run = Run(args)
    for name, output in zip(args.input, outputs, strict=True):
        run.check_format(name, output)
    texts = [
        (name, output, count_lines(name, output, run.source)) for name, output in zip(args.input, outputs, strict=True)
    ]
    if outputs == [args.output]:
        if args.output and (record := record_of(Path(args.output))).is_file():  # it was one of several before
            record.unlink()
        run.translate(*texts[0])
        return
    translate_missing(run, texts)


def translate_missing(run: Run, texts: Sequence[tuple[str, str, int | None]]) -> None:
    """Translate texts (name, output, lines) whose translations are not finished, or all with ``--restart``."""
    restart = run.args.restart
    known = [Finished(name, Path(output), run.key) for name, output, _ in texts]
    kept = [not restart and one.is_there() for one in known]
    for one, keep in zip(known, kept, strict=True):
        if keep:
            print(f"{one.output}: there already, kept (--restart makes it again)", file=sys.stderr)
        elif restart:
            one.begin()  # of all, before the first is made
    for text, one, keep in zip(texts, known, kept, strict=True):
        if not keep:
            one.begin()
            run.translate(*text)
            one.end()


def check_outputs(args: argparse.Namespace) -> list[str | None]:
    """Return the output of each text. Raise UserError for several texts without a suitable directory.

    A directory, or a path that ends in a slash, also holds the output of a single text.
    """
    names = args.input
    if len(names) == 1 and not (args.output and _is_folder(args.output)):
        if args.output:
            check_output(args.output, [args.first_pass])
        return [args.output]
    if names == ["-"]:
        raise UserError(f"--output {args.output}: a directory, but standard input has no name for a file; name a file")
    if not args.output or (Path(args.output).exists() and not Path(args.output).is_dir()):
        raise UserError(f"{len(names)} files: their translations need a directory; give one with --output DIR")
    first = len(names) > 1 and args.first_pass is not None and args.first_pass.suffix != CHECKPOINT_ENDING
    if "-" in names or first:
        raise UserError(f"{len(names)} files: neither standard input nor first translations can be among several texts")
    return list(map(str, outputs_of(names, args.output)))


def _is_folder(name: str) -> bool:
    return name.endswith(("/", os.sep)) or Path(name).is_dir()


def count_lines(name: str, output: str | None, source: Side) -> int | None:
    """Count the lines of a file (None for a pipe), so that errors are reported before anything is translated.

    Raises UserError as ``input_lines``, and if the output, also an unfinished one, would take the input's place.
    """
    path = Path(name)
    if name == "-" or (path.exists() and not path.is_file() and not path.is_dir()):  # a pipe can be read once only
        return None
    for file in [Path(output), *unfinished_files(os.path.realpath(output))] if output else []:
        if file.exists() and path.exists() and file.samefile(path):
            raise UserError(f"{file}: input and output are the same file; give another --output")
    return sum(1 for _ in input_lines(name, source))


class Run:
    """Model and options for all texts of a command; the model is loaded when it is first needed.

    ``read``: yields the lines of a text, given its name (default: of the source side, in any format). ``numbers``: of a
    text's documents, on which sampling depends; None: from 1.
    """

    def __init__(self, args: argparse.Namespace, read: Callable[[str], Iterator[str]] | None = None):
        check_counts(args, "jobs")
        for name in ("fairseq", "gtransformer.tasks"):
            logging.getLogger(name).setLevel(logging.WARNING)
        directory = ModelDirectory.open(args.model)
        self.langs = directory.source_lang, directory.target_lang
        self.args, self.options = args, directory.search.given(vars(args))
        self.split = SentenceSplitter(directory.source_lang) if args.split_sentences else None
        # What a translation depends on besides its text.
        self.key = {
            "model": directory.fingerprint, "search": self.options.recorded(), "format": args.format,
            "nbest": args.nbest, "scores": args.scores, "split_sentences": args.split_sentences, "moses": args.moses,
            "precision": args.precision,
        }  # fmt: skip
        langs = (plain_language(lang) for lang in (directory.source_lang, directory.target_lang))
        self.source, self.target = (Side(role, lang) for role, lang in zip((SOURCE, HYPOTHESIS), langs, strict=True))
        self.read = read or partial(input_lines, wanted=self.source)
        self.system = args.model.resolve().name  # in formats that name it
        self.numbers: list[int] | None = None
        self.first_model: Path | None = None
        self.first_text: Path | None = None
        if args.first_pass is not None:
            self.key["first_pass"] = sha256(args.first_pass)
            is_model = args.first_pass.suffix == CHECKPOINT_ENDING
            self.first_model, self.first_text = (args.first_pass, None) if is_model else (None, args.first_pass)

    @cached_property
    def model(self) -> GTransformer:
        """The model, loaded."""
        from gtransformer.translation.api import GTransformer

        args, device = self.args, "cpu" if self.args.cpu else None
        if args.jobs > 1:
            share_processor(args)
        return GTransformer.from_pretrained(
            args.model, device, moses=args.moses, precision=args.precision, first_pass=self.first_model
        )

    def check_format(self, name: str, output: str | None) -> None:
        """Raise UserError if the translation is to be in the input's format and cannot be."""
        args = self.args
        if args.format != "input":
            return
        if not output or not is_replaceable(output):
            raise UserError("--format input: the whole file is written at the end; name it with --output FILE")
        if args.nbest is not None or args.scores:
            raise UserError("--format input has one translation without scores; leave out --nbest and --scores")
        check_writable(Path(name), self.source, self.target.lang, self.system)

    def shape(self, translated: TranslatedLine) -> str:
        """Return a line of the output, without its line end."""
        shape = translated.as_json if self.args.format == "json" else translated.as_text
        return shape(self.args.scores, self.args.nbest is not None)

    def translate(self, name: str, output: str | None, total: int | None) -> None:
        """Translate one text of ``total`` lines."""
        began, quiet = time.monotonic(), self.args.quiet
        with ExitStack() as stack:
            stream = self._open(output, stack)
            resumable = stream if isinstance(stream, ResumableOutput) else None
            lines = stack.enter_context(closing(self.read(name)))
            start = TextPosition()
            if resumable:
                resumable.skip(lines, name)
                start = resumable.position
            first = islice(text_lines(self.first_text), start.lines, None) if self.first_text else None
            model = self.model
            bar = progress(label="translate", unit=" lines", total=total, initial=start.lines, disable=quiet)
            position, sentences, remarks = start, 0, model.remarks()
            with bar, ticking(bar), said_on_interrupt(resumable):
                windows = model.translate_lines(
                    lines, self.options, self.split, start, first, self.args.jobs, self.numbers
                )
                for window in stack.enter_context(closing(windows)):
                    position, shown = window[-1].line.position, [self.shape(translated) for translated in window]
                    if resumable:
                        for translated in window:
                            resumable.note(translated.line.text)
                        resumable.add(shown, position)
                    else:
                        stream.write("".join(f"{line}\n" for line in shown).encode())
                        stream.flush()
                    sentences += sum(not translated.line.breaks for translated in window)
                    for translated in window:
                        remarks.add(translated.line, translated.at_limit)
                    bar.update(len(window))
            if resumable:
                back = partial(self._write_back, Path(name)) if self.args.format == "input" else None
                resumable.finish(back)
        for remark in remarks:
            print(f"{name}: {remark}", file=sys.stderr)
        if quiet:
            return
        resumed = f", resumed after line {start.lines}" if start.lines else ""
        documents = f"{position.documents} document{'' if position.documents == 1 else 's'}"
        documents += "" if position.borders == NONE else f" {position.borders}"
        now = f"{sentences} sentences in {time.monotonic() - began:.1f} s on {model.engine.device.type}"
        print(f"translated {position.lines} lines ({documents}){resumed}; {now}", file=sys.stderr)

    def _write_back(self, name: Path, text: Path, output: Path) -> None:
        write_back(name, self.source, read_lines(text), output, self.target.lang, self.system)

    def _open(self, output: str | None, stack: ExitStack) -> ResumableOutput | BinaryIO:
        """Open a resumable file, or standard output, a device or a pipe, which cannot be resumed."""
        if not output:
            if sys.stdout is None:
                raise UserError("standard output is closed; name a file with -o")
            return sys.stdout.buffer
        if is_replaceable(output):
            return stack.enter_context(ResumableOutput(output, self.key, self.args.restart))
        return stack.enter_context(atomic_write(output, "wb"))


def share_processor(args: argparse.Namespace) -> None:
    """Prepare this process for others that are forked from it. Raise UserError if they cannot be."""
    import torch

    if not hasattr(os, "fork"):
        raise UserError(f"--jobs {args.jobs}: this system cannot copy a process; leave it out")
    if not args.cpu and torch.cuda.is_available():
        raise UserError(f"--jobs {args.jobs} is for CPUs: leave it out to use the GPU, or add --cpu")
    torch.set_num_threads(1)  # a copy would wait for threads that it lacks


@contextmanager
def ticking(bar: tqdm) -> Iterator[None]:
    """Redraw the bar at least every ten seconds, since a window may take longer.

    It uses a timer of the system, whose signals reach the main thread; another thread might draw within a line.
    """
    if bar.disable or threading.current_thread() is not threading.main_thread():
        yield
        return

    def draw(*_: object) -> None:
        bar.refresh()
        bar.last_print_t = time.time()  # else tqdm believes at the end that nothing was drawn, and leaves it there

    before = signal.signal(signal.SIGALRM, draw)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def said_on_interrupt(output: ResumableOutput | None) -> Iterator[None]:
    """Report what is kept after an interrupt by the user."""
    try:
        yield
    except KeyboardInterrupt:
        if output is not None:
            kept = f"{output.position.lines} lines are kept in {output.part}; the same command resumes after them"
            print(kept if output.position.lines else "nothing is translated yet", file=sys.stderr)
        raise


if __name__ == "__main__":
    raise SystemExit(main())
