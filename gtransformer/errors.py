"""Errors that a user can cause, and how commands report them."""

from __future__ import annotations

import argparse
import errno
import functools
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gtransformer.installation import as_typed

FULL = (errno.ENOSPC, errno.EDQUOT)
TWO_RATES = "AdamTwoRates"  # fairseq's name of the optimizer of --doc-double-lr
last_checkpoint = "given"  # the last one that fairseq has read (compat/patches.py); its errors do not name it
# Messages of PyTorch's safe loader for a file that needs code to be run; operand 149 is for files of pickle itself.
UNSAFE = re.compile(
    r"[Uu]nsupported (?:global: )?GLOBAL (\S+)|Unsupported class (\S+)|"
    r"call reduce for unrecognized function (.+)|operand 149"
)
BY_A_PROCESS = re.compile(r"^gtransformer\.errors\.UserError: (.+)", re.MULTILINE)  # of several, in its traceback
starts_from = None  # the checkpoint of --finetune-from-model, if given without --load-partial
UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class UserError(Exception):
    """An error that the user can correct; the message states the problem, its location and the remedy."""


def cli_main(main: Callable[..., int | None]) -> Callable[..., int]:
    """Wrap a command's ``main(argv=None)``: a UserError becomes one line on stderr and exit status 1.

    An interrupt exits with 130 and a closed output pipe with 141, as shells expect, without a traceback. SIGTERM and
    SIGHUP are interrupts, so that no started program and no temporary file is left.
    """

    @functools.wraps(main)
    def wrapped(argv: list[str] | None = None) -> int:
        if sys.stderr is None:  # closed; what is printed there would go to standard output
            sys.stderr = open(os.devnull, "w")
        try:
            with signals_interrupt():
                return main(argv) or 0
        except UserError as error:
            print(f"error: {as_typed(str(error))}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except OSError as error:
            message = _unusable_file(error)
            if message is None:
                raise
            print(f"error: {message}", file=sys.stderr)
            return 1

    return wrapped


def check_counts(args: argparse.Namespace, *names: str) -> None:
    """Raise UserError for an option with a number below 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: give at least 1")


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, in the main thread, where Python handles signals.

    Signals with other handlers are not changed: ``nohup`` ignores SIGHUP, and a calling program may have handlers.
    """

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    main = threading.current_thread() is threading.main_thread()
    names = [name for name in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(name) == signal.SIG_DFL]
    for name in names:
        signal.signal(name, interrupt)
    try:
        yield
    finally:
        for name in names:
            signal.signal(name, signal.SIG_DFL)


def explain(error: BaseException) -> str | None:
    """Return a message if a user can correct ``error`` or an error in its chain; else None.

    fairseq wraps errors of the model, and its own messages about checkpoints are too long or too short.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, UserError):
            return str(link)
        if (type(link).__module__, type(link).__name__) == ("omegaconf.errors", "ValidationError"):
            # of --model-overrides; the command line's parser checks other options
            return f"{link.full_key}: {str(link).splitlines()[0]}; give another value"
        if type(link).__name__ == "ProcessRaisedException" and (found := BY_A_PROCESS.findall(str(link))):
            return found[-1]
        if isinstance(link, FloatingPointError) and "Nan/Inf" in str(link):  # fairseq's
            return "gradients are not finite, so the training has diverged; lower --lr, or warm up longer"
        if message := _unusable_file(link) or _unfit_checkpoint(link):
            return message
        link = link.__cause__ or link.__context__
    return None


def _unusable_file(error: BaseException) -> str | None:
    """Return the message for an unusable path (permission, file instead of directory, ...) or a full disk."""
    missing = "Model file not found: "  # fairseq's, of --path
    if not isinstance(error, OSError):
        return None
    if str(error).startswith(missing):
        return f"{str(error).removeprefix(missing)}: no such checkpoint; --path names one or several, separated by ':'"
    path = error.filename2 or error.filename  # of a copy the target is named second
    if error.errno in FULL:
        return f"{path or 'output'}: cannot be written ({error.strerror}); free some space and run this again"
    if error.errno in UNUSABLE and path is not None:
        path = "a file" if isinstance(path, int) else os.fsdecode(path)
        return f"{path}: cannot be used ({error.strerror}); give another path"
    return None


def _unfit_checkpoint(error: BaseException) -> str | None:
    """Return the message for a checkpoint of another model, criterion or optimizer; PyTorch would list all names."""
    found = re.match(r"(Criterion|Optimizer) does not match; .*\. (\S+) vs (\S+)\Z", str(error))
    if isinstance(error, AssertionError) and found and TWO_RATES in found.groups():
        way, here = ("with", "give it") if found[2] == TWO_RATES else ("without", "leave it out")
        return (
            f"checkpoint {last_checkpoint} was trained {way} --doc-double-lr; {here}, or give --reset-optimizer to "
            "start from its parameters only"
        )
    if isinstance(error, AssertionError) and found:
        return (
            f"checkpoint {last_checkpoint} was trained with another --{found[1].lower()} ({found[2]}, not {found[3]}); "
            "give that, or --reset-optimizer to start from its parameters only"
        )
    if isinstance(error, ValueError) and str(error).startswith("loaded state dict "):  # PyTorch's, of an optimizer
        return (
            f"checkpoint {last_checkpoint}: its optimizer has other groups of parameters; give the options that it was "
            "trained with (--doc-double-lr, --load-partial-global-from-local), or --reset-optimizer to start from its "
            "parameters only"
        )
    if not str(error).startswith("Error(s) in loading state_dict for"):
        return None
    reasons, different = [], []
    for line in map(str.strip, str(error).splitlines()[1:]):
        names = re.findall(r'"(.*?)"', line)
        if line.startswith("Missing key(s)"):
            reasons.append(f"it lacks {len(names)} of the model's parameters ({names[0]}, ...)")
        elif line.startswith("Unexpected key(s)"):
            reasons.append(f"it has {len(names)} that the model lacks ({names[0]}, ...)")
        elif line.startswith("size mismatch for "):
            different.append((line.split()[3].rstrip(":"), *re.findall(r"torch\.Size\((.*?)\)", line)))
    if different:
        name, theirs, ours = different[0]
        reasons.append(f"{len(different)} have another size ({name}: {theirs}, not {ours})")
    lacks = last_checkpoint == starts_from and "Missing key(s)" in str(error)
    partial = " (--load-partial starts a document model from a Transformer)" if lacks else ""
    return (
        f"checkpoint {last_checkpoint} does not fit this model: {' and '.join(reasons)}{partial}; use the architecture "
        "options and the data (dictionary) that it was trained with, or another --save-dir"
    )


def unreadable_checkpoint(error: Exception) -> str | None:
    """Return the message for an error that fairseq's reader of checkpoints raised.

    None if the error is not about the file's content.
    """
    files = (Path(frame.f_code.co_filename).parts[-2:] for frame, _ in traceback.walk_tb(error.__traceback__))
    if ("torch", "serialization.py") not in files:
        if isinstance(error, LookupError | TypeError | AttributeError | RuntimeError):  # it holds something else
            return f"checkpoint {last_checkpoint} is not fairseq's; give one that fairseq-train has written"
        return None
    if unsafe := UNSAFE.search(str(error)):
        name = next(filter(None, unsafe.groups()), None)
        return (
            f"checkpoint {last_checkpoint} is unsafe and was not loaded: it would run code when it is read"
            f"{f' ({name})' if name else ''}; take one that fairseq-train or gtransformer export has written"
        )
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    reason = (text.strip().splitlines() or ["it ends too early"])[0].split(". ")[0][:120]
    return (
        f"checkpoint {last_checkpoint} cannot be read, it is truncated or damaged ({reason}); take another one "
        "(training resumes from an earlier one with --restore-file)"
    )


def find_disk_full(error: BaseException | None) -> OSError | None:
    """Return the error of a full disk in the chain of an error; None if there is none."""
    while error is not None and not (isinstance(error, OSError) and error.errno in FULL):
        error = error.__cause__ or error.__context__
    return error


def install_excepthook() -> None:
    """Let fairseq's commands report user errors in one line, with exit status 1 and no traceback."""
    previous = sys.excepthook
    if getattr(previous, "reports_user_errors", False):
        return

    def hook(kind, error, trace) -> None:
        message = explain(error)
        if message is None:
            previous(kind, error, trace)
        else:
            print(f"error: {as_typed(message)}", file=sys.stderr)

    hook.reports_user_errors = True
    sys.excepthook = hook
