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
from types import CodeType

from gtransformer.installation import as_typed

FULL = (errno.ENOSPC, errno.EDQUOT)
# fairseq's functions that know a checkpoint's path, and by which name.
LOADERS = {"load_checkpoint_to_cpu": "path", "load_checkpoint": "filename", "load_model_ensemble_and_task": "filename"}
SAVERS = {"torch_persistent_save": "filename"}
# What PyTorch's safe loader says of a file that it would have to run code for; 149 begins what pickle itself writes.
UNSAFE = re.compile(
    r"[Uu]nsupported (?:global: )?GLOBAL (\S+)|Unsupported class (\S+)|"
    r"call reduce for unrecognized function (.+)|operand 149"
)
UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


class UserError(Exception):
    """Something the user can put right; the message says what is wrong, where, and what to do."""


class CheckpointError(UserError):
    """A UserError about a checkpoint whose path is not known where it is raised; the message goes on from it."""


def cli_main(main: Callable[..., int | None]) -> Callable[..., int]:
    """Wrap a command's ``main(argv=None)``: a UserError becomes one line on stderr and exit status 1.

    An interrupt exits with 130 and a closed output pipe with 141, as shells expect, without a traceback. SIGTERM and
    SIGHUP are interrupts, so that no program that it has started and no temporary file is left behind.
    """

    @functools.wraps(main)
    def wrapped(argv: list[str] | None = None) -> int:
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
            message = _file_that_cannot_be_used(error)
            if message is None:
                raise
            print(f"error: {message}", file=sys.stderr)
            return 1

    return wrapped


def check_counts(args: argparse.Namespace, *names: str) -> None:
    """Raise UserError for an option that is given as a number below 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: give at least 1")


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, in the main thread, where Python runs what handles signals.

    Only where nothing else was wanted: ``nohup`` ignores SIGHUP for a command that is to outlive its terminal, and a
    program that calls a command may have handlers of its own.
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
    """One sentence for an error that a user can put right, found anywhere in the chain of ``error``; else None.

    fairseq wraps errors of the model and lets those of PyTorch's loader through; both are recognised here.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, CheckpointError):
            return f"checkpoint {_checkpoint_of(error)} {link}"
        if isinstance(link, UserError):
            return str(link)
        message = (
            _damaged_checkpoint(link)
            or _checkpoint_that_does_not_fit(link)
            or _other_training(link)
            or _missing_checkpoint(link)
            or _value_that_cannot_be(link)
            or _file_that_cannot_be_used(link, _variable(error, SAVERS))
            or _no_checkpoint(link)
        )
        if message is not None:
            return message
        link = link.__cause__ or link.__context__
    return None


def _damaged_checkpoint(error: BaseException) -> str | None:
    """PyTorch's loader raises anything; what it was called by says that it was reading a checkpoint."""
    code = _code(error)
    if not _reads(code) or not any(Path(one.co_filename).parts[-2:] == ("torch", "serialization.py") for one in code):
        return None
    unsafe = UNSAFE.search(str(error))
    if unsafe:
        name = next(filter(None, unsafe.groups()), None)
        return (
            f"checkpoint {_checkpoint_of(error)} is unsafe and was not loaded: it is to run code when it is read"
            f"{f' ({name})' if name else ''}; take one that fairseq-train or scripts/export.sh has written"
        )
    return (
        f"checkpoint {_checkpoint_of(error)} cannot be read, it is truncated or damaged ({_first_sentence(error)}); "
        "take another one (training goes on from an earlier one with --restore-file)"
    )


def _no_checkpoint(error: BaseException) -> str | None:
    """A file that can be read and holds something else than a checkpoint, on which fairseq fails in any way."""
    if not isinstance(error, LookupError | TypeError | AttributeError | RuntimeError) or not _reads(_code(error)):
        return None
    return f"checkpoint {_checkpoint_of(error)} is none of fairseq's; give one that fairseq-train has written"


def _code(error: BaseException) -> list[CodeType]:
    return [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]


def _reads(code: list[CodeType]) -> bool:
    return any(one.co_name == "load_checkpoint_to_cpu" for one in code)


def _checkpoint_of(error: BaseException) -> str:
    """The checkpoint that fairseq was loading."""
    return _variable(error, LOADERS) or "given"


def _variable(error: BaseException, names: dict[str, str]) -> str | None:
    """A path that fairseq's errors do not name, only the variables of its functions do: ``names`` by function."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = frame.f_locals.get(names.get(frame.f_code.co_name)) or found
    return found


def _file_that_cannot_be_used(error: BaseException, written: str | None = None) -> str | None:
    """A path without permission, through a file, at a directory; a full disk, for which the system names no path.

    ``written``: what was being written, where it is known.
    """
    if isinstance(error, OSError) and error.errno in FULL:
        path = error.filename2 or error.filename or written or _stream_of(error)  # of a copy the target is named second
        return f"{path}: cannot be written ({error.strerror}); make room and run this again"
    if isinstance(error, OSError) and error.errno in UNUSABLE and error.filename is not None:
        path = os.fsdecode(error.filename2 or error.filename) if not isinstance(error.filename, int) else "a file"
        return f"{path}: cannot be used ({error.strerror}); give another path"
    return None


def _stream_of(error: BaseException) -> str:
    """What was being written where the system does not say it: the file that the innermost function had open."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            name, mode = getattr(value, "name", None), getattr(value, "mode", None)
            if isinstance(name, str) and isinstance(mode, str) and set(mode) & set("wax+"):
                return {"<stdout>": "standard output", "<stderr>": "standard error"}.get(name, name)
    return "standard output"  # which print writes to without a name


def _checkpoint_that_does_not_fit(error: BaseException) -> str | None:
    """PyTorch's list of all names, shortened to the first of each kind."""
    if not str(error).startswith("Error(s) in loading state_dict for"):
        return None
    reasons = []
    for line in map(str.strip, str(error).splitlines()[1:]):
        names = line.count('"') // 2
        first = line.partition('"')[2].partition('"')[0]
        if line.startswith("Missing key(s)"):
            reasons.append(f"it lacks {names} of the model's parameters ({first}, ...)")
        elif line.startswith("Unexpected key(s)"):
            reasons.append(f"it has {names} that the model lacks ({first}, ...)")
    different = [line.strip() for line in str(error).splitlines() if line.strip().startswith("size mismatch for ")]
    if different:
        name = different[0].removeprefix("size mismatch for ").partition(":")[0]
        sizes = re.findall(r"torch\.Size\((.*?)\)", different[0])
        reasons.append(f"{len(different)} are of another size ({name}: {', not '.join(sizes)})")
    return (
        f"checkpoint {_checkpoint_of(error)} does not fit this model: {' and '.join(reasons)}; use the "
        "architecture options and the data (dictionary) that it was trained with, or another --save-dir"
    )


def _other_training(error: BaseException) -> str | None:
    """fairseq's assertion, of a checkpoint that another criterion or optimizer has trained."""
    found = re.match(r"(Criterion|Optimizer) does not match; .*\. (\S+) vs (\S+)\Z", str(error))
    if not isinstance(error, AssertionError) or found is None:
        return None
    option, theirs, ours = found[1].lower(), found[2], found[3]
    path = _variable(error, LOADERS) or "given"
    return (
        f"checkpoint {path} was trained with another --{option} ({theirs}, not {ours}); give that, "
        "or --reset-optimizer to begin with its parameters alone"
    )


def _missing_checkpoint(error: BaseException) -> str | None:
    start = "Model file not found: "
    if isinstance(error, OSError) and str(error).startswith(start):
        return f"{str(error).removeprefix(start)}: no such checkpoint; --path names one or several, separated by ':'"
    return None


def _value_that_cannot_be(error: BaseException) -> str | None:
    """OmegaConf's, of a value of ``--model-overrides``: the command line's own parser says it of its options."""
    if (type(error).__module__, type(error).__name__) != ("omegaconf.errors", "ValidationError"):
        return None
    return f"{error.full_key}: {str(error).splitlines()[0]}; give another value"


def _first_sentence(error: BaseException) -> str:
    """Of what a library says; names of classes and numbers of the system are for programmers."""
    if isinstance(error, EOFError) and not error.args:
        return "it ends too early"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    lines = said.strip().splitlines()
    return (lines[0].split(". ")[0] if lines else type(error).__name__)[:120]


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
