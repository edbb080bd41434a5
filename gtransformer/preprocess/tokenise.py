"""Tokenisation and detokenisation with sacremoses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType

from gtransformer.data.languages import language_of_rules
from gtransformer.preprocess.spacing import KeptTogether, Spacing

# Control symbols of instance files and dictionaries, and language symbols like [en]. A token that ends like a BPE
# subword would be joined with the next word.
CONTROL = re.compile(r"(?<!\S)(</?[a-z]+>|\[[A-Za-z_]+\])(?!\S)")  # what looks like a control symbol
_PART = re.compile(r"@@+(?!\S)")


def sacremoses() -> ModuleType:
    """Return the library, imported only when needed: reading its tables of characters takes a second."""
    import sacremoses as library

    return library


def disarm(line: str) -> str:
    """Split tokens that look like control symbols (``<mask>``, ``[de]``, ...): ``< mask >``.

    Tokenisers do so already; this guarantees it for all of them. Detokenising joins the parts again.
    """
    if "@@" in line:
        line = _PART.sub(lambda signs: " ".join(signs[0]), line)
    if "<" not in line and "[" not in line:
        return line
    return CONTROL.sub(lambda match: f"{match[0][0]} {match[0][1:-1]} {match[0][-1]}", line)


def one_token(line: str) -> str:
    """Return one token for a line of which a tokeniser left nothing, so that alignment by line is kept."""
    return "".join(line.split())


class Tokeniser:
    """A tokeniser of one language, without escaping by default.

    Args:
        normalise: normalise punctuation first (typographic quotes become straight ones and so on). References are not
            normalised, so it is off by default.
        escaped: as in fairseq's examples and published models, with ``&quot;`` and split dashes (``@-@``).
        exact: reversible tokenisation (``spacing``).
    """

    def __init__(self, lang: str, normalise: bool = False, escaped: bool = False, exact: bool = False):
        lang = language_of_rules(lang)
        self.escaped = escaped
        self._tokenizer = sacremoses().MosesTokenizer(lang)
        self._kept = KeptTogether(lang, self._tokenizer.IsAlnum) if exact else None
        self._normalizer = sacremoses().MosesPunctNormalizer(lang) if normalise else None

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Tokenise each line; tokens are separated by single spaces."""
        if self._normalizer:
            lines = [self._normalizer.normalize(line) for line in lines]
        done = [self._line(line) for line in lines]
        return [disarm(" ".join(new.split()) or one_token(old)) for old, new in zip(lines, done, strict=True)]

    def _line(self, line: str) -> str:
        """Tokenise one line with sacremoses."""
        form = {"escape": self.escaped, "aggressive_dash_splits": self.escaped, "return_str": True}
        if self._kept is None:
            return self._tokenizer.tokenize(line, **form)
        marked, patterns = self._kept(line)
        try:
            return self._tokenizer.tokenize(marked, **form, protected_patterns=patterns)
        except ValueError:  # sacremoses supports at most a thousand protected matches; no line of text has as many
            return self._tokenizer.tokenize(line, **form)


class Detokeniser:
    """A detokeniser of one language; ``escaped`` and ``exact`` are those of the ``Tokeniser``."""

    def __init__(self, lang: str, escaped: bool = False, exact: bool = False):
        lang = language_of_rules(lang)
        self.escaped = escaped
        self._spacing = Spacing(lang) if exact else None
        self._detokenizer = None if exact else sacremoses().MosesDetokenizer(lang)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Detokenise each line."""
        if self._spacing:
            return [self._spacing(line.split()) for line in lines]
        return [self._detokenizer.detokenize(line.split(), unescape=self.escaped) for line in lines]
