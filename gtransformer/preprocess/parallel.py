"""Work on chunks of lines, by several processes, with ordered results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import is_document_mark

CHUNK = 10_000
Work = Callable[[Sequence[str]], Any]


def progress(iterable: Iterable[Any], label: str, **options: Any) -> tqdm:
    """Return a progress bar on stderr; in a log file it prints a line about every ten seconds."""
    options = {"unit_scale": True, "mininterval": 0.5 if os.isatty(2) else 10, **options}
    return tqdm(iterable, desc=label, leave=False, dynamic_ncols=True, delay=1, **options)


def map_chunks(
    work: Work, lines: Iterable[str], workers: int = 1, label: str = "", size: int = CHUNK
) -> Iterator[Any]:
    """Yield ``work(chunk)`` for consecutive chunks of lines, in order, computed by ``workers``
    processes.

    The result of ``work`` must not depend on the chunks, and both must be picklable. Raises the
    errors of ``work``.
    """
    from joblib import Parallel, delayed  # slow, and translation needs none of it

    lines = iter(lines)
    chunks = iter(lambda: list(islice(lines, size)), [])
    # Two chunks tell whether there is work for more than one process.
    first = list(islice(chunks, 2))
    if len(first) < 2:
        workers = 1  # starting processes would take longer
    results = Parallel(n_jobs=workers, return_as="generator")(
        delayed(work)(chunk) for chunk in chain(first, chunks)
    )
    yield from progress(results, label, unit=" lines", unit_scale=size)


def map_file(
    work: Work, source: str | Path, target: str | Path, workers: int = 1, label: str = ""
) -> None:
    """Write ``target`` with ``work`` applied to each sentence of ``source``; ``<d>`` and empty
    lines do not change.

    ``work`` returns a line for each line. The file is written atomically. Raises UserError as
    ``read_lines``.
    """
    results = map_chunks(work, sentences(source), workers, label)
    done = chain.from_iterable(results)
    with atomic_write(target) as stream:
        for line in read_lines(source):
            # The same lines as of sentences(), so that results stay in their places.
            is_sentence = line and not is_document_mark(line)
            stream.write((next(done) if is_sentence else line) + "\n")


def sentences(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text in the raw corpus format that are neither empty nor ``<d>``."""
    return (line for line in read_lines(path) if line and not is_document_mark(line))
