"""Translations as a file: one JSON object an instance, in the order of the corpus (``--gen-output PREFIX``)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.sentences import Place
from gtransformer.errors import signals_interrupt
from gtransformer.files import atomic_write

logger = logging.getLogger(__name__)


def split_sentences(tokens: list[int], dictionary: Dictionary, skip: set[int]) -> list[str]:
    """The sentences of a generated document, without ``<s>``, ``</s>`` and the symbols in ``skip``.

    A sentence ends at ``</s>``; words behind the last one are a sentence too, if there are any.
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


class TranslationWriter:
    """Collects hypotheses in whatever order decoding finishes, and writes PREFIX.jsonl once all are there.

    Args:
        prefix: of the file.
        instances: how many instances the generated split has; the file appears when each has come.
        places: where each instance stands in its corpus; None numbers instances as documents.
    """

    def __init__(self, prefix: str, instances: int, places: Sequence[Place] | None):
        self.path = Path(f"{prefix}.jsonl")
        self.instances, self.places = instances, places
        self.lines: dict[int, dict] = {}
        self.path.unlink(missing_ok=True)  # an old result must not be taken for that of an interrupted run

    def add(self, number: int, hypotheses: list[dict], sentences: int) -> None:
        """Take hypotheses ({"score", "sentences"}, best first) of instance ``number``."""
        place = Place(number, 0, sentences) if self.places is None else self.places[number]
        self.lines[number] = {
            "id": number,
            "document": place.document,
            "first_sentence": place.first_sentence,
            "sentences": place.sentences,
            **({} if place.current is None else {"current": list(place.current)}),
            "hypotheses": hypotheses,
        }
        if len(self.lines) == self.instances:
            self.write()

    def write(self) -> None:
        """Write all lines in order, atomically; fairseq's commands have no handlers that would clear up."""
        with signals_interrupt(), atomic_write(self.path) as stream:
            for number in sorted(self.lines):
                stream.write(json.dumps(self.lines[number], ensure_ascii=False) + "\n")
        logger.info("wrote %d instances to %s", len(self.lines), self.path)


def hypothesis(hypo: dict[str, Tensor], dictionary: Dictionary, skip: set[int]) -> dict:
    """fairseq's hypothesis as it stands in the file."""
    return {
        "score": round(float(hypo["score"]), 6),
        "sentences": split_sentences(hypo["tokens"].tolist(), dictionary, skip),
    }
