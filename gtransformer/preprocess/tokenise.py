"""Tokenising and detokenising with sacremoses, or with the Perl scripts of Moses behind the same interface."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from types import ModuleType

from gtransformer.errors import cli_main
from gtransformer.preprocess.moses import moses_directory, run_script
from gtransformer.preprocess.parallel import available_cores, map_file
from gtransformer.preprocess.spacing import KeptTogether, Spacing

# Tokens with a meaning of their own in instance files and dictionaries: any of these, or a language symbol like [en].
# A token that ends as BPE marks the parts of words would take the next word to itself.
_CONTROL = re.compile(r"(?<!\S)(</?[a-z]+>|\[[A-Za-z_]+\])(?!\S)")
_PART = re.compile(r"@@+(?!\S)")


def sacremoses() -> ModuleType:
    """The library, imported when it is wanted: it reads its tables of characters for a second."""
    import sacremoses as library

    return library


def disarm(line: str) -> str:
    """Cut tokens that look like control symbols (``<mask>``, ``[de]``, ...) into their characters ``< mask >``.

    The tokenisers do so already; this holds whatever tokeniser is used, and detokenising closes the gaps again.
    """
    if "@@" in line:
        line = _PART.sub(lambda signs: " ".join(signs[0]), line)
    if "<" not in line and "[" not in line:
        return line
    return _CONTROL.sub(lambda match: f"{match[0][0]} {match[0][1:-1]} {match[0][-1]}", line)


class Tokeniser:
    """Tokenises lines of one language without escaping, so that the text can be put together again.

    ``moses``: a Moses directory, to use its Perl scripts. ``normalise``: normalise punctuation first (typographic
    quotes become straight ones and so on), which the raw text as reference does not have; off by default.
    ``escaped``: as fairseq's examples and published models have it, with ``&quot;`` and dashes set apart (``@-@``).
    ``exact``: what Moses' rules would tear apart for good is kept together (``spacing``); not with ``moses``.
    """

    def __init__(
        self,
        lang: str,
        moses: str | None = None,
        normalise: bool = False,
        escaped: bool = False,
        exact: bool = False,
    ):
        self.lang, self.moses, self.normalise, self.escaped = lang, moses, normalise, escaped
        self._tokenizer = None if moses else sacremoses().MosesTokenizer(lang)
        self._kept = KeptTogether(lang, self._tokenizer.IsAlnum) if exact else None
        self._normalizer = sacremoses().MosesPunctNormalizer(lang) if normalise and not moses else None

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Tokenise plain lines; as many come back as went in, words separated by single spaces."""
        if self.moses:
            if self.normalise:
                lines = run_script(self.moses, "normalize-punctuation.perl", ["-l", self.lang], lines)
            form = "-a" if self.escaped else "-no-escape"
            done = run_script(self.moses, "tokenizer.perl", ["-q", form, "-l", self.lang], lines)
        else:
            if self._normalizer:
                lines = [self._normalizer.normalize(line) for line in lines]
            done = [self._line(line) for line in lines]
        # A line of nothing but characters that a tokeniser throws away would lose its place in the alignment.
        return [disarm(" ".join(new.split()) or "".join(old.split())) for old, new in zip(lines, done, strict=True)]

    def _line(self, line: str) -> str:
        """Tokenise one line with sacremoses."""
        form = {"escape": self.escaped, "aggressive_dash_splits": self.escaped, "return_str": True}
        if self._kept is None:
            return self._tokenizer.tokenize(line, **form)
        marked, patterns = self._kept(line)
        try:
            return self._tokenizer.tokenize(marked, **form, protected_patterns=patterns)
        except ValueError:  # sacremoses takes no more than a thousand such places: no line of text
            return self._tokenizer.tokenize(line, **form)


class Detokeniser:
    """Puts tokenised lines of one language together to plain text; ``escaped`` and ``exact`` as of the ``Tokeniser``.

    Moses' script finds out by itself.
    """

    def __init__(self, lang: str, moses: str | None = None, escaped: bool = False, exact: bool = False):
        self.lang, self.moses, self.escaped = lang, moses, escaped
        self._spacing = Spacing(lang) if exact else None
        self._detokenizer = None if moses or exact else sacremoses().MosesDetokenizer(lang)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Detokenise lines; as many come back as went in."""
        if self._spacing:
            return [self._spacing(line.split()) for line in lines]
        if self.moses:
            return [line.strip() for line in run_script(self.moses, "detokenizer.perl", ["-q", "-l", self.lang], lines)]
        return [self._detokenizer.detokenize(line.split(), unescape=self.escaped) for line in lines]


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.tokenise INPUT OUTPUT --lang de [--undo]``"""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.tokenise", description="Tokenise or detokenise.")
    parser.add_argument("input", help="text, one sentence a line; <d> lines are left alone")
    parser.add_argument("output")
    parser.add_argument("--lang", required=True, help="language of the text, e.g. de")
    parser.add_argument("--undo", action="store_true", help="detokenise")
    parser.add_argument("--normalise-punctuation", action="store_true", help="normalise punctuation first")
    parser.add_argument("--moses", help="Moses directory (default: the variable MOSES; else sacremoses)")
    parser.add_argument("--workers", type=int, default=available_cores())
    args = parser.parse_args(argv)
    moses = moses_directory(args.moses)
    work = Detokeniser(args.lang, moses) if args.undo else Tokeniser(args.lang, moses, args.normalise_punctuation)
    map_file(work, args.input, args.output, args.workers, label="detokenise" if args.undo else "tokenise")


if __name__ == "__main__":
    raise SystemExit(main())
