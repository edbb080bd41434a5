"""Consistency of terms: is a source word translated alike throughout a document?

The lexical translation consistency ratio, LTCR, of Lyu et al. (2021), "Encouraging Lexical Translation Consistency for
Document-Level Neural Machine Translation": of a source word that stands k times in a document, translated as t_1 to
t_k, the share of the k (k - 1) / 2 pairs with t_i = t_j. They find translations with a word aligner. What is a term,
how its translation is found, and how words are put together is ours, so that nothing has to be trained:

* Words are runs of letters, lower-cased. A term is a source word of at least ``LETTERS`` letters in at least two
  sentences of the document, in one of the lexicon's source sentences at least and in at most ``MOST`` of them; each
  sentence that holds it is one occurrence.
* Its translation in a sentence is the word that goes with it best in the lexicon: the one of the highest Dice
  coefficient, 2 c(s, t) / (c(s) + c(t)), c counting the sentence pairs that hold s, t or both; of equal ones the one
  that is in more pairs with it, then the first in the alphabet. (Where it stands in its sentence must not matter: the
  same words in another order would be another translation.) Where none has ``LEAST``, it is not translated, and that
  agrees with nothing. (Two words of shares p and q of the sentences that have nothing to do with each other have
  2 p q / (p + q), less than 2 ``MOST``.)
* Two translations agree if they are the same word, or, for the score by stem, begin with the same ``STEM`` letters:
  languages inflect.
* The score is the mean over all terms of all documents: a word of sixty sentences counts as much as one of two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from gtransformer.evaluation.significance import DOCUMENTS, Difference, paired_test
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.plain_text import Documents

WORD = re.compile(r"[^\W\d_]+")
LETTERS, MOST = 4, 0.02  # of a term: letters at least, share of the lexicon's sentences at most
LEAST = 0.05  # Dice coefficient of a translation
STEM = 5  # letters
SCORES = ("ltcr", "ltcr_stem")
# What is counted of a document: sums of its terms' scores, terms, occurrences, and those that are translated.
COUNTS = (*SCORES, "terms", "occurrences", "translated")
Pairs = Sequence[tuple[str, str]]


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, lower-cased."""
    return WORD.findall(sentence.lower())


def repeated(document: Sequence[str]) -> dict[str, list[int]]:
    """Words that are long enough for terms and stand in several sentences of a document, with these sentences."""
    places: dict[str, list[int]] = {}
    for number, sentence in enumerate(document):
        for word in dict.fromkeys(words_of(sentence)):
            if len(word) >= LETTERS:
                places.setdefault(word, []).append(number)
    return {word: found for word, found in places.items() if len(found) > 1}


class Lexicon:
    """Which words go with which, in pairs of sentences that translate each other.

    Args:
        pairs: source and target sentences.
        source, target: the words that will be asked about; others are not counted.
        most: of source words in more than this share of the sentences nothing but that is known: they are no terms.
    """

    def __init__(self, pairs: Pairs, source: Iterable[str], target: Iterable[str], most: float = 1.0):
        source, target = frozenset(source), frozenset(target)
        self.sentences, self._target = len(pairs), Counter()
        asked = [source.intersection(words_of(one)) for one, _ in progress(pairs, "source words")]
        self._source = Counter(word for words in asked for word in words)
        rare = frozenset(word for word in source if self.is_term(word, most))
        self._both: dict[str, Counter] = {word: Counter() for word in source}
        for words, (_, other) in zip(asked, progress(pairs, "target words"), strict=True):
            theirs = target.intersection(words_of(other))
            self._target.update(theirs)
            for word in words & rare:
                self._both[word].update(theirs)

    def dice(self, source: str, target: str) -> float:
        """The Dice coefficient of two words, 0 to 1."""
        both = self._both[source][target]
        return 2 * both / (self._source[source] + self._target[target]) if both else 0.0

    def is_term(self, word: str, most: float) -> bool:
        """Whether a source word is in one sentence at least, and in no more than a share of them."""
        return 0 < self._source[word] <= most * self.sentences

    def translation(self, word: str, sentence: str) -> str | None:
        """The word of a target sentence that translates a source word; None where none does."""
        found = {other: self.dice(word, other) for other in words_of(sentence)}
        best = min(found, key=lambda other: (-found[other], -self._both[word][other], other), default=None)
        return best if best is not None and found[best] >= LEAST else None


def make_lexicon(pairs: Pairs, source: Documents, targets: Iterable[Documents], most: float = 1.0) -> Lexicon:
    """A lexicon for what may be a term of ``source``, in this share of the sentences, and its translations' words."""
    asked = {word for document in source for word in repeated(document)}
    given = {word for text in targets for document in text for sentence in document for word in words_of(sentence)}
    return Lexicon(pairs, asked, given, most)


def consistency(source: Documents, target: Documents, lexicon: Lexicon, most: float = MOST) -> np.ndarray:
    """(documents, len(COUNTS)) float64, what is counted of each document; ``target`` has the shape of ``source``."""
    rows = np.zeros((len(source), len(COUNTS)))
    for row, original, translated in zip(rows, source, target, strict=True):
        for word, places in repeated(original).items():
            if not lexicon.is_term(word, most):
                continue
            found = [lexicon.translation(word, translated[place]) for place in places]
            known = [one for one in found if one is not None]
            pairs = len(found) * (len(found) - 1) / 2
            row += (_alike(known) / pairs, _alike(one[:STEM] for one in known) / pairs, 1, len(found), len(known))
    return rows


def _alike(found: Iterable[str]) -> float:
    """How many pairs are the same."""
    return sum(count * (count - 1) / 2 for count in Counter(found).values())


def ratios(rows: np.ndarray) -> np.ndarray:
    """(..., len(SCORES)) scores of rows (..., documents, len(COUNTS)); NaN where there is no term."""
    return _shares(rows.sum(axis=-2))


def _shares(sums: np.ndarray) -> np.ndarray:
    """(..., len(SCORES)) scores of counts (..., len(COUNTS)) that are summed over documents."""
    with np.errstate(invalid="ignore"):
        return sums[..., : len(SCORES)] / sums[..., len(SCORES), None]


def differences(baseline: np.ndarray, system: np.ndarray) -> dict[str, Difference]:
    """By score of ``SCORES`` the difference of two systems in points, tested over documents that have terms.

    ``baseline`` and ``system`` as of ``consistency``, of the same documents.
    """
    with_terms = baseline[:, len(SCORES)] > 0
    found = paired_test(baseline[with_terms], system[with_terms], lambda sums: 100 * _shares(sums), DOCUMENTS)
    return dict(zip(SCORES, found, strict=True))
