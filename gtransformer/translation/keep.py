"""Spans of a text that come back as they are: URLs, addresses, paths, code.

A model does not copy them reliably. So each is replaced by a placeholder before translation and put
back afterwards. No placeholder survives every tokeniser and vocabulary, hence it is chosen for the
model; where none survives, the model reads the text without the spans. Spans that a translation
lacks are written at its end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from gtransformer.errors import UserError

# ASCII alone: Chinese and Japanese text follows without a blank.
URL = (
    r"(?<![A-Za-z])(?:https?|ftp|file|mailto):[^\s<>\"\x80-\U0010ffff]*"
    r"[^\s<>\"\x80-\U0010ffff.,;:!?)\]}']"
)
URL += r"|(?<![A-Za-z])www\.[A-Za-z0-9.-]+[A-Za-z0-9](?:/[A-Za-z0-9_./?&=%#~+-]*[A-Za-z0-9_/])?"
ADDRESS = r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"  # of e-mail
# Of Windows. The names of folders may contain blanks before a capital letter or a bracket:
# C:\Program Files (x86)\a.
PATH = (
    r"(?:\b[A-Za-z]:\\|\\\\\w)(?:(?:[^\s\\/:*?\"<>|]| "
    r"(?=[A-Z(]))+\\)*[^\s\\/:*?\"<>|]*[^\s\\/:*?\"<>|.,;!)]"
)
CODE = r"(?<!\w)`+[^`]+`+(?!\w)"
USUAL = (CODE, URL, ADDRESS, PATH)

# In the order of trial, with the number of a span at {}: a rare word, brackets of Unicode's private
# use, a number.
PLACEHOLDERS = ("XQ{}Z", "\ue000{}\ue001", "9000{}")
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
            self._span = re.compile(
                "|".join(f"(?:{pattern})" for pattern in filter(None, patterns)) or "(?!)"
            )
        except re.error as error:
            raise UserError(f"--keep: no regular expression ({error})") from None
        if self._span.groups:
            raise UserError("--keep: write groups as (?:...), since several expressions are joined")
        self._survives = survives

    @cached_property
    def _placeholder(self) -> str | None:
        """The first of ``PLACEHOLDERS`` that survives; it is chosen when the first span is met."""
        for placeholder in PLACEHOLDERS:
            if self._survives(" ".join(map(placeholder.format, range(FIRST, LAST, 9)))):
                return placeholder
        logging.getLogger(__name__).warning(
            "no placeholder for URLs, code and the like passes through this model; they are "
            "written at the end"
        )
        return None

    def has_words(self, text: str) -> bool:
        """Return whether a text has a letter outside the spans."""
        return any(map(str.isalpha, self._span.sub("", text)))

    def replace(self, text: str) -> tuple[str, list[str]]:
        """Return a text with placeholders, and the spans that they stand for."""
        spans: list[str] = []

        def numbered(found: re.Match) -> str:
            if not found[0]:  # of an expression such as x*
                return ""
            spans.append(found[0])
            return placeholder.format(FIRST + len(spans) - 1)

        # Choosing a placeholder asks the model, so only texts with spans do that.
        if not any(self._span.findall(text)):
            return text, []
        placeholder = self._placeholder
        if placeholder is None:
            # The model reads the text without the spans, rather than with something that it
            # garbles.
            placeholder = " "
            return " ".join(self._span.sub(numbered, text).split()), spans
        # Such a number of the text itself would be taken for a placeholder.
        if self._numbers.search(text):
            return text, []
        return self._span.sub(numbered, text, count=LAST - FIRST), spans

    @property
    def _numbers(self) -> re.Pattern:
        """Matches any placeholder."""
        return re.compile(self._placeholder.format(r"(\d\d)"))

    def restore(self, text: str, spans: Sequence[str]) -> tuple[str, bool]:
        """Return a translation with its spans, those that it lacks at its end, and whether it lacks
        any.
        """
        if not spans:
            return text, False
        if self._placeholder is None:
            return " ".join([text, *spans]), True
        parts = self._numbers.split(text)
        known = dict(enumerate(spans, FIRST))
        numbers = list(map(int, parts[1::2]))
        parts[1::2] = [
            known.get(number, "") for number in numbers
        ]  # "": one that the model made up
        # At the end rather than nowhere: a reader can put them right.
        lost = [span for number, span in known.items() if number not in numbers]
        return " ".join(["".join(parts), *lost]), bool(lost)


NOTHING = Keep((), lambda text: False)
