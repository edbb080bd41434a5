"""A text of any length in windows that fit in memory, each made of whole instances.

Where windows and instances begin depends on the text before them alone, and a new window begins as the text itself
does: with an instance. So a text that is continued behind a window comes out as if it had never been interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gtransformer.preprocess.instances import MARKS
from gtransformer.translation.lines import Line

MOST_LINES = 10_000  # so that blank lines without end fit, too

Reference = tuple[int, int]  # line of the window, sentence of the line


@dataclass
class Window:
    """Consecutive lines, and the instances that their sentences make: ``instances[i]`` lists their places."""

    lines: list[Line] = field(default_factory=list)
    instances: list[list[Reference]] = field(default_factory=list)

    def tokens(self, reference: Reference) -> list[str]:
        """The tokens of one sentence."""
        line, sentence = reference
        return self.lines[line].tokens[sentence]


def windows(
    lines: Iterable[Line], max_instance_tokens: int, window_tokens: int, max_sents: int | None = None
) -> Iterator[Window]:
    """Cut a text into windows of at least ``window_tokens`` tokens (or MOST_LINES lines), the last one shorter.

    Instances are those of ``preprocess.instances.greedy_instances`` by source length: a sentence costs its tokens and
    two marks; it joins the instance while the sum stays below ``max_instance_tokens`` (and the instance below
    ``max_sents`` sentences). A window ends where an instance and a line end, at the first such place after it is full.
    """
    window = Window()
    cost = tokens = 0  # of the open instance, of the window
    is_open = False

    def full() -> bool:
        return tokens >= window_tokens or len(window.lines) >= MOST_LINES

    def joins(price: int) -> bool:
        if not is_open or cost + price >= max_instance_tokens:
            return False
        return max_sents is None or len(window.instances[-1]) < max_sents

    for line in lines:
        if line.breaks:
            is_open = False
        costs = [len(sentence) + MARKS for sentence in line.tokens]
        begins = not is_open or (costs and not joins(costs[0]))
        if begins and window.lines and full():
            yield window
            window, tokens, is_open = Window(), 0, False
        for number, price in enumerate(costs):
            if not joins(price):
                window.instances.append([])
                cost, is_open = 0, True
            window.instances[-1].append((len(window.lines), number))
            cost += price
            tokens += price
        window.lines.append(line)
    if window.lines:
        yield window
