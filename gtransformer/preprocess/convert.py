"""Documents of other formats written as a split of a raw corpus (``corpus``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.preprocess.corpus import Pair, document_lines, raw_file, reserved_mark


@dataclass
class Written:
    """What was written: files, source first, and how much; ``half_empty``: pairs with an empty side."""

    files: list[Path]
    documents: int = 0
    sentences: int = 0
    half_empty: int = 0


def write_split(output: Path, split: str, langs: Sequence[str], documents: Iterable[list[Pair]]) -> Written:
    """Write documents as they come, both sides at once; after an error neither file is there.

    Args:
        split: train, dev or test.
        langs: source and target.

    Raises UserError where there is no document.
    """
    written = Written([raw_file(output, langs, split, lang) for lang in langs])
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(path)) for path in written.files]
        for document in documents:
            written.documents += 1
            written.sentences += len(document)
            written.half_empty += sum(not (left.strip() and right.strip()) for left, right in document)
            for stream, side in zip(streams, zip(*document, strict=True), strict=True):
                stream.writelines(document_lines([side]))
        if not written.documents:
            raise UserError(f"{output}: no document was found for {split}; check what is read")
    return written


def check_sentence(path: str | Path, number: int, line: str) -> str:
    """A line of text; UserError if it holds a mark of the raw format."""
    if mark := reserved_mark(line):
        raise UserError(f"{path}, line {number}: {mark} inside a sentence is reserved; remove or rewrite it")
    return line
