"""Unicode: normalisation of characters, characters that cleaning drops, blank lines."""

from __future__ import annotations

import re
import unicodedata

_WORD = "A-Za-z\u00aa-\u02af\u0370-\u052f"  # Latin, Greek, Cyrillic
# Thai, Lao, Burmese, Khmer: U+200B separates words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

# Invisible characters: soft hyphen, zero-width space, word joiner, marks of direction. Joiners and
# non-joiners (for Persian, Hindi, emoji) are listed only between letters of scripts that do not
# need them.
_UNSEEN = re.compile(
    f"[\u00ad\u2060\u200e\u200f\u202a-\u202e\u2066-\u2069]|(?<![{_UNSPACED}])\u200b(?![{_UNSPACED}])|(?<=[{_WORD}])[\u200c\u200d](?=[{_WORD}])"
)
# Letters in a shape that a font would choose: ligatures, Arabic presentation forms.
_SHAPED = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdfb\ufe70-\ufefc]")
_HYPHENS = re.compile("[\u2010\u2011]")  # hyphen and non-breaking hyphen; replaced by "-"

# Line ends for some programs: vertical tab, form feed, the ASCII separators, next line, line and
# paragraph separator. They and tabs become blanks; other control characters are dropped.
_BREAKS = re.compile("[\t\x0b\x0c\x1c-\x1f\x85\u2028\u2029]+")
DROPPED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]+")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


def one_form(text: str) -> str:
    """Return text in NFC, without invisible formatting, with ligatures as letters and hyphens as
    ``-``.

    Characters that only look alike, or have a meaning of their own, do not change: typographic
    quotes, full-width forms, superscripts, no-break spaces (tokenising and scoring treat these as
    blanks).
    """
    if text.isascii():
        return text
    text = _HYPHENS.sub("-", _UNSEEN.sub("", text))
    text = _SHAPED.sub(lambda shaped: unicodedata.normalize("NFKC", shaped[0]), text)
    return unicodedata.normalize("NFC", text)


def clean_line(line: str) -> str:
    """Return a sentence on one line, normalised, without control characters and outer blanks."""
    if CONTROL.search(line):
        line = DROPPED.sub("", _BREAKS.sub(" ", line.rstrip("\r").replace("\r", " ")))
    return one_form(line).strip()


def is_blank(line: str) -> bool:
    """Return whether a line has only blanks, control and formatting characters.

    Characters that Python's tables do not know count as visible: newer emoji and letters, private
    use.
    """
    return not line or (
        not line[0].isalnum() and all(unicodedata.category(sign) in _INVISIBLE for sign in line)
    )
