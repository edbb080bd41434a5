"""Line-wise work on all cores: a pool of processes for chunks of lines, with ordered results and bounded memory."""

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
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def progress(iterable: Iterable[Any] | None = None, label: str = "", **options: Any) -> tqdm:
    """Return a progress bar on stderr; in a log file it prints a line about every ten seconds."""
    tqdm.monitor_interval = 0  # its thread must not be forked
    options.setdefault("mininterval", 0.5 if os.isatty(2) else 10)
    return tqdm(iterable, desc=label, unit_scale=True, leave=False, dynamic_ncols=True, delay=1, **options)


def _start(work: Work) -> None:
    """Set a worker process up: store its work, and end the process if its parent was killed."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        # The sentinel is of the process that started the pool; the parent by process id is the fork server.
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
    """Return the context of worker processes: a fork server, which has no threads.

    A process with threads must not be forked: a lock that a thread holds stays locked in the child. Callers may have
    threads, for example of PyTorch or a notebook.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once for all workers
    return context


def map_chunks(
    work: Work, lines: Iterable[str], workers: int = 1, label: str = "", total: int | None = None, size: int = CHUNK
) -> Iterator[Any]:
    """Yield ``work(chunk)`` for consecutive chunks of lines, in order, computed by ``workers`` processes.

    The result of ``work`` must not depend on the chunks, and it must be picklable. At most four chunks per worker are
    pending at a time; a single chunk is processed in this process. Raises UserError if a worker dies (for example from
    lack of memory), and the errors of ``work``.
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
                    f"{label or 'a step'}: a worker process was killed, probably for lack of memory; "
                    "run again with fewer --workers"
                ) from None
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class AroundDocuments:
    """Work on the sentences of a chunk that leaves ``<d>`` and empty lines unchanged."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, chunk: Sequence[str]) -> list[str]:
        results = iter(self.work([line for line in chunk if line and not is_document_mark(line)]))
        return [DOCUMENT if is_document_mark(line) else next(results) if line else "" for line in chunk]


def map_file(
    work: Work, source: str | Path, target: str | Path, workers: int = 1, label: str = "", total: int | None = None
) -> None:
    """Write ``target`` with ``work`` applied to each sentence of ``source``; ``<d>`` and empty lines do not change.

    ``work`` returns a line for each line. The file is written atomically. Raises UserError as ``read_lines``.
    """
    with atomic_write(target) as stream:
        for lines in map_chunks(AroundDocuments(work), read_lines(source), workers, label, total):
            stream.writelines(f"{line}\n" for line in lines)
