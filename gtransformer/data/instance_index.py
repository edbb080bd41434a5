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
        """Write as JSON, atomically, one instance a line."""
        value = {"version": 1, **vars(self)}
        if not self.dropped:
            del value["dropped"]
        with atomic_write(path) as stream:
            stream.write(_dumps(value))

    @classmethod
    def load(cls, path: str | Path) -> InstanceIndex:
        """Read an instance index. Raises UserError if the file is missing or none."""
        value = read_json(path)
        try:
            value.pop("version", None)
            value["instances"] = [(int(d), int(f), int(n)) for d, f, n in value["instances"]]
            value["dropped"] = [(int(d), int(s)) for d, s in value.get("dropped", [])]
            return cls(**value)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(
                f"{path}, line 1: not an instance index; prepare the corpus again"
            ) from None

    def check_counts(self, counts: Sequence[int], path: str | Path | None) -> None:
        """Raise UserError, naming the file ``path``, unless the data's instances have these
        ``counts`` of sentences.
        """
        if len(self.instances) != len(counts):
            raise UserError(
                f"{path}: describes {len(self.instances)} instances, the data has {len(counts)}; "
                "prepare the corpus again"
            )
        for number, ((*_, expected), found) in enumerate(zip(self.instances, counts, strict=True)):
            if expected != found:
                raise UserError(
                    f"{path}: instance {number} has {expected} sentences, in the data it has "
                    f"{found}; prepare the corpus again"
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


def join(
    instance_index: InstanceIndex, instances: Sequence[Sequence[Sentence]]
) -> list[list[Sentence | None]]:
    """Put the sentences of all instances back into documents.

    ``instances[i]`` are the sentences of instance i, of any kind (text, scores, ...). Returns the
    documents in order; a dropped sentence is None. Raises ValueError or KeyError unless these are
    the index's instances.
    """
    found: list[dict[int, Sentence | None]] = [{} for _ in range(instance_index.documents)]
    # So that later sentences keep their numbers.
    for document, sentence in instance_index.dropped:
        found[document][sentence] = None
    for (document, first, count), sentences in zip(
        instance_index.instances, instances, strict=True
    ):
        found[document] |= zip(range(first, first + count), sentences, strict=True)
    return [[sentences[position] for position in range(len(sentences))] for sentences in found]
