"""Line-wise work on all cores: chunks of lines through a pool of processes, results in order, memory bounded."""

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

from tqdm import tqdm

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark

CHUNK = 10_000
Work = Callable[[Sequence[str]], Any]

_work: Work


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def progress(iterable: Iterable[Any] | None = None, label: str = "", **options: Any) -> tqdm:
    """A progress bar on stderr; in a log file one line about every ten seconds instead of ten a second."""
    tqdm.monitor_interval = 0  # its thread would be forked along
    options.setdefault("mininterval", 0.5 if os.isatty(2) else 10)
    return tqdm(iterable, desc=label, unit_scale=True, leave=False, dynamic_ncols=True, delay=1, **options)


def _start(work: Work) -> None:
    """Set a worker process up: what to do, and to end when its starter has died without telling (kill -9)."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        # Not the process id of the parent: that is the fork server, which lives as long as its workers do.
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(chunk: Sequence[str]) -> Any:
    return _work(chunk)


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _context() -> multiprocessing.context.BaseContext:
    """How workers are started: from a server without threads of its own.

    A process with threads must not be forked (a lock that one of them holds stays locked in the child for ever), and a
    caller of the library may have some: PyTorch's, a notebook's, a test runner's.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once for all workers
    return context


def map_chunks(
    work: Work, lines: Iterable[str], workers: int = 1, label: str = "", total: int | None = None, size: int = CHUNK
) -> Iterator[Any]:
    """Yield ``work(chunk)`` for consecutive chunks of lines, in order, computed by ``workers`` processes.

    ``work`` must not depend on how the lines are cut, and can be pickled. At most four chunks per worker are under way
    at a time; a single chunk is worked on here. Raises UserError if a worker dies (for want of memory, say), and
    whatever ``work`` raises.
    """
    chunks = _chunks(lines, size)
    first = list(islice(chunks, 2))
    with progress(label=label, total=total, unit=" lines") as bar:
        if workers <= 1 or len(first) < 2:
            for chunk in chain(first, chunks):
                yield work(chunk)
                bar.update(len(chunk))
            return
        with ProcessPoolExecutor(workers, _context(), initializer=_start, initargs=(work,)) as pool:
            waiting: deque[tuple[int, Any]] = deque()
            try:
                for chunk in chain(first, chunks):
                    waiting.append((len(chunk), pool.submit(_call, chunk)))
                    if len(waiting) >= 4 * workers:
                        number, future = waiting.popleft()
                        yield future.result()
                        bar.update(number)
                while waiting:
                    number, future = waiting.popleft()
                    yield future.result()
                    bar.update(number)
            except BrokenProcessPool:
                raise UserError(
                    f"{label or 'a step'}: a worker process was killed, probably for want of memory; "
                    "run again with fewer --workers"
                ) from None
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class AroundDocuments:
    """Applies work to the sentences of a chunk and leaves ``<d>`` and empty lines between them as they are."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, chunk: Sequence[str]) -> list[str]:
        results = iter(self.work([line for line in chunk if line and not is_document_mark(line)]))
        return [DOCUMENT if is_document_mark(line) else next(results) if line else "" for line in chunk]


def map_file(
    work: Work, source: str | Path, target: str | Path, workers: int = 1, label: str = "", total: int | None = None
) -> None:
    """Write ``target`` with ``work`` done to each sentence of ``source``; ``<d>`` and empty lines stay in their places.

    ``work`` takes lines and returns as many. The file appears whole or not at all. Raises UserError as ``read_lines``.
    """
    with atomic_write(target) as stream:
        for lines in map_chunks(AroundDocuments(work), read_lines(source), workers, label, total):
            stream.writelines(f"{line}\n" for line in lines)
