"""Tokenisation and detokenisation with sacremoses, or with Moses' Perl scripts (``--moses``, variable ``MOSES``)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from gtransformer.data.languages import language_of_rules
from gtransformer.errors import UserError
from gtransformer.preprocess.spacing import KeptTogether, Spacing

SCRIPTS = {
    "tokenizer.perl": "tokenizer",
    "detokenizer.perl": "tokenizer",
    "normalize-punctuation.perl": "tokenizer",
    "train-truecaser.perl": "recaser",
    "truecase.perl": "recaser",
    "detruecase.perl": "recaser",
}

# Control symbols of instance files and dictionaries, and language symbols like [en]. A token that ends like a BPE
# subword would be joined with the next word.
CONTROL = re.compile(r"(?<!\S)(</?[a-z]+>|\[[A-Za-z_]+\])(?!\S)")  # what looks like a control symbol
_PART = re.compile(r"@@+(?!\S)")


def moses_directory(option: str | None = None) -> str | None:
    """Return the Moses directory to use: the option, else the environment variable MOSES, else None (sacremoses)."""
    return option or os.environ.get("MOSES") or None


def moses_as_prepared(recorded: str | bool | None, option: str | None = None) -> str | None:
    """Return the Moses directory for new text that is processed like a corpus, None for sacremoses.

    It is the option, if given. Else, for a corpus that was prepared with Moses, the variable MOSES or Moses' earlier
    directory.

    Args:
        recorded: ``moses`` of the corpus's settings: that directory; in a model directory, whether there was one.
    """
    if option or not recorded:
        return option
    return moses_directory() or (recorded if isinstance(recorded, str) else None)


def script_path(root: str | Path, script: str) -> Path:
    """Return the path of a script below ``root``: the Moses checkout, its ``scripts`` folder or a flat folder.

    Raises UserError if it is in none of them.
    """
    folder = SCRIPTS[script]
    candidates = [Path(root, "scripts", folder, script), Path(root, folder, script), Path(root, script)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise UserError(
        f"{candidates[0]}: no such file; point MOSES (or --moses) at a checkout of Moses, "
        "or leave it unset to use sacremoses"
    )


def run_script(root: str | Path, script: str, arguments: Sequence[str], lines: Sequence[str] | None) -> list[str]:
    """Run a Moses script over ``lines`` and return its output lines, as many as went in.

    With ``lines`` None nothing is piped and the output is returned as it is. Raises UserError when Perl is missing, the
    script fails, or it returns another number of lines.
    """
    path = script_path(root, script)
    text = None if lines is None else "".join(f"{line}\n" for line in lines).encode()
    try:
        done = subprocess.run(["perl", str(path), *arguments], input=text, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("perl: command not found; install Perl, or unset MOSES to use sacremoses") from None
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise UserError(f"{path}: failed with status {done.returncode} ({last})")
    output = done.stdout.decode("utf-8").removesuffix("\n").split("\n") if done.stdout else []
    if lines is not None and len(output) != len(lines):
        raise UserError(f"{path}: returned {len(output)} lines for {len(lines)}; use an unmodified Moses script")
    return output


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
        moses: a Moses directory, to use its Perl scripts.
        normalise: normalise punctuation first (typographic quotes become straight ones and so on). References are not
            normalised, so it is off by default.
        escaped: as in fairseq's examples and published models, with ``&quot;`` and split dashes (``@-@``).
        exact: reversible tokenisation (``spacing``); not with ``moses``.
    """

    def __init__(
        self,
        lang: str,
        moses: str | None = None,
        normalise: bool = False,
        escaped: bool = False,
        exact: bool = False,
    ):
        lang = language_of_rules(lang)
        self.lang, self.moses, self.normalise, self.escaped = lang, moses, normalise, escaped
        self._tokenizer = None if moses else sacremoses().MosesTokenizer(lang)
        self._kept = KeptTogether(lang, self._tokenizer.IsAlnum) if exact else None
        self._normalizer = sacremoses().MosesPunctNormalizer(lang) if normalise and not moses else None

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Tokenise each line; tokens are separated by single spaces."""
        if self.moses:
            if self.normalise:
                lines = run_script(self.moses, "normalize-punctuation.perl", ["-l", self.lang], lines)
            form = "-a" if self.escaped else "-no-escape"
            done = run_script(self.moses, "tokenizer.perl", ["-q", form, "-l", self.lang], lines)
        else:
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
    """A detokeniser of one language; ``escaped`` and ``exact`` are those of the ``Tokeniser``.

    Moses' script recognises escaped text.
    """

    def __init__(self, lang: str, moses: str | None = None, escaped: bool = False, exact: bool = False):
        lang = language_of_rules(lang)
        self.lang, self.moses, self.escaped = lang, moses, escaped
        self._spacing = Spacing(lang) if exact else None
        self._detokenizer = None if moses or exact else sacremoses().MosesDetokenizer(lang)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Detokenise each line."""
        if self._spacing:
            return [self._spacing(line.split()) for line in lines]
        if self.moses:
            return [line.strip() for line in run_script(self.moses, "detokenizer.perl", ["-q", "-l", self.lang], lines)]
        return [self._detokenizer.detokenize(line.split(), unescape=self.escaped) for line in lines]
