"""One form for text that Unicode lets be written in several ways, so that the same text has the same tokens."""

from __future__ import annotations

import re
import unicodedata

_WORD = "A-Za-z\u00aa-\u02af\u0370-\u052f"  # Latin, Greek, Cyrillic
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: U+200B stands between words there

# Nothing of these is seen: soft hyphen, zero-width space, word joiner, marks of direction; between letters that are
# never joined to each other, the signs that join or part letters elsewhere (Persian, Hindi, emoji).
_UNSEEN = re.compile(
    "[\u00ad\u2060\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    f"|(?<![{_UNSPACED}])\u200b(?![{_UNSPACED}])"
    f"|(?<=[{_WORD}])[\u200c\u200d](?=[{_WORD}])"
)
# Letters in a shape that a font would give them: ligatures, Arabic presentation forms.
_SHAPED = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdfb\ufe70-\ufefc]")
_HYPHENS = re.compile("[\u2010\u2011]")  # hyphen and non-breaking hyphen; the one of keyboards stands for both


def one_form(text: str) -> str:
    """Return text composed (NFC), without invisible formatting, ligatures as letters, hyphens as ``-``.

    Characters that only look alike, or that mean more than their plain form, stay: typographic quotes, full-width
    forms, superscripts, no-break spaces (which tokenising and scoring take for blanks anyway).
    """
    if text.isascii():
        return text
    text = _HYPHENS.sub("-", _UNSEEN.sub("", text))
    text = _SHAPED.sub(lambda shaped: unicodedata.normalize("NFKC", shaped[0]), text)
    return unicodedata.normalize("NFC", text)
