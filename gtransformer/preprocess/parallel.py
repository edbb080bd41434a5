"""Work on chunks of lines, by several processes, with ordered results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark

CHUNK = 10_000
Work = Callable[[Sequence[str]], Any]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    from joblib import cpu_count  # slow to import, and translation needs none of it

    return cpu_count()


def progress(iterable: Iterable[Any] | None = None, label: str = "", **options: Any) -> tqdm:
    """Return a progress bar on stderr; in a log file it prints a line about every ten seconds."""
    options.setdefault("mininterval", 0.5 if os.isatty(2) else 10)
    return tqdm(iterable, desc=label, unit_scale=True, leave=False, dynamic_ncols=True, delay=1, **options)


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, size)):
        yield chunk


def map_chunks(work: Work, lines: Iterable[str], workers: int = 1, label: str = "", size: int = CHUNK) -> Iterator[Any]:
    """Yield ``work(chunk)`` for consecutive chunks of lines, in order, computed by ``workers`` processes.

    The result of ``work`` must not depend on the chunks, and both must be picklable. Raises the errors of ``work``.
    """
    from joblib import Parallel, delayed

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
