"""Reading translations (``PREFIX.jsonl``) and putting them back in their places in the documents.

One line is one instance. Of instances as they are stored, the sidecar of the prepared corpus says which sentences of
which document each holds; nothing is scored unless every instance is there exactly once and is the instance that the
sidecar has under its number. Of instances that were grouped when the corpus was loaded (``--instances``), each line
says itself which of its sentences are ``current``; nothing is scored unless every sentence of the split is current
once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from gtransformer.data.sentence_alignment import align_sentences
from gtransformer.data.sidecar import Sidecar, join
from gtransformer.errors import UserError
from gtransformer.files import NO_JSON, json_fault, read_lines

Sentence = TypeVar("Sentence")
TRANSLATED = "give the split and the prepared corpus that were translated"


@dataclass(frozen=True)
class TranslatedInstance:
    """The best translation of one instance: where it belongs and its sentences (BPE, without marks).

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
    def place(self) -> tuple[int, int, int]:
        """(document, first sentence, sentences) of what is taken from here, as a sidecar has it."""
        return self.document, *(self.current or (self.first_sentence, self.sentences))

    @property
    def whole(self) -> bool:
        """Whether all sentences are taken from here."""
        return self.place == (self.document, self.first_sentence, self.sentences)

    @property
    def ends_in_current(self) -> bool:
        """Whether what is taken from here stands behind context: the last sentences, not all."""
        _, first, count = self.place
        return not self.whole and first + count == self.first_sentence + self.sentences

    def aligned(self, text: Sequence[str]) -> list[str]:
        """Its sentences (``text``: as many as were produced) as exactly as many as it should have, by order.

        From the end where context stands before what is taken from here: that is what the model wrote last.
        """
        return align_sentences(text, self.sentences, from_end=self.ends_in_current)

    def taken(self, sentences: Sequence[Sentence]) -> Sequence[Sentence]:
        """What is taken of something that there is for each of the instance's sentences."""
        _, first, count = self.place
        return sentences[first - self.first_sentence : first - self.first_sentence + count]


def taken_from(translations: Sequence[TranslatedInstance], sidecar: Sidecar) -> Sidecar:
    """The sidecar of what is taken from each translation, which tiles the documents."""
    return replace(sidecar, instances=[translation.place for translation in translations])


def read_translations(path: str | Path, sidecar: Sidecar) -> list[TranslatedInstance]:
    """The best translation of every instance, in instance order (the file's order does not matter).

    Raises UserError, naming file and line, for a line that is not such a JSON object, an id that is doubled, and a
    place that the sidecar does not have; naming what is missing where the split is not complete.
    """
    found: dict[int, tuple[int, TranslatedInstance]] = {}
    for number, line in enumerate(read_lines(path), 1):
        identity, translation = _parse(line, f"{path}, line {number}")
        if identity in found:
            raise UserError(
                f"{path}, line {number}: instance {identity} stands on line {found[identity][0]} already; remove one "
                "of them"
            )
        found[identity] = (number, translation)
    if any(translation.current for _, translation in found.values()):
        _check_regrouped(path, found, sidecar)
    else:
        _check_stored(path, found, sidecar)
    return [found[identity][1] for identity in sorted(found)]


def read_documents(path: str | Path, sidecar: Sidecar) -> list[list[str | None]]:
    """The best translation of every sentence, as documents of sentences in BPE; None for one that no instance holds.

    Of instances that overlap, from the one in which it is current; of one with too many or too few sentences, by order.
    Raises UserError as ``read_translations``.
    """
    found = read_translations(path, sidecar)
    return join(taken_from(found, sidecar), [one.taken(one.aligned(one.hypothesis)) for one in found])


def _check_stored(path: str | Path, found: dict[int, tuple[int, TranslatedInstance]], sidecar: Sidecar) -> None:
    """UserError unless these are the sidecar's instances."""
    for identity, (number, translation) in found.items():
        where = f"{path}, line {number}"
        if not 0 <= identity < len(sidecar.instances):
            raise UserError(
                f"{where}: instance {identity} is not among the {len(sidecar.instances)} of the prepared split; "
                + TRANSLATED
            )
        if translation.place != tuple(sidecar.instances[identity]):
            expected = tuple(sidecar.instances[identity])
            raise UserError(
                f"{where}: instance {identity} has (document, first_sentence, sentences) {translation.place}, but "
                f"{expected} in the prepared split; {TRANSLATED}"
            )
    missing = [identity for identity in range(len(sidecar.instances)) if identity not in found]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise UserError(
            f"{path}: {len(missing)} of {len(sidecar.instances)} instances are missing (ids {shown}); "
            "translate the whole split"
        )


def _check_regrouped(path: str | Path, found: dict[int, tuple[int, TranslatedInstance]], sidecar: Sidecar) -> None:
    """UserError unless every sentence that the sidecar has is current in one of these instances."""
    there = {(document, first + i) for document, first, count in sidecar.instances for i in range(count)}
    seen: dict[tuple[int, int], int] = {}
    for identity, (number, translation) in sorted(found.items()):
        where = f"{path}, line {number}"
        if translation.current is None:
            raise UserError(
                f"{where}: 'current' is missing, which other lines have; the file is of two translations, write the "
                "translations again"
            )
        document, first = translation.document, translation.first_sentence
        held = range(first, first + translation.sentences)
        outside = next((sentence for sentence in held if (document, sentence) not in there), None)
        if outside is not None:
            raise UserError(
                f"{where}: instance {identity} holds sentence {outside} of document {document}, which the prepared "
                f"split does not have; {TRANSLATED}"
            )
        _, begin, count = translation.place
        if not (first <= begin and begin + count <= first + translation.sentences and count > 0):
            raise UserError(
                f"{where}: 'current' {list(translation.current)} is not among the instance's sentences; write the "
                "translations again"
            )
        for sentence in range(begin, begin + count):
            if (document, sentence) in seen:
                raise UserError(
                    f"{where}: sentence {sentence} of document {document} is current on line "
                    f"{seen[document, sentence]} already; write the translations again"
                )
            seen[document, sentence] = number
    missing = sorted(there - seen.keys())
    if missing:
        document, sentence = missing[0]
        raise UserError(
            f"{path}: {len(missing)} of {len(there)} sentences are missing (sentence {sentence} of document {document} "
            "is the first); translate the whole split"
        )


def _parse(line: str, where: str) -> tuple[int, TranslatedInstance]:
    """One line of the file; UserError where it is not an instance's translation."""
    try:
        entry = json.loads(line)
    except NO_JSON as error:
        raise UserError(f"{where}: not valid JSON ({json_fault(error)}); write the translations again") from None
    if not isinstance(entry, dict):
        raise UserError(f"{where}: not a JSON object; one object per instance is expected")
    for key in ("id", "document", "first_sentence", "sentences"):
        if not _whole(entry.get(key)):
            raise UserError(f"{where}: {key!r} is missing or not a whole number; write the translations again")
    current = entry.get("current")
    if current is not None and not (isinstance(current, list) and len(current) == 2 and all(map(_whole, current))):
        raise UserError(f"{where}: 'current' is not [first sentence, sentences]; write the translations again")
    hypotheses = entry.get("hypotheses")
    best = hypotheses[0] if isinstance(hypotheses, list) and hypotheses else None
    sentences = best.get("sentences") if isinstance(best, dict) else None
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise UserError(f"{where}: 'hypotheses' holds no list of sentences; write the translations again")
    # A line break or tab inside a sentence would shift all later lines of the plain-text file.
    clean = [" ".join(sentence.split()) for sentence in sentences]
    place = entry["document"], entry["first_sentence"], entry["sentences"]
    return entry["id"], TranslatedInstance(*place, clean, current and (current[0], current[1]))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
