"""Spans of a text that come back as they are: URLs, addresses, paths, code.

A model does not copy them reliably. So each is replaced by a placeholder before translation and put
back afterwards. No placeholder survives every tokeniser and vocabulary, hence it is chosen for the
model. Where none survives, or where a translation lacks one, what stands between the spans is
translated piece by piece (``lines.in_pieces``).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from gtransformer.errors import UserError

URL = r"\b(?:https?|ftp|file|mailto):[^\s<>\"]*[^\s<>\".,;:!?)\]}']|\bwww\.[\w.-]+\w(?:/[\w./?&=%#~+-]*[\w/])?"
ADDRESS = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # of e-mail
# A name of a Windows folder may contain blanks; of the last part only what precedes a blank is kept.
PATH = r"(?:\b[A-Za-z]:\\|\\\\\w)(?:[^\\/:*?\"<>|]+\\)*[^\s\\/:*?\"<>|]*[^\s\\/:*?\"<>|.,;!)]"
CODE = r"`[^`]+`"
USUAL = (CODE, URL, ADDRESS, PATH)

# In the order of trial, with the number of a span at {}: a rare word, brackets of Unicode's private
# use, a number.
PRIVATE = "\ue000{}\ue001"
PLACEHOLDERS = ("XQ{}Z", PRIVATE, "9000{}")
FIRST, LAST = 10, 99  # numbers of a line's spans: of two digits, so that none begins as another


class Keep:
    """Replaces spans of a line by placeholders, and placeholders of its translation by the spans.

    Args:
        patterns: regular expressions of the spans.
        survives: whether the model can read and write a text: it is tokenised without an unknown
            token, and comes back unchanged.

    Raises UserError for an invalid expression.
    """

    def __init__(self, patterns: Sequence[str], survives: Callable[[str], bool]):
        try:
            self._span = re.compile("|".join(f"(?:{pattern})" for pattern in filter(None, patterns)) or "(?!)")
        except re.error as error:
            raise UserError(f"--keep: no regular expression ({error})") from None
        self._survives = survives

    @cached_property
    def _passing(self) -> str | None:
        """The first of ``PLACEHOLDERS`` that survives; it is chosen when the first span is met."""
        for placeholder in PLACEHOLDERS:
            if self._survives(" ".join(map(placeholder.format, range(FIRST, LAST, 9)))):
                return placeholder
        logging.getLogger(__name__).warning(
            "no placeholder for URLs, code and the like passes through this model: lines are translated in pieces "
            "between them"
        )
        return None

    @property
    def passes(self) -> bool:
        """Whether a placeholder passes through the model."""
        return self._passing is not None

    @cached_property
    def _placeholder(self) -> str:
        return self._passing or PRIVATE

    @cached_property
    def _any_placeholder(self) -> re.Pattern:
        return re.compile(self._placeholder.format(r"(\d\d)"))

    def has_words(self, text: str) -> bool:
        """Return whether a text has a letter outside the spans."""
        return has_letters(self._span.sub("", text))

    def replace(self, text: str) -> tuple[str, list[str]]:
        """Return a text with placeholders, and the spans that they stand for."""
        spans: list[str] = []

        def numbered(found: re.Match) -> str:
            if not found[0]:  # of an expression such as x*
                return ""
            spans.append(found[0])
            return self._placeholder.format(FIRST + len(spans) - 1)

        if not self._span.search(text) or self._any_placeholder.search(text):
            return text, []
        return self._span.sub(numbered, text, count=LAST - FIRST), spans

    def restore(self, text: str, spans: Sequence[str]) -> str | None:
        """Return a translation with its spans, or None unless it has each placeholder once."""
        parts = self.parts(text, spans)
        return "".join(parts) if sorted(parts[1::2]) == sorted(spans) else None

    def parts(self, text: str, spans: Sequence[str]) -> list[str]:
        """Return texts and spans in turn; a text is the first and the last one, perhaps empty."""
        if not spans:
            return [text]
        parts = self._any_placeholder.split(text)
        return [_span_of(part, spans) if number % 2 else part for number, part in enumerate(parts)]


def has_letters(text: str) -> bool:
    """Return whether there is anything to translate: a letter of any script."""
    return any(map(str.isalpha, text))


def _span_of(number: str, spans: Sequence[str]) -> str:
    """Return the span of a placeholder's number; "" for one that the model made up."""
    return dict(enumerate(spans, FIRST)).get(int(number), "")


NOTHING = Keep((), lambda text: False)
