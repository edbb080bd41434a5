"""Reading translations (``PREFIX.jsonl``) and putting them back in their places in the documents.

One line is one instance; the sidecar of the prepared corpus says which sentences of which document it holds. Nothing is
scored unless every instance is there exactly once and is the instance that the sidecar has under its number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.files import read_lines


@dataclass(frozen=True)
class Translation:
    """The best translation of one instance: where it belongs and its sentences (BPE, without marks)."""

    document: int
    first_sentence: int
    sentences: int
    hypothesis: list[str]

    @property
    def misaligned(self) -> bool:
        """Whether the translation has another number of sentences than its source."""
        return len(self.hypothesis) != self.sentences


def read_translations(path: str | Path, sidecar: Sidecar) -> list[Translation]:
    """The best translation of every instance, in instance order (the file's order does not matter).

    Raises UserError, naming file and line, for a line that is not such a JSON object, an id that is doubled or that the
    sidecar does not have, and a place that differs from the sidecar's; naming the ids where instances are missing.
    """
    found: dict[int, tuple[int, Translation]] = {}
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path}, line {number}"
        identity, translation = _parse(line, where)
        if identity in found:
            raise UserError(
                f"{where}: instance {identity} stands on line {found[identity][0]} already; remove one of them"
            )
        if not 0 <= identity < len(sidecar.instances):
            raise UserError(
                f"{where}: instance {identity} is not among the {len(sidecar.instances)} of the prepared split; "
                "give the split and the prepared corpus that were translated"
            )
        place = (translation.document, translation.first_sentence, translation.sentences)
        if place != tuple(sidecar.instances[identity]):
            expected = tuple(sidecar.instances[identity])
            raise UserError(
                f"{where}: instance {identity} has (document, first_sentence, sentences) {place}, but {expected} in "
                "the prepared split; give the split and the prepared corpus that were translated"
            )
        found[identity] = (number, translation)
    missing = [identity for identity in range(len(sidecar.instances)) if identity not in found]
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise UserError(
            f"{path}: {len(missing)} of {len(sidecar.instances)} instances are missing (ids {shown}); "
            "translate the whole split"
        )
    return [found[identity][1] for identity in range(len(sidecar.instances))]


def _parse(line: str, where: str) -> tuple[int, Translation]:
    """One line of the file; UserError where it is not an instance's translation."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not valid JSON ({error.msg}); write the translations again") from None
    if not isinstance(entry, dict):
        raise UserError(f"{where}: not a JSON object; one object per instance is expected")
    for key in ("id", "document", "first_sentence", "sentences"):
        if not isinstance(entry.get(key), int) or isinstance(entry[key], bool):
            raise UserError(f"{where}: {key!r} is missing or not a whole number; write the translations again")
    hypotheses = entry.get("hypotheses")
    best = hypotheses[0] if isinstance(hypotheses, list) and hypotheses else None
    sentences = best.get("sentences") if isinstance(best, dict) else None
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise UserError(f"{where}: 'hypotheses' holds no list of sentences; write the translations again")
    # A line break or tab inside a sentence would shift all later lines of the plain-text file.
    clean = [" ".join(sentence.split()) for sentence in sentences]
    return entry["id"], Translation(entry["document"], entry["first_sentence"], entry["sentences"], clean)


def align_sentences(hypothesis: Sequence[str], count: int) -> list[str]:
    """Exactly ``count`` sentences: missing ones are empty, surplus ones are joined to the last.

    Only a plain Transformer over the document needs this: nothing ties its sentences to those of the source. For
    ``count`` 0 there is no sentence to join to, and the result is empty.
    """
    if count == 0:
        return []
    aligned = list(hypothesis[:count]) + [""] * (count - len(hypothesis))
    if len(hypothesis) > count:
        aligned[-1] = " ".join(hypothesis[count - 1 :])
    return aligned
