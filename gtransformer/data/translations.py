"""Reading translations (``PREFIX.jsonl``) and putting them back into their documents.

One line is one instance. For stored instances, the instance index of the prepared corpus gives the sentences and
document of each. Every instance must occur exactly once and agree with the index, or nothing is scored. For instances
that were formed when the corpus was loaded (``--instances``), each line lists its ``current`` sentences. Every sentence
of the split must be current once, or nothing is scored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.files import NO_JSON, read_lines

Sentence = TypeVar("Sentence")
TRANSLATED = "give the split and the prepared corpus that were translated"
AGAIN = "write the translations again"


@dataclass(frozen=True)
class TranslatedInstance:
    """The best translation of one instance: its position and its sentences (BPE, without boundary tokens).

    ``current``: (first sentence, sentences) of the document, those that are taken from here; None: all of them.
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
        """(document, first sentence, sentences) of what is taken from here, as in an instance index."""
        return self.document, *(self.current or (self.first_sentence, self.sentences))

    @property
    def whole(self) -> bool:
        """Whether all sentences are taken from here."""
        return self.span == (self.document, self.first_sentence, self.sentences)

    def aligned(self, text: Sequence[str]) -> list[str]:
        """Return its sentences (``text``: as many as were produced) as exactly as many as it should have, by order.

        If context precedes the sentences that are taken from here, they are counted from the end.
        """
        _, first, count = self.span
        ends = first + count == self.first_sentence + self.sentences
        return align_sentences(text, self.sentences, from_end=ends and not self.whole)

    def taken(self, sentences: Sequence[Sentence]) -> Sequence[Sentence]:
        """Return the items of the sentences that are taken from here; ``sentences`` has one for each sentence."""
        _, first, count = self.span
        return sentences[first - self.first_sentence : first - self.first_sentence + count]


def taken_from(translations: Sequence[TranslatedInstance], instance_index: InstanceIndex) -> InstanceIndex:
    """Return the index of the sentences that are taken from each translation; they tile the documents."""
    return replace(instance_index, instances=[translation.span for translation in translations])


def align_sentences(hypothesis: Sequence[str], count: int, from_end: bool = False) -> list[str]:
    """Make exactly ``count`` sentences of a translation: missing ones are empty, surplus ones are joined to the last.

    With ``from_end`` sentences are counted from the end: missing ones are the first, and surplus ones are joined to the
    first. Only a plain Transformer over the document needs this: nothing ties its sentences to those of the source. For
    ``count`` 0 the result is empty.
    """
    missing, surplus = [""] * (count - len(hypothesis)), max(len(hypothesis) - count, 0)
    if count == 0 or not surplus:
        return [*missing, *hypothesis][:count] if from_end else [*hypothesis, *missing][:count]
    if from_end:
        return [" ".join(hypothesis[: surplus + 1]), *hypothesis[surplus + 1 :]]
    return [*hypothesis[: count - 1], " ".join(hypothesis[count - 1 :])]


def read_translations(path: str | Path, instance_index: InstanceIndex) -> list[TranslatedInstance]:
    """Read the best translation of every instance, in instance order (the file's order does not matter).

    Raises UserError, with file and line, for a line that is no such JSON object, a repeated id, and a position that is
    not in the instance index; with the missing ids if the split is not complete.
    """
    found: dict[int, tuple[str, TranslatedInstance]] = {}  # by id, with its line
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        identity, translation = _parse(line, where)
        if identity in found:
            raise UserError(f"{where}: instance {identity} occurs twice; remove one of them")
        found[identity] = where, translation
    found = dict(sorted(found.items()))
    check = _check_regrouped if any(one.current for _, one in found.values()) else _check_stored
    check(path, found, instance_index)
    return [translation for _, translation in found.values()]


def read_documents(path: str | Path, instance_index: InstanceIndex) -> list[list[str | None]]:
    """Read the best translation of every sentence, as documents of sentences in BPE; None for one in no instance.

    If instances overlap, the instance in which a sentence is current is used. If one has too many or too few sentences,
    they are assigned by order. Raises UserError as ``read_translations``.
    """
    found = read_translations(path, instance_index)
    return join(taken_from(found, instance_index), [one.taken(one.aligned(one.hypothesis)) for one in found])


def _check_stored(
    path: str | Path, found: dict[int, tuple[str, TranslatedInstance]], instance_index: InstanceIndex
) -> None:
    """Raise UserError unless these are the instances of the index."""
    expected = dict(enumerate(map(tuple, instance_index.instances)))
    for identity, (where, translation) in found.items():
        if translation.span != expected.get(identity):
            raise UserError(
                f"{where}: instance {identity} has (document, first_sentence, sentences) {translation.span}, but "
                f"{expected.get(identity, 'does not exist')} in the prepared split; {TRANSLATED}"
            )
    missing = [identity for identity in expected if identity not in found]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise UserError(
            f"{path}: {len(missing)} of {len(instance_index.instances)} instances are missing (ids {shown}); "
            "translate the whole split"
        )


def _check_regrouped(
    path: str | Path, found: dict[int, tuple[str, TranslatedInstance]], instance_index: InstanceIndex
) -> None:
    """Raise UserError unless every sentence of the index is current in one of these instances."""
    there = {(document, first + i) for document, first, count in instance_index.instances for i in range(count)}
    seen: dict[tuple[int, int], int] = {}  # by which instance
    for identity, (line, one) in found.items():
        where = f"{line}: instance {identity}"
        if one.current is None:
            raise UserError(f"{where} has no 'current', which others have; {AGAIN}")
        held = range(one.first_sentence, one.first_sentence + one.sentences)
        outside = next((sentence for sentence in held if (one.document, sentence) not in there), None)
        if outside is not None:
            raise UserError(
                f"{where} holds sentence {outside} of document {one.document}, which the prepared split does not have; "
                + TRANSLATED
            )
        begin, count = one.current
        if count < 1 or begin not in held or begin + count - 1 not in held:
            raise UserError(f"{where} has 'current' {list(one.current)}, which it does not hold; {AGAIN}")
        for sentence in range(begin, begin + count):
            other = seen.setdefault((one.document, sentence), identity)
            if other != identity:
                raise UserError(
                    f"{where} has sentence {sentence} of document {one.document}, as instance {other} has; {AGAIN}"
                )
    missing = sorted(there - seen.keys())
    if missing:
        document, sentence = missing[0]
        raise UserError(
            f"{path}: {len(missing)} of {len(there)} sentences are missing (sentence {sentence} of document {document} "
            "is the first); translate the whole split"
        )


def _parse(line: str, where: str) -> tuple[int, TranslatedInstance]:
    """Read one line of the file; UserError if it is not an instance's translation."""
    try:
        entry = json.loads(line)
    except NO_JSON as error:
        raise UserError(f"{where}: not valid JSON ({error}); {AGAIN}") from None
    if not isinstance(entry, dict):
        raise UserError(f"{where}: not a JSON object; one object per instance is expected")
    for key in ("id", "document", "first_sentence", "sentences"):
        if type(entry.get(key)) is not int:
            raise UserError(f"{where}: {key!r} is missing or not a whole number; {AGAIN}")
    current = entry.get("current")
    if current is not None and not (isinstance(current, list) and [type(one) for one in current] == [int, int]):
        raise UserError(f"{where}: 'current' is not [first sentence, sentences]; {AGAIN}")
    try:
        sentences = entry["hypotheses"][0]["sentences"]
    except (LookupError, TypeError):
        sentences = None
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise UserError(f"{where}: 'hypotheses' holds no list of sentences; {AGAIN}")
    # A line break or tab inside a sentence would shift all later lines of the plain-text file.
    clean = [" ".join(sentence.split()) for sentence in sentences]
    span = entry["document"], entry["first_sentence"], entry["sentences"]
    return entry["id"], TranslatedInstance(*span, clean, current and (current[0], current[1]))
