"""The instance index: which sentences each instance holds; putting them back into their
documents.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json

Sentence = TypeVar("Sentence")


@dataclass
class InstanceIndex:
    """The sentences of each instance: ``instances[i] = (document, first sentence, number of
    sentences)``.

    Numbers count from 0, as in ``text/{split}.*``. ``dropped``: (document, sentence) pairs in no
    instance, which are left out of training because they are too long or have no source text.
    """

    split: str
    source_lang: str
    target_lang: str
    documents: int
    instances: list[tuple[int, int, int]] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write as JSON, atomically."""
        with atomic_write(path) as stream:
            json.dump(vars(self), stream)

    @classmethod
    def load(cls, path: str | Path) -> InstanceIndex:
        """Read an instance index. Raises UserError if the file is missing or none."""
        value = read_json(path)
        try:
            value["instances"] = list(map(tuple, value["instances"]))
            value["dropped"] = list(map(tuple, value["dropped"]))
            return cls(**value)
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{path}: not an instance index; prepare the corpus again") from None


def join(
    instance_index: InstanceIndex, instances: Sequence[Sequence[Sentence]]
) -> list[list[Sentence | None]]:
    """Put the sentences of all instances back into documents.

    ``instances[i]`` are the sentences of instance i, of any kind (text, scores, ...). Returns the
    documents in order; a dropped sentence is None. Raises ValueError or KeyError unless these are
    the index's instances.
    """
    # Of each document its sentences by number.
    documents: list[dict[int, Sentence | None]] = [{} for _ in range(instance_index.documents)]
    # So that later sentences keep their numbers.
    for document, sentence in instance_index.dropped:
        documents[document][sentence] = None
    for (document, first, count), sentences in zip(
        instance_index.instances, instances, strict=True
    ):
        documents[document] |= zip(range(first, first + count), sentences, strict=True)
    return [[sentences[number] for number in range(len(sentences))] for sentences in documents]
