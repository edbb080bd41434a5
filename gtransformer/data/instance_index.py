"""The instance index: which sentences each instance holds; putting them back into their documents."""

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
    """The sentences of each instance: ``instances[i] = (document, first sentence, number of sentences)``.

    Numbers count from 0, as in ``text/{split}.*``. ``dropped``: (document, sentence) pairs in no instance, which are
    left out of training because they are too long or have no source text.
    """

    split: str
    source_lang: str
    target_lang: str
    documents: int
    instances: list[tuple[int, int, int]] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)

    def save(self, path: str | Path) -> None:
        """Write as JSON, atomically, one instance a line."""
        value = {"version": 1, **vars(self)}
        if not self.dropped:
            del value["dropped"]
        with atomic_write(path) as stream:
            stream.write(_dumps(value))

    @classmethod
    def load(cls, path: str | Path) -> InstanceIndex:
        """Read an instance index. Raises UserError if the file is missing, damaged or of another version."""
        value = read_json(path)
        try:
            if value.pop("version") != 1:
                raise UserError(f"{path}, line 1: an instance index of another version; prepare the corpus again")
            value["instances"] = [(int(d), int(f), int(n)) for d, f, n in value["instances"]]
            value["dropped"] = [(int(d), int(s)) for d, s in value.get("dropped", [])]
            found = cls(**value)
            found.check_positions()
            return found
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise UserError(f"{path}, line 1: not an instance index; prepare the corpus again") from None

    def check_positions(self) -> None:
        """Raise ValueError for impossible positions, and for documents without instances and dropped sentences."""
        known = [document for document, *_ in (*self.instances, *self.dropped)]
        numbers = [number for row in (*self.instances, *self.dropped) for number in row]
        if type(self.documents) is not int or not max(known, default=-1) < self.documents <= len(known):
            raise ValueError(f"{self.documents} documents")
        if not 0 <= min(numbers, default=0) <= max(numbers, default=0) < 2**31:
            raise ValueError("positions of no corpus")

    def check_counts(self, counts: Sequence[int], path: str | Path | None) -> None:
        """Raise UserError, naming the file ``path``, unless the data's instances have these ``counts`` of sentences."""
        if len(self.instances) != len(counts):
            raise UserError(
                f"{path}: describes {len(self.instances)} instances, the data has {len(counts)}; prepare the corpus "
                "again"
            )
        for number, ((*_, expected), found) in enumerate(zip(self.instances, counts, strict=True)):
            if expected != found:
                raise UserError(
                    f"{path}: instance {number} has {expected} sentences, in the data it has {found}; prepare the "
                    "corpus again"
                )


def _dumps(value: dict) -> str:
    lines = []
    for key, item in value.items():
        if key in ("instances", "dropped"):
            rows = ",\n  ".join(json.dumps(list(row)) for row in item)
            lines.append(f' "{key}": [\n  {rows}\n ]' if item else f' "{key}": []')
        else:
            lines.append(f' "{key}": {json.dumps(item)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def join(instance_index: InstanceIndex, instances: Sequence[Sequence[Sentence]]) -> list[list[Sentence | None]]:
    """Put the sentences of all instances back into documents.

    ``instances[i]`` are the sentences of instance i, of any kind (text, scores, ...). Returns the documents in order; a
    dropped sentence is None. Raises UserError if an instance has another number of sentences than the index, or if
    instances are missing or overlap.
    """
    name, found = f"the instance index of {instance_index.split}", [{} for _ in range(instance_index.documents)]
    if len(instances) != len(instance_index.instances):
        raise UserError(f"{len(instances)} instances, but {name} has {len(instance_index.instances)}")
    for document, sentence in instance_index.dropped:
        found[document][sentence] = None
    for number, ((document, first, count), sentences) in enumerate(
        zip(instance_index.instances, instances, strict=True)
    ):
        if len(sentences) != count:
            raise UserError(f"instance {number} has {len(sentences)} sentences, but {count} in {name}")
        for position, sentence in enumerate(sentences, first):
            if position in found[document]:
                raise UserError(f"{name} has sentence {position} of document {document} twice")
            found[document][position] = sentence
    for document, sentences in enumerate(found):
        if sorted(sentences) != list(range(len(sentences))):
            raise UserError(f"{name} lacks a sentence of document {document}")
    return [[sentences[position] for position in range(len(sentences))] for sentences in found]
