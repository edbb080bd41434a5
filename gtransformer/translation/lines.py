"""The lines of a text with their positions, and windows of them, for translation in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from gtransformer.data.instances import BOUNDARY_TOKENS, Filling, parts
from gtransformer.preprocess.bpe import SEPARATOR
from gtransformer.preprocess.characters import CONTROL, clean_line, is_blank
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark
from gtransformer.preprocess.pieces import SPACE
from gtransformer.translation.keep import NOTHING, Keep, has_letters

# Blanks and a list mark at the beginning of a line, which are kept. Not ``3.``: it may belong to a date.
LIST_MARK = re.compile(r" *(?:(?:[-*+•>]|#{1,6}|\d{1,3}\)) +)*")
CHUNK = 256  # lines that are encoded together
MOST_LINES = 10_000  # of a window, also of blank lines

CONTINUING = "##"  # a wordpiece that goes on with a word
WIDE_ENDS = "。，；：！？、"  # a word ends at them without a blank, too
CLAUSE_ENDS = frozenset(f",;:.!?…{WIDE_ENDS}")
SIGNS = " !\"#$%&'()*+,-./:;<=>?@[]^_{|}~«»“”„‘’—–…¿¡，。！？；：、（）「」"  # at the ends of a piece
GAP = "\0"  # in a frame: what the target language has between sentences
MANY_UNKNOWN = 0.01  # of the tokens; fewer are names and emoji, no reason to doubt the whole text

Encode = Callable[[list[str]], list[list[str]]]


@dataclass(frozen=True)
class TextPosition:
    """A position in a text: lines read, documents begun, sentences (lines) read of the current document, 0 if none.

    ``marked``: the text begins with ``<d>``, so that blank lines are empty sentences (``corpus``).
    """

    lines: int = 0
    documents: int = 0
    sentences: int = 0
    marked: bool = False

    def after_break(self, mark: bool = True) -> TextPosition:
        """Return the position after a line that is no sentence and ends a document; ``mark``: it is ``<d>``."""
        return TextPosition(self.lines + 1, self.documents, 0, self.marked or (mark and not self.documents))

    def after_sentence(self) -> TextPosition:
        """Return the position after a line of text, which may begin a document."""
        return TextPosition(self.lines + 1, self.documents + (self.sentences == 0), self.sentences + 1, self.marked)


@dataclass(frozen=True)
class InputLine:
    """One line of the input.

    Attributes:
        text: as it was read.
        position: after the line; for a sentence these are its own numbers, from 1.
        breaks: whether it ends a document (``<d>``, or a blank line of a text that does not begin with ``<d>``).
        sentences: the sentences to translate: one, several of running text, none of a line without words.
        frame: what stands before, between (``GAP``) and after their translations: blanks and a list mark; of
            a line without words all of it.
        spans: what placeholders stand for in the sentences (``keep``).
        pieces: the sentences are pieces of one, without the signs at their ends (``in_pieces``).
        tokens: their subwords; a sentence longer than the model's positions is split into several parts.
    """

    text: str
    position: TextPosition
    breaks: bool
    sentences: list[str] = field(default_factory=list)
    frame: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)
    pieces: bool = False
    tokens: list[list[str]] = field(default_factory=list)

    @property
    def was_cut(self) -> bool:
        """Whether a sentence of it was too long for the model."""
        return len(self.tokens) > len(self.sentences)


def read_text(
    lines: Iterable[str],
    encode: Encode,
    split: Callable[[str], list[str]] | None = None,
    longest: int | None = None,
    one_document: bool = False,
    keep: Keep = NOTHING,
) -> Iterator[InputLine]:
    """Yield the lines of a plain text, encoded.

    ``<d>`` ends a document. So does a blank line, unless the text begins with ``<d>``: then it is an empty sentence.
    Control characters are dropped as in the training corpus (``preprocess.clean``).

    Args:
        lines: with or without line ends.
        encode: function from sentences to their subwords.
        split: function from a line of running text to its sentences; None: a line is a sentence.
        longest: maximum subwords of a sentence; longer ones are split. None: no limit.
        one_document: blank lines do not end a document.
        keep: replaces what must come back as it is.
    """
    iterator, position = iter(lines), TextPosition(marked=one_document)
    while chunk := list(islice(iterator, CHUNK)):
        read: list[InputLine] = []
        for line in chunk:
            text = line.removesuffix("\n")
            clean = clean_line(text)
            mark, blank = is_document_mark(text), is_blank(clean)
            breaks = mark or (blank and not position.marked)
            position = position.after_break(mark) if breaks else position.after_sentence()
            if breaks or blank:
                read.append(InputLine(text, position, breaks))
            else:
                read.append(_text_line(text, position, keep, split))
        yield from encoded(read, encode, longest)


def documents_to_lines(
    documents: Iterable[Iterable[str]], encode: Encode, longest: int | None = None, keep: Keep = NOTHING
) -> Iterator[InputLine]:
    """Yield the lines of documents that are lists: a ``<d>`` before each; a blank sentence does not end a document."""
    position = TextPosition()
    for document in documents:
        position = position.after_break()
        read = [InputLine(DOCUMENT, position, breaks=True)]
        for text in document:
            position = position.after_sentence()
            blank = is_blank(clean_line(text))
            read.append(InputLine(text, position, breaks=False) if blank else _text_line(text, position, keep))
        yield from encoded(read, encode, longest)


def _text_line(
    text: str, position: TextPosition, keep: Keep, split: Callable[[str], list[str]] | None = None
) -> InputLine:
    """Return a line that is not blank, with its sentences and its list mark."""
    clean = clean_line(text)
    blanks = " " * (len(text) - len(text.lstrip(" ")))
    if not keep.has_words(clean):
        return InputLine(text, position, False, frame=[blanks + clean if CONTROL.search(text) else text])
    mark = LIST_MARK.match(clean)[0]
    rest, spans = keep.replace(clean[len(mark) :])
    sentences = (split(rest) if split else []) or [rest]
    frame = [blanks + mark, *[GAP] * (len(sentences) - 1), ""]
    line = InputLine(text, position, False, sentences, frame, spans)
    return in_pieces(line, keep) if spans and not keep.passes else line


def in_pieces(line: InputLine, keep: Keep) -> InputLine:
    """Return a line whose sentences end at the spans that are kept, which become part of its frame."""
    pieces, frame = [], line.frame[:1]
    for sentence in line.sentences:
        frame[-1] += GAP if pieces else ""
        for number, part in enumerate(keep.parts(sentence, line.spans)):
            if number % 2 or not has_letters(part):
                frame[-1] += part
            else:
                piece = part.strip(SIGNS)
                before, _, after = part.partition(piece)
                frame[-1] += before
                pieces.append(piece)
                frame.append(after)
    return InputLine(line.text, line.position, False, pieces, frame, pieces=True)


def encoded(lines: list[InputLine], encode: Encode, longest: int | None = None) -> Iterator[InputLine]:
    """Yield the lines with their tokens."""
    tokens = iter(encode([sentence for line in lines for sentence in line.sentences]))
    for line in lines:
        frame = line.frame[:1]
        for behind in line.frame[1:]:
            parts = cut(next(tokens), longest)
            line.tokens.extend(parts)
            frame += [*[GAP] * (len(parts) - 1), behind]
        line.frame[:] = frame
        yield line


def cut(tokens: list[str], longest: int | None) -> list[list[str]]:
    """Return the tokens of a sentence in parts of similar length, none above ``longest``; mostly one.

    Parts end between words, and after a clause if one ends in their second half.
    """
    if longest is None or len(tokens) <= longest:
        return [tokens]
    pieces = any(token.startswith(SPACE) for token in tokens)
    parts, first = [], 0
    while (left := len(tokens) - first) > longest:
        equal = first + -(-left // -(-left // longest))
        last = _end_of_words(tokens, first, equal, first + longest, pieces)
        parts.append(tokens[first:last])
        first = last
    return [*parts, tokens[first:]]


def _end_of_words(tokens: list[str], first: int, last: int, most: int, pieces: bool) -> int:
    """Return where a part from ``first`` is to end: after a clause in the second half of ``tokens[first:last]``, else
    after a word of it, else after a word up to ``most``, else at ``last``. ``pieces``: they are SentencePiece's.
    """

    def ends_at(at: int) -> bool:
        if pieces:
            return tokens[at].startswith(SPACE) or tokens[at - 1][-1:] in WIDE_ENDS
        return not (tokens[at - 1].endswith(SEPARATOR) or tokens[at].startswith(CONTINUING))

    ends = list(filter(ends_at, range(first + 1, last + 1)))
    clauses = [at for at in ends if 2 * at > first + last and tokens[at - 1][-1:] in CLAUSE_ENDS]
    later = next(filter(ends_at, range(last + 1, most + 1)), last)
    return (clauses or ends or [later])[-1]


@dataclass
class Remarks:
    """What a user should know about a translated text: sentences cut in parts, translations that may be incomplete,
    kept spans that the model lost, and words that it does not know.

    ``known``: the words of the source's dictionary.
    """

    known: Container[str]
    cut: list[str] = field(default_factory=list)
    at_limit: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    tokens: int = 0
    unknown: int = 0
    lines_with_unknown: int = 0
    first_unknown: str = ""

    def add(self, line: InputLine, at_limit: bool, lost: bool) -> None:
        """Count a line; ``at_limit``: its translation reached the length limit; ``lost``: it lacked a kept span."""
        where = f"sentence {line.position.sentences} of document {line.position.documents}"
        unknown = [token for part in line.tokens for token in part if token not in self.known]
        self.cut += [where] if line.was_cut else []
        self.at_limit += [where] if at_limit else []
        self.lost += [line.position.lines] if lost else []
        self.tokens += sum(map(len, line.tokens))
        self.unknown += len(unknown)
        if unknown:
            self.lines_with_unknown += 1
            self.first_unknown = self.first_unknown or f"{unknown[0]!r} in {where}"

    def __iter__(self) -> Iterator[str]:
        """Yield the remarks, a sentence each."""
        if self.cut:
            yield f"too long for the model or a window, and cut in parts: {_named('sentence', self.cut)}"
        if self.at_limit:
            limit = "a length limit (max-len-a, max-len-b, or the model's positions)"
            yield f"ended by {limit}, perhaps too early: {_named('translation', self.at_limit)}"
        if self.lost:
            lines = ", ".join(map(str, self.lost))
            yield f"URLs, code or the like were lost; translated again, in pieces between them: line {lines}"
        if self.unknown:
            advice = "; check the language and form of the text" if self.unknown > MANY_UNKNOWN * self.tokens else ""
            yield (
                f"{self.unknown} of {self.tokens} source tokens, in {self.lines_with_unknown} lines, are unknown to "
                f"the model (first {self.first_unknown}){advice}"
            )


def _named(what: str, places: Sequence[str]) -> str:
    number = f"1 {what}" if len(places) == 1 else f"{len(places):,} {what}s"
    return f"{number} ({', '.join(places[:5])}{', ...' if len(places) > 5 else ''})"


Reference = tuple[int, int]  # line of the window, sentence of the line


@dataclass
class Window:
    """Consecutive lines and their instances: ``instances[i]`` lists the sentences of an instance."""

    lines: list[InputLine] = field(default_factory=list)
    instances: list[list[Reference]] = field(default_factory=list)

    def tokens(self, reference: Reference) -> list[str]:
        """Return the tokens of one sentence."""
        line, sentence = reference
        return self.lines[line].tokens[sentence]

    def position(self, reference: Reference) -> tuple[int, int]:
        """Return the number of a sentence's document and its own in it, from 1; within a line they are counted on."""
        line, sentence = reference
        position = self.lines[line].position
        return position.documents, position.sentences + sentence


def windows(
    lines: Iterable[InputLine],
    max_instance_tokens: float,
    window_tokens: float,
    max_sents: int | None = None,
    boundary_tokens: int = BOUNDARY_TOKENS,
) -> Iterator[Window]:
    """Divide a text into windows of at least ``window_tokens`` tokens (or MOST_LINES lines); the last may be shorter.

    Instances are filled by source length as in ``data.instances.Filling``; a sentence counts its tokens and its
    boundary tokens. A full window ends at the next end of both an instance and a line. With infinitely many tokens an
    instance is a document.
    """
    window = Window()
    filling = Filling(max_instance_tokens, max_sents)
    tokens = 0  # of the window
    for line in lines:
        if line.breaks:
            filling.close()
        costs = [len(sentence) + boundary_tokens for sentence in line.tokens]
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


def in_equal_parts(window: Window, most: int, boundary_tokens: int = BOUNDARY_TOKENS) -> Window:
    """Divide the documents of a window into parts of similar source length (``data.instances.parts``).

    ``most``: tokens of a part, with boundary tokens.
    """
    found = []
    for document in window.instances:
        lengths = np.array([len(window.tokens(reference)) + boundary_tokens for reference in document])
        found += [document[first:last] for first, last in parts(lengths, most)]
    return Window(window.lines, found)
