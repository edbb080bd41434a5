"""The lines of a text with their positions, and windows of them, for translation in bounded
memory.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from gtransformer.data.instances import BOUNDARY_TOKENS, Filling, parts
from gtransformer.data.languages import two_letters
from gtransformer.preprocess.characters import CONTROL, clean_line, is_blank
from gtransformer.preprocess.corpus import is_document_mark
from gtransformer.preprocess.tokenisers import SEPARATOR, SPACE
from gtransformer.translation.keep import NOTHING, Keep

# Blanks and a list mark at the beginning of a line, which are kept. Not ``3.``: it may belong to a
# date.
LIST_MARK = re.compile(r" *(?:(?:[-*+•>]|#{1,6}|\d{1,3}\)) +)*")
CHUNK = 256  # lines that are encoded together
MOST_LINES = 10_000  # of a window, also of blank lines

CONTINUING = "##"  # a wordpiece that goes on with a word
WIDE_ENDS = "。，；：！？、"  # a word ends at them without a blank, too
CLAUSE_ENDS = frozenset(f",;:.!?…{WIDE_ENDS}")
# A line that begins or ends a block of code, as in Markdown: with a word, or attributes. More ~
# underline a heading.
FENCE = re.compile(r"\s*(```|~~~(?!~))\s*(?:[^`\s]*|[^`]*[={][^`]*)\s*\Z")

Encode = Callable[[list[str]], list[list[str]]]


def sentence_splitter(lang: str) -> Callable[[str], list[str]]:
    """Return a function from a line of a language to its sentences, without blanks at their ends.

    No other character is lost.
    """
    from sentencex import segment

    def split(line: str) -> list[str]:
        sentences = (sentence.strip() for sentence in segment(two_letters(lang), line))
        return [sentence for sentence in sentences if sentence]

    return split


@dataclass
class InputLine:
    """One line of the input.

    Attributes:
        text: as it was read.
        number: of the line, from 1.
        document, sentence: its document and its place there, from 1; of a line that ends a document
            that document, and 0.
        breaks: whether it ends a document (``<d>``, or a blank line of a text that does not begin
            with ``<d>``).
        sentences: the sentences to translate: one, several of running text, none of a line without
            words.
        start: what stands before their translations: blanks and a list mark; of a line without
            words all of it.
        spans: what placeholders stand for in the sentences (``keep``).
        tokens: their subwords; a sentence longer than the model's positions is split into several
            parts.
    """

    text: str
    number: int
    document: int
    sentence: int
    breaks: bool
    sentences: list[str] = field(default_factory=list)
    start: str = ""
    spans: list[str] = field(default_factory=list)
    tokens: list[list[str]] = field(default_factory=list)


def read_text(
    lines: Iterable[str],
    encode: Encode,
    split: Callable[[str], list[str]] | None = None,
    longest: int | None = None,
    one_document: bool = False,
    keep: Keep = NOTHING,
) -> Iterator[InputLine]:
    """Yield the lines of a plain text, encoded.

    ``<d>`` ends a document. So does a blank line, unless the text begins with ``<d>``: then it is
    an empty sentence. Control characters are dropped as in the training corpus
    (``preprocess.clean``). Blocks of code between two lines that match ``FENCE`` stay as they are.
    One without an end goes on to the end of the document, with a warning.

    Args:
        lines: with or without line ends.
        encode: function from sentences to their subwords.
        split: function from a line of running text to its sentences; None: a line is a sentence.
        longest: maximum subwords of a sentence; longer ones are split. None: no limit.
        one_document: blank lines do not end a document.
        keep: replaces what must come back as it is.
    """
    iterator, number, document, sentence = iter(lines), 0, 0, 0
    marked = one_document  # whether only <d> ends a document
    opened, signs = 0, ""  # the line that begins a block of code, and its first signs
    while chunk := list(islice(iterator, CHUNK)):
        read: list[InputLine] = []
        for text in chunk:
            text = text.removesuffix("\n")
            # A line of invisible characters is blank, as in a prepared corpus.
            mark, blank = is_document_mark(text), is_blank(clean_line(text))
            breaks = mark or (blank and not marked)
            number += 1
            if breaks:
                # Only a mark before any sentence decides: a later one ends the document, too.
                marked = marked or (mark and not document)
                sentence = 0
            else:
                # A document begins with its first sentence; several blank lines are one border.
                document += not sentence
                sentence += 1
            line = InputLine(text, number, document, sentence, breaks)
            fence = FENCE.match(text)
            if breaks or blank:
                pass
            elif fence or opened:
                line.start = text
            else:
                line.sentences, line.start, line.spans = parts_of(text, keep, split)
            if mark:
                _check_closed(opened)
                opened = 0
            elif fence and not opened:
                opened, signs = number, fence[1]
            elif fence and fence[1] == signs:
                opened = 0
            read.append(line)
        # Together, since a call of the tokeniser costs more than a sentence.
        tokens = iter(encode([sentence for line in read for sentence in line.sentences]))
        for line in read:
            for _ in line.sentences:
                line.tokens += cut(next(tokens), longest)
            yield line
    _check_closed(opened)


def _check_closed(opened: int) -> None:
    """Warn of a block of code that does not end; ``opened``: its first line, 0 without a block."""
    if opened:
        logging.getLogger(__name__).warning(
            "line %d begins a block of code that does not end; it is not translated", opened
        )


def parts_of(
    text: str, keep: Keep, split: Callable[[str], list[str]] | None = None
) -> tuple[list[str], str, list[str]]:
    """Return the sentences, the start and the spans (``InputLine``) of a line that is not blank."""
    clean = clean_line(text)
    blanks = text[: len(text) - len(text.lstrip(" \t"))]
    if not keep.has_words(clean):
        return [], blanks + clean if CONTROL.search(text) else text, []
    # Models drop or double list marks: training text has few of them.
    mark = LIST_MARK.match(clean)[0]
    rest, spans = keep.replace(clean[len(mark) :])
    sentences = (split(rest) if split else []) or [rest]
    return sentences, blanks + mark, spans


def cut(tokens: list[str], longest: int | None) -> list[list[str]]:
    """Return the tokens of a sentence in parts of similar length, none above ``longest``; mostly
    one, and none of a sentence without tokens.

    Parts end after a clause, if one ends in their second half, else between words.
    """
    if longest is None or len(tokens) <= longest:
        return [tokens] if tokens else []
    pieces = any(token.startswith(SPACE) for token in tokens)  # SentencePiece's

    def ends_at(at: int) -> bool:
        if pieces:
            return tokens[at].startswith(SPACE) or tokens[at - 1][-1:] in WIDE_ENDS
        return not (tokens[at - 1].endswith(SEPARATOR) or tokens[at].startswith(CONTINUING))

    parts, first = [], 0
    # Parts of similar length: a short rest would be translated without context.
    while (left := len(tokens) - first) > longest:
        count = math.ceil(left / longest)
        equal = first + math.ceil(left / count)
        ends = list(filter(ends_at, range(first + 1, equal + 1)))
        clauses = [
            at for at in ends if 2 * at > first + equal and tokens[at - 1][-1:] in CLAUSE_ENDS
        ]
        last = (clauses or ends or [equal])[-1]
        parts.append(tokens[first:last])
        first = last
    return [*parts, tokens[first:]]


class Remarks:
    """What a user should know about a translated text, each with the sentences that it holds for.

    Attributes:
        place: how a sentence is named, by attributes of ``InputLine``.
        known: the words of the source's dictionary.
    """

    place = "sentence {sentence} of document {document}"

    def __init__(self, known: Container[str]):
        self.known = known
        self.places: dict[str, list[str]] = {}

    def add(self, line: InputLine, at_limit: bool, lost: bool) -> None:
        """Count a line; ``at_limit``: its translation reached the length limit; ``lost``: it lacked
        a kept span.
        """
        remarks = {
            "too long for the model or a window, and cut in parts": (
                len(line.tokens) > len(line.sentences)
            ),
            "ended by a length limit (max-len-a, max-len-b, or the model's positions), perhaps too "
            "early": at_limit,
            "URLs, code or the like were lost, and are written at the end": lost,
            "words or signs that are unknown to the model": any(
                token not in self.known for part in line.tokens for token in part
            ),
        }
        for remark, holds in remarks.items():
            if holds:
                where = self.place.format(**vars(line))
                self.places.setdefault(remark, []).append(where)

    def __iter__(self) -> Iterator[str]:
        """Yield the remarks, one a line."""
        for remark, places in self.places.items():
            more = ", ..." if len(places) > 5 else ""
            yield f"{remark}: {len(places):,} in all ({', '.join(places[:5])}{more})"


Reference = tuple[int, int]  # line of the window, sentence of the line


@dataclass
class Window:
    """Consecutive lines and their instances: ``instances[i]`` lists the sentences of an
    instance.
    """

    lines: list[InputLine] = field(default_factory=list)
    instances: list[list[Reference]] = field(default_factory=list)

    def tokens(self, reference: Reference) -> list[str]:
        """Return the tokens of one sentence."""
        line, sentence = reference
        return self.lines[line].tokens[sentence]

    def sentence(self, reference: Reference) -> int:
        """Return the number of a sentence in its document, from 1; within a line they are counted
        on.
        """
        line, sentence = reference
        return self.lines[line].sentence + sentence


def windows(
    lines: Iterable[InputLine],
    max_instance_tokens: float,
    window_tokens: float,
    max_sents: int | None = None,
    boundary_tokens: int = BOUNDARY_TOKENS,
) -> Iterator[Window]:
    """Divide a text into windows of at least ``window_tokens`` tokens (or MOST_LINES lines); the
    last may be shorter.

    Instances are filled by source length as in ``data.instances.Filling``; a sentence counts its
    tokens and its boundary tokens. A full window ends at the next end of both an instance and a
    line. With infinitely many tokens an instance is a document.
    """
    window = Window()
    filling = Filling(max_instance_tokens, max_sents)
    tokens = 0  # of the window
    for line in lines:
        if line.breaks:
            filling.close()
        costs = [len(sentence) + boundary_tokens for sentence in line.tokens]
        begins = not filling.joins(costs[0]) if costs else not filling.sentences
        # Only where an instance begins, so that windows do not change what is translated together.
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


def in_equal_parts(window: Window, most: int, boundary_tokens: int) -> Window:
    """Divide the documents of a window into parts of similar source length
    (``data.instances.parts``).

    ``most``: tokens of a part, with boundary tokens.
    """
    found = []
    for document in window.instances:
        lengths = np.array(
            [len(window.tokens(reference)) + boundary_tokens for reference in document]
        )
        found += [document[first:last] for first, last in parts(lengths, most)]
    return Window(window.lines, found)
