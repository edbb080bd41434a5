"""Moses' truecasing: train, apply, undo; the model files are exchangeable with Moses' own.

sacremoses' truecaser is not used: by default it changes known casings within sentences ("Windows" to "windows"), and it
parses markup. The rules: a word's best casing is its most frequent one outside sentence starts. At a sentence start a
word gets its best casing. Elsewhere a known casing does not change, an unknown one becomes the best. A sentence starts
at the beginning of the line and after ``. : ? !``; opening brackets and quotes are skipped.

This cannot always be undone (``Farben: rot`` becomes ``Farben: Rot``). With ``exact`` only a line's first word changes,
and only if that can be undone; a line that begins in lower case gets the token ``LOWER`` in front.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import is_document_mark
from gtransformer.preprocess.parallel import map_chunks
from gtransformer.preprocess.spacing import join_joints

SENTENCE_END = frozenset(".:?!")
BEFORE_START = frozenset(["(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"])

LOWER = "⇣"  # the line begins in lower case; in a truecaser's model if its training text had such lines


def capital(word: str) -> str:
    """Return a word with a capital in front; Georgian has none there (its titlecase letters are the letters)."""
    return word[:1].title() + word[1:]


def first_word(words: Sequence[str]) -> int | None:
    """Return the position of a line's first word, after quotes and dashes; None if there is none."""
    return next((position for position, word in enumerate(words) if any(map(str.isalnum, word))), None)


def sentence_starts(words: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each word, and whether a sentence starts with it."""
    at_start = True
    for word in words:
        yield word, at_start
        at_start = word in SENTENCE_END or (at_start and word in BEFORE_START)


def count_casings(lines: Iterable[str], exact: bool = False) -> Counter[str]:
    """Count the casings of words in tokenised lines, without sentence starts.

    ``exact``: opening marks of all kinds are skipped, and lines that begin in lower case are counted as ``LOWER``.
    """
    counts: Counter[str] = Counter()
    cased: dict[str, bool] = {}
    for line in lines:
        at_start, words = True, line.split()
        begin = (first_word(words) or 0) if exact else 0
        if exact and words and capital(words[begin]) != words[begin]:
            counts[LOWER] += 1
        for word in words[begin:]:
            if word in BEFORE_START:
                continue
            if word in SENTENCE_END and not at_start:
                at_start = True
                continue
            if word not in cased:
                cased[word] = word.lower() != word.upper()
            if cased[word] and not at_start:
                counts[word] += 1
            at_start = False
    return counts


def write_model(counts: Counter[str], path: str | Path) -> None:
    """Write a truecaser in Moses' format, a line per word: ``best (count/total) other (count) ...``."""
    forms: dict[str, list[tuple[int, str]]] = {}
    for word, count in counts.items():
        forms.setdefault(word.lower(), []).append((count, word))
    with atomic_write(path) as stream:
        for key in sorted(forms):
            # The lower-case form is the first of equally frequent ones (lower case sorts last).
            ordered = sorted(forms[key], reverse=True)
            total = sum(count for count, _ in ordered)
            (count, best), others = ordered[0], ordered[1:]
            rest = "".join(f" {word} ({number})" for number, word in others)
            stream.write(f"{best} ({count}/{total}){rest}\n")


class Truecaser:
    """A truecaser; ``exact``: see above."""

    def __init__(self, model: str | Path, exact: bool = False):
        self.exact = exact
        self.best: dict[str, str] = {}
        self.known: set[str] = set()
        for line in read_lines(model):
            fields = line.split()  # best (count/total) other (count) ...
            self.best[fields[0].lower()] = fields[0]
            self.known.update(fields[2::2])

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Truecase each tokenised line."""
        return [self.line(line) for line in lines]

    def line(self, line: str) -> str:
        """Truecase one tokenised line."""
        words = line.split()
        if self.exact:
            return " ".join(self._first(words))
        return " ".join(
            self.best.get(word.lower(), word) if at_start or word not in self.known else word
            for word, at_start in sentence_starts(words)
        )

    def _first(self, words: list[str]) -> list[str]:
        """Return the words of a line with the first one in its best casing, if that can be undone."""
        position = first_word(words)
        if words[:1] == [LOWER]:  # part of the text, which undoing would remove
            words.insert(0, LOWER)
        elif position is not None:
            word = words[position]
            best = self.best.get(word.lower(), word)
            if capital(best) == word:
                words[position] = best
            elif capital(word) != word and LOWER in self.best:
                words.insert(0, LOWER)
        return words


def without_marks(line: str) -> str:
    """Return a tokenised line without the additions of our rules: ``LOWER``, and the signs around joints."""
    return join_joints(f" {line} ".removeprefix(f" {LOWER}")).strip()


def detruecase_line(line: str, exact: bool = False) -> str:
    """Capitalise sentence starts of a tokenised line, as Moses' detruecaser does; ``exact``: see above."""
    words = line.split()
    if not exact:
        return " ".join(capital(word) if at_start else word for word, at_start in sentence_starts(words))
    position = first_word(words)
    if words[:1] == [LOWER]:
        del words[0]
    elif position is not None:
        words[position] = capital(words[position])
    return " ".join(words)


def detruecase(lines: Sequence[str], exact: bool = False) -> list[str]:
    """Detruecase each tokenised line."""
    return [detruecase_line(line, exact) for line in lines]


def train_truecaser(corpus: str | Path, model: str | Path, workers: int = 1, exact: bool = False) -> None:
    """Train on a tokenised file (raw corpus format or plain lines) and write the model file.

    Raises UserError if the file is missing.
    """
    text = (line for line in read_lines(corpus) if not is_document_mark(line))
    counts: Counter[str] = Counter()
    for part in map_chunks(partial(count_casings, exact=exact), text, workers, label="truecaser"):
        counts.update(part)
    write_model(counts, model)
