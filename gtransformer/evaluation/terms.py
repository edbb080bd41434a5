"""Consistency of terms: is a source word translated alike throughout a document?

The lexical translation consistency ratio (LTCR) is from Lyu et al. (2021), "Encouraging Lexical Translation Consistency
for Document-Level Neural Machine Translation". A source word that occurs k times in a document is translated as t_1 to
t_k. LTCR is the share of the k (k - 1) / 2 pairs with t_i = t_j. The authors find translations with a word aligner. The
following definitions are our choice and need no training:

* Words are runs of letters, lower-cased. A term is a source word of at least ``MIN_LETTERS`` letters in at least two
  sentences of the document. It is in at least one of the lexicon's source sentences, and in at most a share
  ``MAX_SHARE`` of them. Each sentence that contains it is one occurrence.
* Its translation in a sentence is the word with the highest Dice coefficient in the lexicon, 2 c(s, t) / (c(s) + c(t)),
  where c counts the sentence pairs with s, t or both. Ties: the word in more pairs with s, then alphabetical order.
  (Word order does not matter, so the same words in another order are the same translation.) If no word reaches
  ``MIN_DICE``, the term is not translated, which agrees with nothing. (Two independent words in shares p and q of the
  sentences have 2 p q / (p + q), less than 2 ``MAX_SHARE``.)
* Two translations agree if they are the same word. For the score by stem, they agree if they begin with the same
  ``STEM_LETTERS`` letters, as languages inflect.
* The score is the mean over all terms of all documents: a word in sixty sentences counts as much as a word in two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import regex

from gtransformer.data.unspaced import separates_words
from gtransformer.errors import UserError
from gtransformer.evaluation.score import read_aligned
from gtransformer.evaluation.significance import DOCUMENTS, SIDES, Difference, paired_test
from gtransformer.evaluation.text_table import align, difference_cell
from gtransformer.files import sha256
from gtransformer.preprocess.corpus import NONE
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.plain_text import Documents

WORD = regex.compile(r"[^\W\d_]+")  # letters and the signs on them, which re takes for borders of words
MIN_LETTERS, MAX_SHARE = 4, 0.02  # of a term: least letters, largest share of the lexicon's sentences
MIN_DICE = 0.05  # Dice coefficient of a translation
STEM_LETTERS = 5  # letters
SCORES = {"ltcr": "LTCR", "ltcr_stem": "LTCR by stem"}
# Counts of a document: sums of its terms' scores, terms, occurrences, and translated occurrences.
COUNTS = (*SCORES, "terms", "occurrences", "translated")
Pairs = Sequence[tuple[str, str]]
REFERENCE = "reference"  # as a system in the results


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence, lower-cased."""
    return WORD.findall(sentence.lower())


def repeated(document: Sequence[str]) -> dict[str, list[int]]:
    """Return words that are long enough for terms and in several sentences of a document, with these sentences."""
    positions: dict[str, list[int]] = {}
    for number, sentence in enumerate(document):
        for word in dict.fromkeys(words_of(sentence)):
            if len(word) >= MIN_LETTERS:
                positions.setdefault(word, []).append(number)
    return {word: found for word, found in positions.items() if len(found) > 1}


class Lexicon:
    """Co-occurrence counts of words in parallel sentences.

    Args:
        pairs: source and target sentences.
        documents: documents whose terms are looked up in ``targets``; other words are not counted.
        most: source words in more than this share of the sentences are not terms, so their pairs are not counted.
    """

    def __init__(self, pairs: Pairs, documents: Documents, targets: Iterable[Documents], most: float = MAX_SHARE):
        source = frozenset(word for document in documents for word in repeated(document))
        sentences = (sentence for text in targets for document in text for sentence in document)
        target = frozenset(word for sentence in sentences for word in words_of(sentence))
        self.sentences, self.most, self._target = len(pairs), most, Counter()
        per_pair = [source.intersection(words_of(one)) for one, _ in progress(pairs, "source words")]
        self._source = Counter(word for words in per_pair for word in words)
        rare = frozenset(word for word in source if self.is_term(word))
        self._both: dict[str, Counter] = {word: Counter() for word in source}
        for words, (_, other) in zip(per_pair, progress(pairs, "target words"), strict=True):
            theirs = target.intersection(words_of(other))
            self._target.update(theirs)
            for word in words & rare:
                self._both[word].update(theirs)

    def dice(self, source: str, target: str) -> float:
        """Return the Dice coefficient of two words, 0 to 1."""
        both = self._both[source][target]
        return 2 * both / (self._source[source] + self._target[target]) if both else 0.0

    def is_term(self, word: str) -> bool:
        """Return whether a source word is in at least one sentence, and in at most a share ``most`` of them."""
        return 0 < self._source[word] <= self.most * self.sentences

    def translation(self, word: str, sentence: str) -> str | None:
        """Return the word of a target sentence that translates a source word, or None."""
        found = {other: self.dice(word, other) for other in words_of(sentence)}
        best = min(found, key=lambda other: (-found[other], -self._both[word][other], other), default=None)
        return best if best is not None and found[best] >= MIN_DICE else None


def consistency(source: Documents, target: Documents, lexicon: Lexicon) -> np.ndarray:
    """Return (documents, len(COUNTS)) float64 counts of each document; ``target`` has the shape of ``source``."""
    rows = np.zeros((len(source), len(COUNTS)))
    for row, original, translated in zip(rows, source, target, strict=True):
        for word, positions in repeated(original).items():
            if not lexicon.is_term(word):
                continue
            found = [lexicon.translation(word, translated[position]) for position in positions]
            known = [one for one in found if one is not None]
            pairs = len(found) * (len(found) - 1) / 2
            row += (
                _alike(known) / pairs,
                _alike(one[:STEM_LETTERS] for one in known) / pairs,
                1,
                len(found),
                len(known),
            )
    return rows


def _alike(found: Iterable[str]) -> float:
    """Return the number of equal pairs."""
    return sum(count * (count - 1) / 2 for count in Counter(found).values())


def ratios(sums: np.ndarray) -> np.ndarray:
    """Return (..., len(SCORES)) scores from counts (..., len(COUNTS)) summed over documents; NaN without terms."""
    with np.errstate(invalid="ignore"):
        return sums[..., : len(SCORES)] / sums[..., len(SCORES), None]


def differences(baseline: np.ndarray, system: np.ndarray) -> dict[str, Difference]:
    """Return for each of ``SCORES`` the difference of two systems in points, tested over documents with terms.

    ``baseline`` and ``system`` are results of ``consistency`` for the same documents.
    """
    with_terms = baseline[:, len(SCORES)] > 0
    found = paired_test(baseline[with_terms], system[with_terms], lambda sums: 100 * ratios(sums), DOCUMENTS)
    return dict(zip(SCORES, found, strict=True))


def score_files(
    source: Path,
    reference: Path,
    systems: Mapping[str, Path],
    training: tuple[Path, Path] | None,
    most: float = MAX_SHARE,
) -> dict[str, Any]:
    """Return the consistency of terms in all systems' files and in the reference, as a JSON object.

    The lexicon is built only from ``training``, source and target text. With the test set in it, a rare term's best
    translation would be the reference's, and a system that consistently differs would have none. Without ``training``,
    the lexicon is built from source and reference. Every system but the first is tested against the first.

    Raises UserError for files that are not plain text or not aligned, for text without terms, and for a system called
    ``REFERENCE``.
    """
    if REFERENCE in systems:
        raise UserError(f"a system is called {REFERENCE!r}, as the reference is; name it: --hypotheses NAME=FILE")
    original, borders, (wanted, *texts) = read_aligned(source, [reference, *systems.values()])
    if borders == NONE:
        raise UserError(
            f"{source}: terms are compared within documents; put a line <d> before each, or blank lines between them"
        )
    for path, text in ((source, original), (reference, wanted)):
        if not separates_words(chain.from_iterable(text)):
            raise UserError(f"{path}: terms are words, which blanks must separate; segment the text first")
    sides = original, wanted
    if training is not None:
        ours, _, theirs = read_aligned(training[0], training[1:])
        sides = ours, *theirs
    pairs = [pair for documents in zip(*sides, strict=True) for pair in zip(*documents, strict=True)]
    lexicon = Lexicon(pairs, original, [wanted, *texts], most)
    all_texts = zip([*systems, REFERENCE], [*texts, wanted], strict=True)
    rows = {name: consistency(original, text, lexicon) for name, text in all_texts}
    sums = {name: found.sum(axis=0) for name, found in rows.items()}
    if not sums[REFERENCE][COUNTS.index("terms")]:
        raise UserError(
            f"{source}: no document has a term (a rare word in several sentences of the document); give "
            "longer documents, more text with --training, or a larger --max-share"
        )
    scores = {  # in per cent, and what was counted
        name: dict(zip(COUNTS, [*(100 * ratios(one)).tolist(), *map(int, one[len(SCORES) :])], strict=True))
        for name, one in sums.items()
    }
    first, *others = systems
    return {
        "version": 3,
        "lexicon_sentences": lexicon.sentences,
        "max_share": most,
        "documents": len(original),
        "borders": borders,
        "sha256": {str(path): sha256(path) for path in (source, reference, *systems.values(), *(training or ()))},
        "systems": {name: scores[name] for name in systems},
        REFERENCE: scores[REFERENCE],
        "significance": {
            name: {key: found.to_json() for key, found in differences(rows[first], rows[name]).items()}
            for name in others
        },
    }


def table(systems: Mapping[str, Mapping], significance: Mapping[str, Mapping]) -> str:
    """Return a table with a row per system, in per cent, with the tests against the first."""
    tested = [f"p {SIDES}, documents exchanged"] if significance else []
    rows = [["system", *(part for title in SCORES.values() for part in (title, *tested)), *COUNTS[len(SCORES) :]]]
    for name, one in systems.items():
        tests, cells = significance.get(name, {}), []
        for key in SCORES:
            cells += [f"{one[key]:.2f}", *(difference_cell(tests[key]) if key in tests else "-" for _ in tested)]
        rows.append([name, *cells, *(str(one[key]) for key in COUNTS[len(SCORES) :])])
    return align(rows)
