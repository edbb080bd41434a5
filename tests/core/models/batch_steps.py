"""Decoding a batch as it is defined, in NumPy and float64: a token of every hypothesis at a time,
nothing cached but what must stay. Only parameters are taken from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.core.models.batch_documents import Batch
from tests.core.models.batch_oracle import FLAT, BatchOracle


@dataclass(frozen=True)
class Hypothesis:
    """``tokens`` of the current sentence, ``<s>`` first; ``inputs``: what went into the first layer
    for each.
    """

    tokens: tuple[int, ...] = ()
    inputs: tuple[np.ndarray, ...] = ()
    score: float = 0.0


@dataclass
class BatchSteps:
    """A batch of pseudo-documents: rows of source tokens, contexts of target tokens, numbers of
    first sentences.
    """

    model: object
    sources: list[list[int]]
    contexts: list[list[int]]
    first: list[int]
    oracle: BatchOracle = field(init=False)

    def __post_init__(self):
        oracle = self.oracle = BatchOracle(self.model)
        x = oracle.front(
            "encoder", self.sources, oracle.embeddings("encoder", self.sources, self.first)
        )
        self.memories = [
            oracle.stack("encoder", "encoder", self.model.cfg.encoder_layers, one) for one in x
        ]

    def embedded(self, sentence: int, tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings of the context and of the current tokens."""
        rows = [[*self.contexts[sentence], *tokens]]
        (x,) = self.oracle.embeddings("decoder", rows, [self.first[sentence]])
        return np.split(x, [len(self.contexts[sentence])])

    def take(
        self, sentence: int, hypothesis: Hypothesis, token: int, held: dict[int, Sequence[int]]
    ):
        """A hypothesis with one more token, and the logits behind it.

        ``held``: by sentence the tokens that are read of it; later sentences are not.
        """
        oracle, tokens = self.oracle, (*hypothesis.tokens, token)
        context, own = self.embedded(sentence, tokens)
        newest = own[-1:]
        if str(self.model.cfg.batch_attention_in) in ("decoder", "both"):
            others = [self.embedded(j, held[j])[1] for j in sorted(held) if j < sentence]
            found = oracle.attention(
                f"decoder.{FLAT}", "decoder", newest, np.concatenate([own, *others])
            )
            newest = oracle.mixed("decoder", newest, found)
        norm = "decoder.batch_front.layer_norm"
        inputs = (*hypothesis.inputs, oracle.norm(norm, newest)[0])
        x = np.concatenate([oracle.norm(norm, context), np.stack(inputs)])
        states = oracle.stack(
            "decoder", "decoder", self.model.cfg.decoder_layers, x, None, self.memories[sentence]
        )
        logits = states[-1] @ oracle.p["decoder.output_projection.weight"].T
        return replace(hypothesis, tokens=tokens, inputs=inputs), logits


def contexts_of(batch: Batch) -> list[list[int]]:
    """First translations of what stands before each sentence: those of the document's target."""
    return [
        row[: len(row) - len(own)]
        for row, own in zip(batch.rows(batch.target), batch.target, strict=True)
    ]


def steps_of(model, batch: Batch) -> BatchSteps:
    return BatchSteps(model, batch.rows(batch.source), contexts_of(batch), batch.first)
