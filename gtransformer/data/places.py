"""Where instances stand in their documents, so that every translation is put back in its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.instances import Instances
from gtransformer.data.sentences import Sentences, SideSentences, StoredSide, check_places
from gtransformer.data.sidecar import Sidecar


@dataclass(frozen=True)
class Place:
    """What the translation of an instance holds, all counted from 0.

    Attributes:
        document: of the split.
        first_sentence, sentences: the first sentence that is translated, and how many are.
        current: (first sentence, sentences), those to be taken from here; None: all, in an instance as it is stored.
    """

    document: int
    first_sentence: int
    sentences: int
    current: tuple[int, int] | None = None


def stored_places(sidecar: Path, side: StoredSide) -> list[Place] | None:
    """The places of a split's stored instances; None without a sidecar.

    Raises UserError for a sidecar of another number of instances, or of sentences in one.
    """
    if not sidecar.is_file():
        return None
    found = Sidecar.load(sidecar)
    check_places(found, SideSentences(side).counts(), sidecar)
    return [Place(*row) for row in found.instances]


def regrouped_places(sentences: Sentences, instances: Instances) -> list[Place]:
    """The places of instances that were grouped anew."""
    (first, last), (begin, end) = instances.target.T, instances.current.T
    document, position = sentences.document[first], sentences.position
    columns = document, position[first], last - first, position[begin], end - begin
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Place(number, opening, count, (at, current)) for number, opening, count, at, current in rows]
