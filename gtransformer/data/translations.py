"""Reading translations (``PREFIX.jsonl``) and putting them back into their documents.

One line is one instance. Of instances that were formed when the corpus was loaded (``--instances``)
each lists its ``current`` sentences. Every sentence of the prepared split must be taken from one
instance, or nothing is scored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.files import read_lines

Sentence = TypeVar("Sentence")
TRANSLATED = "give the split and the prepared corpus that were translated"


@dataclass(frozen=True)
class TranslatedInstance:
    """The best translation of one instance: its position and its sentences (BPE, without boundary
    tokens).

    ``current``: (first sentence, sentences) of the document, those that are taken from here; None:
    all of them.
    """

    document: int
    first_sentence: int
    sentences: int
    hypothesis: list[str]
    current: tuple[int, int] | None = None

    @property
    def misaligned(self) -> bool:
        """Whether the translation has another number of sentences than it should."""
        return len(self.hypothesis) != self.sentences

    @property
    def span(self) -> tuple[int, int, int]:
        """(document, first sentence, sentences) of what is taken from here, as in an instance
        index.
        """
        return self.document, *(self.current or (self.first_sentence, self.sentences))

    @property
    def whole(self) -> bool:
        """Whether all sentences are taken from here."""
        return self.span == (self.document, self.first_sentence, self.sentences)

    def aligned(self, text: Sequence[str]) -> list[str]:
        """Return its sentences (``text``: as many as were produced) as exactly as many as it should
        have, by order.

        If context precedes the sentences that are taken from here, they are counted from the end.
        """
        _, first, count = self.span
        # In sliding instances the current sentence is the last one. A surplus sentence in the
        # context must not move it.
        ends = first + count == self.first_sentence + self.sentences
        return align_sentences(text, self.sentences, from_end=ends and not self.whole)

    def taken(self, sentences: Sequence[Sentence]) -> Sequence[Sentence]:
        """Return the items of the sentences that are taken from here; ``sentences`` has one for
        each sentence.
        """
        _, first, count = self.span
        return sentences[first - self.first_sentence : first - self.first_sentence + count]


def taken_from(
    translations: Sequence[TranslatedInstance], instance_index: InstanceIndex
) -> InstanceIndex:
    """Return the index of the sentences that are taken from each translation; they tile the
    documents.
    """
    return replace(instance_index, instances=[translation.span for translation in translations])


def align_sentences(hypothesis: Sequence[str], count: int, from_end: bool = False) -> list[str]:
    """Make exactly ``count`` sentences of a translation: missing ones are empty, surplus ones are
    joined to the last.

    With ``from_end`` sentences are counted from the end: missing ones are the first, and surplus
    ones are joined to the first. Only a plain Transformer over the document needs this: nothing
    ties its sentences to those of the source. For ``count`` 0 the result is empty.
    """
    missing, surplus = [""] * (count - len(hypothesis)), max(len(hypothesis) - count, 0)
    if count == 0 or not surplus:
        return [*missing, *hypothesis][:count] if from_end else [*hypothesis, *missing][:count]
    if from_end:
        return [" ".join(hypothesis[: surplus + 1]), *hypothesis[surplus + 1 :]]
    return [*hypothesis[: count - 1], " ".join(hypothesis[count - 1 :])]


def split_sentences(tokens: list[int], dictionary: Vocabulary, skip: Container[int]) -> list[str]:
    """Return the sentences of a generated document, without ``<s>``, ``</s>`` and the symbols in
    ``skip``.

    A sentence ends at ``</s>``; words after the last one form a sentence, too.
    """
    sentences: list[str] = []
    words: list[str] = []
    for token in tokens:
        if token == dictionary.eos():
            sentences.append(" ".join(words))
            words = []
        elif token != dictionary.bos() and token not in skip:
            words.append(dictionary[token])
    if words:
        sentences.append(" ".join(words))
    return sentences


def read_translations(path: str | Path, instance_index: InstanceIndex) -> list[TranslatedInstance]:
    """Read the best translation of every instance, in instance order (the file's order does not
    matter).

    Raises UserError for a line that is no instance's translation, and unless every sentence of the
    index is taken from exactly one instance.
    """
    numbered: list[tuple[int, TranslatedInstance]] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            entry = json.loads(line)
            # A line break or tab inside a sentence would shift all later lines of the plain-text
            # file.
            sentences = [
                " ".join(sentence.split()) for sentence in entry["hypotheses"][0]["sentences"]
            ]
            span = entry["document"], entry["first_sentence"], entry["sentences"]
            current = tuple(entry["current"]) if entry.get("current") else None
            numbered.append((int(entry["id"]), TranslatedInstance(*span, sentences, current)))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UserError(
                f"{path}, line {number}: not an instance as --gen-output writes it; of "
                "gtransformer translate --format json give the text (jq -r .translation)"
            ) from None
    translations = [translation for _, translation in sorted(numbered, key=itemgetter(0))]
    # Every sentence once: overlapping or missing ones would change the score without a sign.
    taken = Counter(_sentences(translation.span for translation in translations))
    expected = Counter(_sentences(instance_index.instances))
    different = min((taken - expected) + (expected - taken), default=None)
    if different is not None:
        raise UserError(
            f"{path}: sentence {different[1]} of document {different[0]} (from 0) is taken from "
            f"{taken[different]} instances; {TRANSLATED}"
        )
    return translations


def read_documents(path: str | Path, instance_index: InstanceIndex) -> list[list[str | None]]:
    """Read the best translation of every sentence, as documents of sentences in BPE; None for one
    in no instance.

    If instances overlap, the instance in which a sentence is current is used. If one has too many
    or too few sentences, they are assigned by order. Raises UserError as ``read_translations``.
    """
    translations = read_translations(path, instance_index)
    sentences = [instance.taken(instance.aligned(instance.hypothesis)) for instance in translations]
    return join(taken_from(translations, instance_index), sentences)


def _sentences(spans: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Iterate over document and sentence of all sentences in (document, first sentence,
    sentences).
    """
    for document, first, count in spans:
        yield from ((document, first + number) for number in range(count))
