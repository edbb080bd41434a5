"""Resegment translations whose number of sentences differs from the reference's, by minimal word edit distance.

This is the method of mwerSegmenter (Matusov et al. 2005). The words of a document are cut into as many sentences as the
reference has. The cuts minimise the sum of the sentences' edit distances (insertions, deletions and substitutions of
words, 1 each). That minimum is the edit distance of the whole document, so one dynamic programme over its words finds
it. Among several optima, the one with most cuts at the translation's own boundaries is taken, then the earliest (our
choice).

In languages without blanks a word is a character, or a piece of a SentencePiece model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from gtransformer.data.unspaced import SIGNS, word_tokenizer
from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import UNSPACED
from gtransformer.preprocess.corpus import BLANK
from gtransformer.preprocess.formats import Like, detect
from gtransformer.preprocess.formats.documents import Side
from gtransformer.preprocess.pieces import SentencePieces
from gtransformer.preprocess.plain_text import ANY, Documents, ambiguous, divided, placed, read_plain, read_sentences

ORDER, MWER = ALIGNMENTS = ("order", "mwer")
BYTE = re.compile("<0x[0-9A-F]{2}>")  # a piece of SentencePiece's byte fallback
MAX_BYTES = 1 << 31  # bytes of back pointers
INFINITE_COST = 1 << 60  # larger than any path's cost


def cut_points(words: Sequence[str], references: Sequence[Sequence[str]], own: Sequence[int] = ()) -> list[int]:
    """Return where to cut ``words``: (sentences + 1) positions from 0 to len(words); sentence k is between cuts k and k
    + 1.

    Args:
        words: of a document's translation.
        references: the words of each sentence.
        own: positions of the translation's own sentence boundaries.

    The result is exact. Time is O(words * reference words), memory O(words * sentences). Raises UserError if the latter
    exceeds ``MAX_BYTES``.
    """
    count, least = len(words), len(words) + 1
    # One number encodes a path: edits, then cuts not at own boundaries, then the start of the current sentence.
    edit = least * (len(references) + 1)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    given = np.array([numbers[word] for word in words], dtype=np.int64)
    positions = np.arange(least, dtype=np.int64)
    inserted = positions * edit
    strange = np.full(least, least, dtype=np.int64)
    strange[[0, count, *own]] = 0
    kept = np.uint16 if least < 1 << 16 else np.uint32
    if len(references) * least * np.dtype(kept).itemsize > MAX_BYTES:
        raise UserError(
            f"a document of {len(references)} sentences and {count} words is too long to be realigned "
            f"(more than {MAX_BYTES >> 30} GiB); if it is several, open documents by <d>"
        )
    begins = np.empty((len(references), least), dtype=kept)
    path = np.full(least, INFINITE_COST, dtype=np.int64)
    path[0] = 0
    step = np.empty(count, dtype=np.int64)

    def insert() -> None:
        """Extend paths by inserted words, which are aligned to no reference word."""
        np.subtract(path, inserted, out=path)
        np.minimum.accumulate(path, out=path)
        np.add(path, inserted, out=path)

    for number, sentence in enumerate(references):
        insert()
        for word in sentence:
            np.multiply(given != numbers.get(word, -1), edit, out=step)
            np.add(step, path[:-1], out=step)
            np.add(path, edit, out=path)
            np.minimum(path[1:], step, out=path[1:])
            insert()
        begins[number] = path % least
        path = path - begins[number] + strange + positions
    found = [count]
    for row in begins[::-1]:
        found.append(int(row[found[-1]]))
    return found[::-1]


@dataclass(frozen=True)
class Alignment:
    """How the sentences of a translation are aligned if their number differs from the reference's.

    Attributes:
        how: one of ``ALIGNMENTS``.
        model: with ``MWER``, a SentencePiece model whose pieces are the words, for languages without blanks. Raises
            UserError for another file.
    """

    how: str = ORDER
    model: Path | None = None

    def __post_init__(self) -> None:
        if self.model is not None:
            _pieces(str(self.model))

    def __str__(self) -> str:
        """Return it as in result files: ``order``, ``mwer``, ``mwer:MODEL``."""
        return self.how if self.model is None else f"{self.how}:{self.model}"

    @property
    def cuts(self) -> bool:
        """Whether documents are cut again."""
        return self.how == MWER

    @property
    def signature(self) -> str:
        """Its name in signatures, which has no folder."""
        return self.how if self.model is None else f"{self.how}|pieces:{self.model.name}"

    def splitter(self, tokenizer: str) -> Callable[[str], list[tuple[int, int]]]:
        """Return a function from a sentence to the spans of its words; ``tokenizer``: sacrebleu's.

        Raises UserError for pieces in a language with blanks: sentences would begin inside words.
        """
        unspaced = tokenizer in UNSPACED
        if self.model is None:
            # Latin words and numbers stay whole in Chinese text.
            unit = re.compile(rf"[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s]" if unspaced else r"\S+")
            return lambda sentence: [found.span() for found in unit.finditer(sentence)]
        if not unspaced:
            raise UserError(
                f"--align-pieces: the reference is cut into words (as by sacrebleu's tokeniser {tokenizer}), which "
                "blanks separate; leave it out"
            )
        return _pieces(str(self.model))


BY_ORDER, AGAIN = Alignment(ORDER), Alignment(MWER)


@lru_cache(2)
def _pieces(model: str) -> Callable[[str], list[tuple[int, int]]]:
    """Return a function from a sentence to the spans of its pieces, without blanks."""
    processor = SentencePieces(model).processor

    def spans(sentence: str) -> list[tuple[int, int]]:
        # Pieces make up the normalised sentence, whose characters have offsets in the original one.
        normal, offsets = processor.normalize(sentence, with_offsets=True)
        found, at, given = [], 0, b""
        for piece in processor.encode(sentence, out_type=str):
            end = at + len(piece)
            if BYTE.fullmatch(piece) and not normal.startswith(piece, at):  # of a character without a piece
                given += bytes.fromhex(piece[3:5])
                end = at + len(given.decode("utf-8", "ignore"))
                if end == at:
                    continue
                given = b""
            surface = sentence[offsets[at] : offsets[end]]
            begin = offsets[at] + len(surface) - len(surface.lstrip())
            if surface.strip():  # not only the mark of a beginning
                found.append((begin, begin + len(surface.strip())))
            at = end
        return found

    return spans


def realign(
    sentences: Sequence[str], references: Sequence[str], tokenizer: str = "13a", alignment: Alignment = AGAIN
) -> list[str]:
    """Return the text of ``sentences`` cut into ``len(references)`` sentences; some may be empty, no word is lost.

    Words are separated by white space; with sacrebleu's tokenisers for languages without it, each character of their
    scripts is one, or the pieces of ``alignment`` are. Each sentence is cut into pieces by itself.
    """
    split = alignment.splitter(word_tokenizer(tokenizer, references))
    text, spans, own, start = " ".join(sentences), [], [], 0
    for sentence in sentences:
        spans += [(start + first, start + last) for first, last in split(sentence)]
        own.append(len(spans))
        start += len(sentence) + 1
    words = [text[first:last] for first, last in spans]
    cuts = cut_points(words, [[one[first:last] for first, last in split(one)] for one in references], own)
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    return [text[spans[first][0] : spans[last - 1][1]] if last > first else "" for first, last in pairs]


def read_realigned(
    path: str | Path,
    reference: Documents,
    like: Like,
    tokenizer: str = "13a",
    wanted: Side = ANY,
    alignment: Alignment = AGAIN,
) -> tuple[Documents, int, Documents]:
    """Return plain text in the shape of its reference, how many documents had to be cut again, and the text as it was.

    Documents start with ``<d>`` or are separated by blank lines. Without these, the file has as many lines as the
    reference, or the reference is one document. Raises UserError otherwise. ``wanted``: the side of a file of another
    format.
    """
    lines = [] if detect(path) else read_sentences(path)  # once: it may be a pipe
    documents, borders = divided(path, lines) if lines else read_plain(path, wanted, like)
    shape = [len(document) for document in reference]
    if len(lines) == sum(shape) and None not in lines:
        if borders == BLANK and len(documents) == len(reference):
            raise ambiguous(path, lines, like)
        found = placed(path, lines, shape, like)
        return found, 0, found
    if len(reference) == 1 and borders == BLANK:
        documents = [list(chain.from_iterable(documents))]
    if len(documents) != len(reference):
        raise UserError(
            f"{path}: {len(documents)} document(s) of {sum(map(len, documents))} sentences, but {like} has "
            f"{len(reference)} of {sum(shape)}; sentences can be aligned within documents only, so open each by a line "
            "<d>"
        )
    other = [len(document) != count for document, count in zip(documents, shape, strict=True)]
    aligned = [
        realign(document, sentences, tokenizer, alignment) if needed else document
        for document, sentences, needed in zip(documents, reference, other, strict=True)
    ]
    return aligned, sum(other), documents
