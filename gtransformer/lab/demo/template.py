"""Sentence templates and how they are written out in English and in German.

In both languages ``{P}`` is a slot; in German ``{P.acc}`` and ``{P.dat}`` ask for a case, ``{er}``, ``{Er}`` and
``{ihn}`` for the pronoun of the topic's gender, and ``[kommst du|kommen Sie]`` gives the familiar and the polite form.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gtransformer.lab.demo.german import PRONOUNS
from gtransformer.lab.demo.lexicon import Sense, Word

REGISTERS = ("du", "Sie")
_ALTERNATIVES = re.compile(r"\[([^|\]]*)\|([^|\]]*)\]")
_TOKEN = re.compile(r"\w+|[^\w\s]")

Slots = Mapping[str, Word | Sense]


@dataclass(frozen=True)
class Template:
    """One sentence pattern in both languages; templates of one ``group`` are not used of the same thing twice."""

    en: str
    de: str
    group: str = ""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots, in English order, each once."""
        fields = [field for _, field, _, _ in string.Formatter().parse(self.en) if field]
        return tuple(dict.fromkeys(fields))

    @cached_property
    def pronoun(self) -> str:
        """``er`` or ``ihn`` if the German holds the nominative or accusative pronoun of the topic, else empty."""
        found = re.search(r"\{([Ee]r|ihn)\}", self.de)
        return found[1].lower() if found else ""

    def english(self, slots: Slots) -> str:
        """The English sentence."""
        return _capital(self.en.format_map({name: word.en for name, word in slots.items()}))

    def german(self, slots: Slots, register: str, gender: str = "") -> str:
        """The German sentence for a reader addressed with ``register`` and a topic of ``gender``."""
        values: dict[str, object] = dict(slots)
        if self.pronoun:
            nominative, accusative = PRONOUNS[gender]
            values |= {"er": nominative, "Er": nominative.capitalize(), "ihn": accusative}
        text = self.de.format_map(values)
        return _capital(_ALTERNATIVES.sub(lambda found: found[1 + REGISTERS.index(register)], text))


def templates(text: str) -> tuple[Template, ...]:
    """Read templates, one a line: English, German and, if any, the group, parted by two or more blanks."""
    result = []
    for line in text.strip().splitlines():
        if line.strip():
            result.append(Template(*re.split(r"\s{2,}", line.strip())))
    return tuple(result)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def count_tokens(sentence: str) -> int:
    """Words and punctuation marks; for the sentences of this grammar the same as Moses tokens."""
    return len(_TOKEN.findall(sentence))
