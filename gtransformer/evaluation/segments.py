"""Segments of a translation and its reference, and the scores over them.

Three kinds (paper, appendix A): sentences (s-BLEU, chrF, TER, COMET), whole documents (d-BLEU) and
instances (the d-BLEU that the authors' release computed).

A translation with another number of sentences than the reference can be cut again, by minimal word
edit distance: the method of mwerSegmenter (Matusov et al. 2005). The words of a document are cut
into as many sentences as the reference has. The cuts minimise the sum of the sentences' edit
distances (insertions, deletions and substitutions of words, 1 each). That minimum is the edit
distance of the whole document, so one dynamic programme over its words finds it. Among several
optima, the one with most cuts at the translation's own boundaries is taken, then the earliest (our
choice). In languages without blanks a word is a character.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.translations import TranslatedInstance, taken_from
from gtransformer.data.unspaced import SIGNS, word_tokenizer
from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import (
    COLUMNS,
    DOCUMENTS,
    SENTENCES,
    UNSPACED,
    Score,
    SegmentStatistics,
)
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.plain_text import Documents, divided, placed, read_sentences

# How sentences are aligned if their number differs from the source's.
ORDER, MWER = ALIGNMENTS = (
    "order",
    "mwer",
)
INFINITE_COST = 1 << 60  # larger than any path's cost


def cut_points(
    words: Sequence[str], references: Sequence[Sequence[str]], own: Sequence[int] = ()
) -> list[int]:
    """Return where to cut ``words``: (sentences + 1) positions from 0 to len(words); sentence k is
    between cuts k and k + 1.

    Args:
        words: of a document's translation.
        references: the words of each sentence.
        own: positions of the translation's own sentence boundaries.

    The result is exact. Time is O(words * reference words), memory O(words * sentences).
    """
    count, least = len(words), len(words) + 1
    # One number encodes a path: edits, then cuts not at own boundaries, then the start of the
    # current sentence.
    edit = least * (len(references) + 1)
    # Comparing numbers is many times faster than comparing words.
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    given = np.array([numbers[word] for word in words], dtype=np.int64)
    positions = np.arange(least, dtype=np.int64)
    inserted = positions * edit
    strange = np.full(least, least, dtype=np.int64)
    strange[[0, count, *own]] = 0
    begins = np.empty((len(references), least), dtype=np.int32)
    path = np.full(least, INFINITE_COST, dtype=np.int64)
    path[0] = 0

    def with_insertions(path: np.ndarray) -> np.ndarray:
        """Extend paths by inserted words, which are aligned to no reference word."""
        return np.minimum.accumulate(path - inserted) + inserted

    for number, sentence in enumerate(references):
        path = with_insertions(path)
        for word in sentence:
            aligned = path[:-1] + edit * (given != numbers.get(word, -1))
            path += edit
            path[1:] = np.minimum(path[1:], aligned)
            path = with_insertions(path)
        begins[number] = path % least
        path = path - begins[number] + strange + positions
    cuts = [count]
    for row in begins[::-1]:
        cuts.append(int(row[cuts[-1]]))
    return cuts[::-1]


def realign(
    sentences: Sequence[str], references: Sequence[str], tokenizer: str = "13a"
) -> list[str]:
    """Return the text of ``sentences`` cut into ``len(references)`` sentences; some may be empty,
    no word is lost.

    Words are separated by white space; with sacrebleu's tokenisers for languages without it, each
    character of their scripts is one, and Latin words and numbers stay whole.
    """
    # Cutting needs words only to measure edits, so no tokeniser of sacrebleu is asked.
    word = re.compile(rf"[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s]" if tokenizer in UNSPACED else r"\S+")
    text = " ".join(sentences)
    spans = [match.span() for match in word.finditer(text)]
    own = list(accumulate(len(word.findall(sentence)) for sentence in sentences))
    cuts = cut_points(
        word.findall(text), [word.findall(reference) for reference in references], own
    )
    return [
        text[spans[first][0] : spans[last - 1][1]] if last > first else ""
        for first, last in pairwise(cuts)
    ]


def read_any_number(path: str | Path, shape: list[int], like: Path) -> Documents:
    """Return documents of plain text that may have other numbers of sentences than ``shape``, those
    of a reference.

    Documents start with ``<d>`` or are separated by blank lines. Without these, the file has as
    many lines as the reference. Raises UserError otherwise. ``like``: the reference's file.
    """
    lines = read_sentences(path)  # once: it may be a pipe
    if len(lines) == sum(shape) and None not in lines:
        return placed(path, lines, shape, like)
    documents, _ = divided(path, lines)
    if len(documents) != len(shape):
        raise UserError(
            f"{path}: {len(documents)} document(s), but {like} has {len(shape)}; sentences can be "
            "aligned within documents only, so open each by a line <d>"
        )
    return documents


class Pairs(NamedTuple):
    """Translated segments and their references, equally many."""

    hypotheses: list[str]
    references: list[str]


@dataclass(frozen=True)
class Segments:
    """One translation against a reference at every level.

    Attributes:
        sentences, documents, instances: segments, named as ``SENTENCES``, ``DOCUMENTS``,
        ``INSTANCES``.
        instances: None for plain text, and if instances overlap.
        positions: (document, position in it) of each sentence segment; documents count from 0,
            positions from 1.
        text: the whole translation, with an empty string for a sentence that is in no instance.
        tokenizer: sacrebleu's, for BLEU.
        realigned: the levels whose segments may have been cut again (``realignment``).
        misaligned: instances, of plain text documents, with another number of sentences than their
            source.
    """

    sentences: Pairs
    documents: Pairs
    instances: Pairs | None
    positions: list[tuple[int, int]]
    text: Documents
    tokenizer: str
    realigned: tuple[str, ...] = ()
    misaligned: int = 0
    _statistics: dict = field(default_factory=dict, repr=False)

    def signed(self, signature: str, level: str) -> str:
        """Return the signature of a score over ``level``; it states whether segments may have been
        cut again.
        """
        return f"{signature}|align:{MWER}" if level in self.realigned else signature

    def statistics(self, metric: str, level: str) -> SegmentStatistics:
        """Return the counts of ``metric`` over ``level``, cached, as TER takes half a minute on a
        test set.
        """
        if (metric, level) not in self._statistics:
            self._statistics[metric, level] = SegmentStatistics(
                metric, *getattr(self, level), self.tokenizer
            )
        return self._statistics[metric, level]

    def scores(self, metrics: Sequence[str]) -> dict[str, Score]:
        """Return the scores of these metrics, in table order; over instances only if there are
        any.
        """
        scores = {}
        for key, column in COLUMNS.items():
            if column.metric in metrics and getattr(self, column.level) is not None:
                score = self.statistics(column.metric, column.level).whole()
                scores[key] = replace(score, signature=self.signed(score.signature, column.level))
        return scores


def sentence_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return every sentence (s-BLEU)."""
    return [sentence for document in documents for sentence in document]


def document_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return the sentences of each document joined by a space (d-BLEU), so that n-grams match
    anywhere in it.

    Empty sentences leave no trace in the segment.
    """
    return [" ".join(sentence for sentence in document if sentence) for document in documents]


def segments_of_text(
    hypothesis: Documents,
    reference: Documents,
    tokenizer: str,
    left_out: Collection[tuple[int, int]] = (),
    alignment: str = ORDER,
) -> Segments:
    """Return segments of plain text, given as documents of sentences: as many as the reference has
    or, with ``MWER``, any number.

    ``left_out``: document and position, from 0, of sentences that are not scored. d-BLEU then reads
    the aligned ones.
    """
    pairs = enumerate(zip(hypothesis, reference, strict=True))
    documents = [TranslatedInstance(number, 0, len(like), own) for number, (own, like) in pairs]
    instance_index = InstanceIndex("", "", "", len(reference), dropped=list(left_out))
    segments = segments_of_translations(
        documents, instance_index, reference, hypothesis, tokenizer, alignment
    )
    return replace(segments, instances=None)


def segments_of_translations(
    translations: Sequence[TranslatedInstance],
    instance_index: InstanceIndex,
    reference: Documents,
    finished: Sequence[list[str]],
    tokenizer: str,
    alignment: str = ORDER,
) -> Segments:
    """Return segments of a system's instances; ``finished[i]`` has the sentences of instance i as
    text.

    If an instance's number of sentences differs from its source's, they are aligned by order or,
    with ``MWER``, its whole document is cut again (not of instances that overlap). Segments of
    documents and instances have the sentences as generated.

    If instances overlap, each sentence is from the instance in which it is current, and there are
    no segments by instance. Documents have the aligned sentences, too, as only these are known to
    be current.
    """
    reference, finished = _in_one_form(reference), _in_one_form(finished)
    overlapping = not all(translation.whole for translation in translations)
    current = [
        translation.taken(translation.aligned(text))
        for translation, text in zip(translations, finished, strict=True)
    ]
    # The aligned sentences in their documents; None for a sentence that is in no instance.
    placed = join(taken_from(translations, instance_index), current)
    generated: Documents = [[] for _ in reference]
    # Surplus sentences belong to the document, too; d-BLEU counts them.
    texts = zip(translations, current if overlapping else finished, strict=True)
    for translation, text in sorted(texts, key=lambda pair: pair[0].span):
        generated[translation.document] += text
    realigned: tuple[str, ...] = ()
    if alignment == MWER:
        realigned = (SENTENCES,)
        # Documents with the right number of sentences keep their own.
        for document in {one.document for one in translations if one.misaligned}:
            _cut_again(placed[document], generated[document], reference[document], tokenizer)
    left_out = [
        (document, at)
        for document, at in instance_index.dropped
        if placed[document][at] is not None
    ]
    for document, at in left_out:
        placed[document][at] = None
    scored = [
        [at for at, sentence in enumerate(document) if sentence is not None] for document in placed
    ]
    sides = [
        [[document[at] for at in places] for document, places in zip(side, scored, strict=True)]
        for side in (placed, reference)
    ]
    whole = [generated, sides[1]]
    if left_out:
        # d-BLEU has to leave out the same sentences, so it reads them as they were aligned.
        whole = sides
        realigned = realigned and (SENTENCES, DOCUMENTS)
    # A document all of whose sentences were dropped would be an empty segment.
    filled = [number for number, places in enumerate(scored) if places]
    instances = None
    if not overlapping:
        spans = (translation.span for translation in translations)
        parts = [reference[document][at : at + count] for document, at, count in spans]
        instances = Pairs(document_segments(finished), document_segments(parts))
    return Segments(
        sentences=Pairs(*map(sentence_segments, sides)),
        documents=Pairs(*(document_segments([side[n] for n in filled]) for side in whole)),
        instances=instances,
        positions=[(number, at + 1) for number, places in enumerate(scored) for at in places],
        text=[[sentence or "" for sentence in document] for document in placed],
        tokenizer=tokenizer,
        realigned=realigned,
        misaligned=sum(translation.misaligned for translation in translations),
    )


def _cut_again(
    placed: list[str | None], produced: list[str], reference: list[str], tokenizer: str
) -> None:
    """Replace the sentences of a document by those of its text, cut where words differ least from
    the reference.
    """
    there = [at for at, sentence in enumerate(placed) if sentence is not None]
    cut = realign(produced, [reference[at] for at in there], word_tokenizer(tokenizer, reference))
    for at, sentence in zip(there, cut, strict=True):
        placed[at] = sentence


def _in_one_form(documents: Sequence[Sequence[str]]) -> Documents:
    """Return the text in the Unicode normal form of a prepared corpus, for translation and
    reference alike.
    """
    return [[one_form(sentence) for sentence in document] for document in documents]
