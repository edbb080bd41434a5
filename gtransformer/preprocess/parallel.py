"""Work on chunks of lines, by several processes, with ordered results."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from tqdm import tqdm

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark

CHUNK = 10_000
Work = Callable[[Sequence[str]], Any]

_work: Callable[[Any], Any]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def progress(iterable: Iterable[Any] | None = None, label: str = "", **options: Any) -> tqdm:
    """Return a progress bar on stderr; in a log file it prints a line about every ten seconds."""
    options.setdefault("mininterval", 0.5 if os.isatty(2) else 10)
    return tqdm(iterable, desc=label, unit_scale=True, leave=False, dynamic_ncols=True, delay=1, **options)


def _start(work: Callable[[Any], Any]) -> None:
    """Set a worker process up: store its work, and end the process if its parent was killed."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):  # a forked process has its parent's handlers
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)

    def watch() -> None:
        # The sentinel is of the process that started the pool; the parent by process id is the fork server.
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(item: Any) -> Any:
    return _work(item)


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, size)):
        yield chunk


def map_chunks(work: Work, lines: Iterable[str], workers: int = 1, label: str = "", size: int = CHUNK) -> Iterator[Any]:
    """Yield ``work(chunk)`` for consecutive chunks of lines, in order, computed by ``workers`` processes.

    The result of ``work`` must not depend on the chunks, and both must be picklable. Raises the errors of ``work``.
    """
    chunks = _chunks(lines, size)
    first = list(islice(chunks, 2))
    if len(first) < 2:
        workers = 1  # starting processes would take longer
    run = Parallel(n_jobs=workers, return_as="generator")
    results = run(delayed(_counted)(work, chunk) for chunk in chain(first, chunks))
    with progress(label=label, unit=" lines") as bar:
        for number, result in results:
            yield result
            bar.update(number)


def _counted(work: Work, chunk: list[str]) -> tuple[int, Any]:
    return len(chunk), work(chunk)


def map_in_order(
    work: Callable[[Any], Any],
    items: Iterable[Any],
    workers: int,
    context: multiprocessing.context.BaseContext,
    label: str,
    option: str,
) -> Iterator[tuple[Any, Any]]:
    """Yield every item with ``work(item)``, in order, computed by ``workers`` processes.

    At most four items per worker are pending at a time. Processes end at once if the generator is closed early.

    Args:
        context: how processes start. Items and results are pickled, ``work`` not if processes are forked.
        label, option: for messages, the name of the work and the option with the number of processes.

    Raises UserError if a worker dies (for example from lack of memory), and the errors of ``work``.
    """
    others, ended = set(multiprocessing.active_children()), False
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(work,))
    waiting: deque[tuple[Any, Any]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(_call, item)))
            while waiting and (waiting[0][1].done() or len(waiting) >= 4 * workers):
                item, future = waiting.popleft()
                yield item, future.result()
        while waiting:
            item, future = waiting.popleft()
            yield item, future.result()
        ended = True
    except BrokenProcessPool:
        raise UserError(
            f"{label}: a worker process was killed, probably for lack of memory; run again with fewer {option}"
        ) from None
    finally:
        if not ended:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


class AroundDocuments:
    """Work on the sentences of a chunk that leaves ``<d>`` and empty lines unchanged."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, chunk: Sequence[str]) -> list[str]:
        results = iter(self.work([line for line in chunk if line and not is_document_mark(line)]))
        return [DOCUMENT if is_document_mark(line) else next(results) if line else "" for line in chunk]


def map_file(work: Work, source: str | Path, target: str | Path, workers: int = 1, label: str = "") -> None:
    """Write ``target`` with ``work`` applied to each sentence of ``source``; ``<d>`` and empty lines do not change.

    ``work`` returns a line for each line. The file is written atomically. Raises UserError as ``read_lines``.
    """
    with atomic_write(target) as stream:
        for lines in map_chunks(AroundDocuments(work), read_lines(source), workers, label):
            stream.writelines(f"{line}\n" for line in lines)
