"""A document as the batch of pseudo-documents that it is, and models that read such batches."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.support import drawn, pad_batch, random_document

CONTEXT = 2  # previous sentences


@dataclass
class Batch:
    """Pseudo-documents of consecutive sentences.

    ``sentences`` of either side, each a list of tokens; ``first`` the number of the sentence that
    each row begins with.
    """

    dictionary: object
    source: list[list[int]]
    target: list[list[int]]
    begin: int = 1

    @property
    def first(self) -> list[int]:
        return [self.begin + max(0, i - CONTEXT) for i in range(len(self.source))]

    def rows(self, side: list[list[int]]) -> list[list[int]]:
        return [sum(side[max(0, i - CONTEXT) : i + 1], []) for i in range(len(side))]

    def inputs(self, extra: int = 0) -> dict[str, Tensor]:
        """What a model is given; source padded on the left, target on the right."""
        pad = self.dictionary.pad()
        return {
            "src_tokens": pad_batch(self.rows(self.source), pad, left=True, extra=extra),
            "src_lengths": None,
            "prev_output_tokens": pad_batch(self.rows(self.target), pad, left=False, extra=extra),
            "first_sentence": torch.tensor(self.first),
        }

    def current(self, logits: Tensor) -> list[Tensor]:
        """Of the padded logits of all rows, those of each current sentence, (tokens,
        vocabulary).
        """
        lengths = [len(row) for row in self.rows(self.target)]
        return [
            row[length - len(own) : length]
            for row, length, own in zip(logits, lengths, self.target, strict=True)
        ]


def document(dictionary, sentences: int = 6, begin: int = 1) -> Batch:
    """A random one, with an empty sentence on each side."""
    draw = random.Random(3)
    sides = [
        [random_document(draw, dictionary, [draw.randint(1, 4)]) for _ in range(sentences)]
        for _ in range(2)
    ]
    for side, empty in zip(sides, (1, 2), strict=True):
        side[empty] = [dictionary.bos(), dictionary.eos()]
    return Batch(dictionary, *sides, begin)


def made(dictionary, model, config, **options):
    """A tiny model of two layers a side in float64 with weights drawn wide."""
    return drawn(dictionary, model, config, **{"encoder_layers": 2, "decoder_layers": 2, **options})
