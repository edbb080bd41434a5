"""The lines of a text, each with its place, and windows of them: any text is translated in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np

from gtransformer.data.instances import BOUNDARY_TOKENS, Filling, parts
from gtransformer.errors import UserError
from gtransformer.preprocess.characters import clean_line, is_blank
from gtransformer.preprocess.corpus import BLANK, DOCUMENT, MARKED, NONE, is_document_mark

HALF = re.compile("[\ud800-\udfff]")  # of a character beyond U+FFFF, where text was decoded carelessly
CHUNK = 256  # lines that go through the text steps together
MOST_LINES = 10_000  # of a window, so that blank lines without end fit, too

Encode = Callable[[list[str]], list[list[str]]]


@dataclass(frozen=True)
class TextPosition:
    """Where reading stands: lines read, documents opened, sentences (lines) read of the open document, 0 if none is.

    ``marked``: the text opened with ``<d>``, so blank lines are empty sentences and no borders (``corpus``).
    """

    lines: int = 0
    documents: int = 0
    sentences: int = 0
    marked: bool = False

    def after_break(self, mark: bool = True) -> TextPosition:
        """Return the place behind a line that is no sentence and ends a document; ``mark``: which is ``<d>``."""
        return TextPosition(self.lines + 1, self.documents, 0, self.marked or (mark and not self.documents))

    def after_sentence(self) -> TextPosition:
        """Return the place behind a line of text, which opens a document where none is open."""
        return TextPosition(self.lines + 1, self.documents + (self.sentences == 0), self.sentences + 1, self.marked)

    @property
    def borders(self) -> str:
        """How the text marks its documents (``corpus.MARKED`` and so on), as far as it was read."""
        return MARKED if self.marked else BLANK if self.documents > 1 else NONE


START = TextPosition()


@dataclass(frozen=True)
class InputLine:
    """One line of the input.

    Attributes:
        text: as it was read.
        place: where reading stands behind it; all numbers of a sentence's place are its own, from 1.
        breaks: whether it ends a document (``<d>``, or a blank line of a text that does not open with that).
        sentences: what is to be translated: one, several of running text, none of a blank line.
        tokens: their subwords; a sentence longer than the model's positions stands in several parts.
        first: subwords of a first translation of each of ``tokens``, where such are given.
    """

    text: str
    position: TextPosition
    breaks: bool
    sentences: list[str] = field(default_factory=list)
    tokens: list[list[str]] = field(default_factory=list)
    first: list[list[str]] = field(default_factory=list)

    @property
    def was_cut(self) -> bool:
        """Whether a sentence of it was too long for the model."""
        return len(self.tokens) > len(self.sentences)


def check_line(text: str, location: str) -> str:
    """Return a line without its line break, which it may have as in lists of a file's lines.

    Raises UserError for what is no line of text: with a line break in it, or with half a character; TypeError for what
    is no text at all. ``location`` is for messages.
    """
    if not isinstance(text, str):
        raise TypeError(f"{location}: is {type(text).__name__}, not a text")
    text = text.removesuffix("\n")
    if "\n" in text:
        raise UserError(f"{location}: has a line break in it; give every line by itself")
    half = None if text.isascii() else HALF.search(text)
    if half:
        raise UserError(
            f"{location}: holds U+{ord(half[0]):04X}, half a character, which no translation can hold; decode the text "
            "with errors='strict', or 'replace'"
        )
    return text


def read_text(
    lines: Iterable[str],
    encode: Encode,
    split: Callable[[str], list[str]] | None = None,
    start: TextPosition = START,
    longest: int | None = None,
) -> Iterator[InputLine]:
    """Yield the lines of a plain text, encoded.

    ``<d>`` ends a document, and so does a blank line (nothing of it can be seen) unless the text opens with ``<d>``:
    then it is an empty sentence. Control characters are dropped as they were from the training corpus
    (``preprocess.clean``).

    Args:
        lines: with or without line ends, the first of them the one behind ``start``.
        encode: sentences to subwords, as many as go in.
        split: a line of running text to its sentences; None: a line is a sentence.
        longest: most subwords of a sentence; a longer one is cut. None: no limit.
    """
    iterator = iter(lines)
    while chunk := list(islice(iterator, CHUNK)):
        read: list[InputLine] = []
        for number, given in enumerate(chunk, start.lines + 1):
            text = check_line(given, f"line {number}")
            clean = clean_line(text)
            mark, blank = is_document_mark(text), is_blank(clean)
            breaks = mark or (blank and not start.marked)
            start = start.after_break(mark) if breaks else start.after_sentence()
            sentences = [] if breaks or blank else (split(clean) if split else None) or [clean]
            read.append(InputLine(text, start, breaks, sentences))
        yield from encoded(read, encode, longest)


def documents_to_lines(
    documents: Iterable[Iterable[str]], encode: Encode, longest: int | None = None
) -> Iterator[InputLine]:
    """Yield the lines of documents that are lists: a ``<d>`` before each; a blank sentence does not end a document.

    Raises UserError as ``check_line``.
    """
    position = TextPosition()
    for document in documents:
        position = position.after_break()
        read = [InputLine(DOCUMENT, position, breaks=True)]
        for text in document:
            position = position.after_sentence()
            where = f"document {position.documents}, sentence {position.sentences}"
            clean = clean_line(check_line(text, where))
            if is_document_mark(text):
                raise UserError(f"{where}: is {DOCUMENT}, which is no sentence; give a list for each document")
            read.append(InputLine(text, position, breaks=False, sentences=[] if is_blank(clean) else [clean]))
        yield from encoded(read, encode, longest)


def encoded(lines: list[InputLine], encode: Encode, longest: int | None = None) -> Iterator[InputLine]:
    """Yield the lines with their tokens."""
    tokens = iter(encode([sentence for line in lines for sentence in line.sentences]))
    for line in lines:
        line.tokens.extend(part for _ in line.sentences for part in cut(next(tokens), longest))
        yield line


def cut(tokens: list[str], longest: int | None) -> list[list[str]]:
    """Return the tokens of a sentence in as few parts as ``longest`` allows, about equally long; mostly just one."""
    return in_parts(tokens, 1 if longest is None else max(1, -(-len(tokens) // longest)))


def in_parts(tokens: list[str], count: int) -> list[list[str]]:
    """Return the tokens in so many parts, about equally long."""
    ends = [len(tokens) * number // count for number in range(count + 1)]
    return [tokens[first:end] for first, end in pairwise(ends)]


def with_first(lines: Iterable[InputLine], first: Iterable[str], encode: Encode, name: str) -> Iterator[InputLine]:
    """Yield the lines with first translations: ``first`` has a line for each, blank or ``<d>`` where it is no sentence.

    Args:
        encode: plain sentences of the target language to subwords.
        name: of ``first``, for messages.

    Raises UserError for another number of lines, and for a translation of what is no sentence.
    """
    rest, iterator = iter(first), iter(lines)
    while chunk := list(islice(iterator, CHUNK)):
        texts = list(islice(rest, len(chunk)))
        if len(texts) < len(chunk):
            raise UserError(
                f"{name}: ends in front of line {chunk[len(texts)].position.lines} of the text; give a line for each "
                "line"
            )
        clean = ["" if is_document_mark(text) else clean_line(text) for text in texts]
        tokens = iter(encode([text for text in clean if not is_blank(text)]))
        for line, text in zip(chunk, clean, strict=True):
            if line.tokens:
                line.first.extend(in_parts([] if is_blank(text) else next(tokens), len(line.tokens)))
            elif not is_blank(text):
                raise UserError(
                    f"{name}, line {line.position.lines}: a translation of what is no sentence; leave it blank"
                )
            yield line
    if next(rest, None) is not None:
        raise UserError(f"{name}: has more lines than the text; give a line for each line")


Reference = tuple[int, int]  # line of the window, sentence of the line


@dataclass
class Window:
    """Consecutive lines, and the instances that their sentences make: ``instances[i]`` lists where these are."""

    lines: list[InputLine] = field(default_factory=list)
    instances: list[list[Reference]] = field(default_factory=list)

    def tokens(self, reference: Reference) -> list[str]:
        """Return the tokens of one sentence."""
        line, sentence = reference
        return self.lines[line].tokens[sentence]

    def number(self, reference: Reference) -> int:
        """Return the number of a sentence in its document, from 1: its line's, and on from there within the line."""
        line, sentence = reference
        return self.lines[line].position.sentences + sentence

    def first(self, reference: Reference) -> list[str]:
        """Return the tokens of the first translation of one sentence."""
        line, sentence = reference
        return self.lines[line].first[sentence]


def windows(
    lines: Iterable[InputLine], max_instance_tokens: float, window_tokens: int, max_sents: int | None = None
) -> Iterator[Window]:
    """Cut a text into windows of at least ``window_tokens`` tokens (or MOST_LINES lines), the last one shorter.

    Where windows and instances begin depends on the text before them alone, and a new window begins as the text itself
    does: with an instance. So a text that is resumed behind a window comes out as if it had never been interrupted.

    Instances are filled by source length as ``data.instances.Filling`` does, a sentence costs its tokens and two marks.
    A window ends where an instance and a line end, at the first such place after it is full. With infinitely many
    tokens an instance is a document.
    """
    window = Window()
    filling = Filling(max_instance_tokens, max_sents)
    tokens = 0  # of the window
    for line in lines:
        if line.breaks:
            filling.close()
        costs = [len(sentence) + BOUNDARY_TOKENS for sentence in line.tokens]
        begins = not filling.joins(costs[0]) if costs else not filling.sentences
        if begins and window.lines and (tokens >= window_tokens or len(window.lines) >= MOST_LINES):
            yield window
            window, tokens = Window(), 0
            filling.close()
        for number, cost in enumerate(costs):
            if filling.add(cost):
                window.instances.append([])
            window.instances[-1].append((len(window.lines), number))
            tokens += cost
        window.lines.append(line)
    if window.lines:
        yield window


def beside(instances: list[list[Reference]], count: int) -> list[list[Reference]]:
    """Return the sentences of documents one by one, each behind up to ``count`` previous ones of its document."""
    return [one[max(0, last - count) : last + 1] for one in instances for last in range(len(one))]


def in_equal_parts(window: Window, most: int) -> Window:
    """Cut the documents of a window into parts of roughly equal length (``data.instances.parts``).

    By source length, which is all that is known of a text; ``most``: tokens of a part, marks counted.
    """
    found = []
    for document in window.instances:
        lengths = np.array([len(window.tokens(reference)) + BOUNDARY_TOKENS for reference in document])
        found += [document[first:last] for first, last in parts(lengths, most)]
    return Window(window.lines, found)
