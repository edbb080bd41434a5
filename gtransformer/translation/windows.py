"""A text of any length in windows that fit in memory, each made of whole instances.

Where windows and instances begin depends on the text before them alone, and a new window begins as the text itself
does: with an instance. So a text that is continued behind a window comes out as if it had never been interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from gtransformer.data.instances import MARKS, Filling, parts
from gtransformer.translation.lines import InputLine

MOST_LINES = 10_000  # so that blank lines without end fit, too

Reference = tuple[int, int]  # line of the window, sentence of the line


@dataclass
class Window:
    """Consecutive lines, and the instances that their sentences make: ``instances[i]`` lists their places."""

    lines: list[InputLine] = field(default_factory=list)
    instances: list[list[Reference]] = field(default_factory=list)

    def tokens(self, reference: Reference) -> list[str]:
        """The tokens of one sentence."""
        line, sentence = reference
        return self.lines[line].tokens[sentence]

    def first(self, reference: Reference) -> list[str]:
        """The tokens of the first translation of one sentence."""
        line, sentence = reference
        return self.lines[line].first[sentence]


def beside(instances: list[list[Reference]], count: int) -> list[list[Reference]]:
    """The sentences of documents one by one, each behind up to ``count`` previous ones of its document."""
    return [one[max(0, last - count) : last + 1] for one in instances for last in range(len(one))]


def in_parts(window: Window, most: int) -> Window:
    """A window of whole documents, each cut into parts of roughly equal length (``data.instances.parts``).

    By source length, which is all that is known of a text; ``most``: tokens of a part, marks counted.
    """
    found = []
    for document in window.instances:
        lengths = np.array([len(window.tokens(reference)) + MARKS for reference in document])
        found += [document[first:last] for first, last in parts(lengths, most)]
    return Window(window.lines, found)


def windows(
    lines: Iterable[InputLine], max_instance_tokens: float, window_tokens: int, max_sents: int | None = None
) -> Iterator[Window]:
    """Cut a text into windows of at least ``window_tokens`` tokens (or MOST_LINES lines), the last one shorter.

    Instances are filled by source length as ``data.instances.Filling`` does, a sentence costs its tokens and two marks.
    A window ends where an instance and a line end, at the first such place after it is full. With infinitely many
    tokens an instance is a document.
    """
    window = Window()
    filling = Filling(max_instance_tokens, max_sents)
    tokens = 0  # of the window

    def full() -> bool:
        return tokens >= window_tokens or len(window.lines) >= MOST_LINES

    for line in lines:
        if line.breaks:
            filling.close()
        costs = [len(sentence) + MARKS for sentence in line.tokens]
        begins = not filling.joins(costs[0]) if costs else not filling.sentences
        if begins and window.lines and full():
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
