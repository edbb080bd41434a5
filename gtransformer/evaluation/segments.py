"""Segments of a translation and its references, and the scores over them.

Three kinds (paper, appendix A): sentences (s-BLEU, chrF, TER, COMET), whole documents (d-BLEU) and instances (the
d-BLEU that the authors' release computed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.translations import TranslatedInstance, taken_from
from gtransformer.data.unspaced import word_tokenizer
from gtransformer.evaluation.metrics import COLUMNS, DOCUMENTS, INSTANCES, SENTENCES, Score, SegmentStatistics
from gtransformer.evaluation.realignment import MWER, ORDER, realign
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.plain_text import Documents


@dataclass(frozen=True)
class Pairs:
    """Translated segments and their references, equally many; ``more``: further references of all segments."""

    hypotheses: list[str]
    references: list[str]
    more: tuple[list[str], ...] = ()


@dataclass(frozen=True)
class Segments:
    """One translation against one or several references at every level.

    Attributes:
        instances: None without an instance index, and if instances overlap.
        positions: (document, position in it) of each sentence segment; documents count from 0, positions from 1.
        text: the whole translation, with an empty string for a sentence that is in no instance.
        tokenizer: sacrebleu's, for BLEU.
        realigned: the levels whose segments may have been cut again (``realignment``).
    """

    sentences: Pairs
    documents: Pairs
    instances: Pairs | None
    positions: list[tuple[int, int]]
    text: Documents
    tokenizer: str
    realigned: tuple[str, ...] = ()
    _statistics: dict = field(default_factory=dict, repr=False, compare=False)

    def pairs(self, level: str) -> Pairs | None:
        """Return the segments of ``SENTENCES``, ``DOCUMENTS`` or ``INSTANCES``."""
        return getattr(self, level)

    def signed(self, signature: str, level: str) -> str:
        """Return the signature of a score over ``level``; it states whether segments may have been cut again."""
        return f"{signature}|align:{MWER}" if level in self.realigned else signature

    def statistics(self, metric: str, level: str) -> SegmentStatistics:
        """Return the counts of ``metric`` over ``level``, cached, as TER takes half a minute on a test set."""
        if (metric, level) not in self._statistics:
            pairs = self.pairs(level)
            made = SegmentStatistics(metric, pairs.hypotheses, pairs.references, self.tokenizer, pairs.more)
            self._statistics[metric, level] = made
        return self._statistics[metric, level]

    def scores(self, metrics: Sequence[str]) -> dict[str, Score]:
        """Return the scores of these metrics, in table order; over instances only if there are any."""
        found = {}
        for key, column in COLUMNS.items():
            if column.metric in metrics and self.pairs(column.level) is not None:
                score = self.statistics(column.metric, column.level).whole()
                found[key] = replace(score, signature=self.signed(score.signature, column.level))
        return found


def sentence_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return every sentence (s-BLEU)."""
    return [sentence for document in documents for sentence in document]


def document_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return the sentences of each document joined by a space (d-BLEU), so that n-grams match anywhere in it.

    Empty sentences leave no trace in the segment.
    """
    return [" ".join(sentence for sentence in document if sentence) for document in documents]


def segments_of_translations(
    translations: Sequence[TranslatedInstance],
    instance_index: InstanceIndex,
    reference: Documents,
    finished: Sequence[list[str]],
    tokenizer: str,
    alignment: str = ORDER,
    more: Sequence[Documents] = (),
) -> Segments:
    """Return segments of a system's instances; ``finished[i]`` has the sentences of instance i as text.

    If an instance's number of sentences differs from its source's, they are aligned by order or, with ``MWER``, its
    whole document is cut again. Segments of documents and instances have the sentences as generated.

    If instances overlap, each sentence is from the instance in which it is current. The instance is cut again instead
    of the document, and there are no segments by instance. Documents have the aligned sentences, too, as only these are
    known to be context or current. ``more``: further references, in the shape of the first.
    """
    texts = [_in_one_form(one) for one in (reference, *more)]
    reference, finished = texts[0], _in_one_form(finished)
    words = word_tokenizer(tokenizer, chain.from_iterable(reference))
    overlapping = {translation.document for translation in translations if not translation.whole}
    taken = []
    for translation, text in zip(translations, finished, strict=True):
        if alignment == MWER and translation.misaligned and translation.document in overlapping:
            first = translation.first_sentence
            wanted = reference[translation.document][first : first + translation.sentences]
            aligned = realign(text, wanted, words)
        else:
            aligned = translation.aligned(text)
        taken.append(translation.taken(aligned))
    # The aligned sentences in their documents; None for a sentence that is in no instance.
    placed = join(taken_from(translations, instance_index), taken)
    produced = _as_produced(translations, finished, taken, len(reference))
    if alignment == MWER:
        for number in {one.document for one in translations if one.misaligned} - overlapping:
            _cut_again(placed[number], produced[number], reference[number], words)
    hypothesis = [[sentence for sentence in document if sentence is not None] for document in placed]
    wanted = [_where_translated(text, placed) for text in texts]
    filled = [number for number, document in enumerate(hypothesis) if document]
    levels = (SENTENCES, DOCUMENTS) if overlapping else (SENTENCES,)
    return Segments(
        sentences=_pairs(sentence_segments(hypothesis), list(map(sentence_segments, wanted))),
        documents=_pairs(
            document_segments([produced[number] for number in filled]),
            [document_segments([one[number] for number in filled]) for one in wanted],
        ),
        instances=None if overlapping else _of_instances(translations, finished, texts),
        positions=[
            (number, position)
            for number, document in enumerate(placed)
            for position, sentence in enumerate(document, 1)
            if sentence is not None
        ],
        text=[[sentence or "" for sentence in document] for document in placed],
        tokenizer=tokenizer,
        realigned=levels if alignment == MWER else (),
    )


def _as_produced(
    translations: Sequence[TranslatedInstance],
    finished: Sequence[list[str]],
    taken: Sequence[Sequence[str]],
    documents: int,
) -> Documents:
    """Return each document's sentences as generated; where instances overlap, those that are taken from each."""
    parts: list[list[tuple[int, Sequence[str]]]] = [[] for _ in range(documents)]
    for translation, text, part in zip(translations, finished, taken, strict=True):
        document, first, _ = translation.span
        parts[document].append((first, text if translation.whole else part))
    ordered = [sorted(one, key=lambda part: part[0]) for one in parts]
    return [[sentence for _, text in one for sentence in text] for one in ordered]


def _cut_again(placed: list[str | None], produced: list[str], reference: list[str], words: str) -> None:
    """Replace the sentences of a document by those of its text, cut where words differ least from the reference."""
    there = [position for position, sentence in enumerate(placed) if sentence is not None]
    cut = realign(produced, [reference[position] for position in there], words)
    for position, sentence in zip(there, cut, strict=True):
        placed[position] = sentence


def _where_translated(text: Documents, placed: Sequence[Sequence[str | None]]) -> Documents:
    """Return the sentences of a reference that have a translation."""
    return [
        [sentence for sentence, translated in zip(document, own, strict=True) if translated is not None]
        for document, own in zip(text, placed, strict=True)
    ]


def _of_instances(
    translations: Sequence[TranslatedInstance], finished: Sequence[list[str]], texts: Sequence[Documents]
) -> Pairs:
    """Return the segments by instance; ``texts``: the references."""
    spans = [translation.span for translation in translations]
    references = [
        document_segments([text[document][first : first + count] for document, first, count in spans]) for text in texts
    ]
    return _pairs(document_segments(finished), references)


def segments_of_text(
    hypothesis: Documents,
    reference: Documents,
    tokenizer: str,
    instance_index: InstanceIndex | None = None,
    whole: Documents | None = None,
    more: Sequence[Documents] = (),
) -> Segments:
    """Return segments of plain text, given as documents of sentences in the shape of the reference.

    With ``instance_index``, its instances are used and its dropped sentences left out, as for the package's own
    translations. Without it, each document is one instance. ``whole``: the documents before they were cut again, whose
    text d-BLEU reads. ``more``: further references, in the shape of the first.
    """
    spans = [(number, 0, len(document)) for number, document in enumerate(reference)]
    index = instance_index or InstanceIndex("", "", "", len(reference), spans)
    translations = [
        TranslatedInstance(d, first, n, hypothesis[d][first : first + n]) for d, first, n in index.instances
    ]
    texts = [translation.hypothesis for translation in translations]
    found = segments_of_translations(translations, index, reference, texts, tokenizer, more=more)
    if instance_index is None:
        found = replace(found, instances=None)
    if whole is None:
        return found
    # Instances are parts of resegmented documents, and so are documents with dropped sentences.
    if index.dropped:
        return replace(found, realigned=(SENTENCES, INSTANCES, DOCUMENTS))
    documents = replace(found.documents, hypotheses=document_segments(_in_one_form(whole)))
    return replace(found, documents=documents, realigned=(SENTENCES, INSTANCES))


def _pairs(hypotheses: list[str], references: list[list[str]]) -> Pairs:
    """Return segments with one or several references."""
    return Pairs(hypotheses, references[0], tuple(references[1:]))


def _in_one_form(documents: Sequence[Sequence[str]]) -> Documents:
    """Return the text in the Unicode normal form of a prepared corpus, for translation and reference alike."""
    return [[one_form(sentence) for sentence in document] for document in documents]
