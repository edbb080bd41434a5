"""Systems that read their batch, spelled out in NumPy and float64: the whole batch, with the masks
of the equations.

Only parameters are taken from the model, by name. Equations are those of Wu et al. (2023).
"""

from __future__ import annotations

import math

import numpy as np

from tests.core.models.numpy_oracle import Oracle, sigmoid, waves
from tests.core.models.oracle_checks import arrays

Rows = list[np.ndarray]  # of each instance (tokens, channels)
FLAT = "batch_front.across.attention"


class BatchOracle(Oracle):
    """A model's options, and its parameters, all by name; a shared one has all of its names."""

    def __init__(self, model):
        super().__init__(model.cfg, arrays(model), model.decoder.bos, model.decoder.eos)

    def embeddings(self, side: str, rows: list[list[int]], first: list[int]) -> Rows:
        """Words and positions, <s> replaced by the number of its sentence."""
        numbered, found = hasattr(self.cfg, "batch_attention_in"), []
        for tokens, number in zip(rows, first, strict=True):
            x = self.embed(side, tokens)
            for place, token in enumerate(tokens):
                if numbered and token == self.bos:
                    mapped = self.linear(
                        f"{side}.batch_front.numbers.map", waves(number, x.shape[1])
                    )
                    word = math.sqrt(x.shape[1]) * self.p[f"{side}.embed_tokens.weight"][token]
                    x = x + np.outer(np.arange(len(x)) == place, mapped - word)
                    number += 1
            found.append(x)
        return found

    def front(self, side: str, rows: list[list[int]], x: Rows) -> Rows:
        """What the instances find in their batch, and the norm."""
        if str(self.cfg.batch_attention_in) in (side, "both"):
            x = (
                self.flat(side, rows, x)
                if hasattr(self.cfg, "context_gate")
                else self.between(side, x)
            )
        return [self.norm(f"{side}.batch_front.layer_norm", one) for one in x]

    def flat(self, side: str, rows: list[list[int]], x: Rows) -> Rows:
        """Eq. 7 to 10 over the current sentences."""
        begins = [
            max(place for place, token in enumerate(tokens) if token == self.bos) for tokens in rows
        ]
        own = np.concatenate([one[begin:] for one, begin in zip(x, begins, strict=True)])
        causal = [np.tri(len(own), dtype=bool)] if side == "decoder" else []
        mixed = self.mixed(side, own, self.attention(f"{side}.{FLAT}", side, own, own, *causal))
        result, used = [], 0
        for one, begin in zip(x, begins, strict=True):
            length = len(one) - begin
            result.append(np.concatenate([one[:begin], mixed[used : used + length]]))
            used += length
        return result

    def mixed(self, side: str, own: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Eq. 8 to 10, or the sum."""
        kind = str(self.cfg.context_gate)
        if kind == "identity":
            return own + found
        gate = sigmoid(self.linear(f"{side}.batch_front.across.gate", found))
        if kind == "discrete":
            gate = np.where(gate >= self.cfg.gate_threshold, 1.0, 0.0)
        return (1 - gate) * own + gate * found

    def between(self, side: str, x: Rows) -> Rows:
        """Eq. 11."""
        means = np.stack([one.mean(axis=0) for one in x])
        found = self.attention(f"{side}.{FLAT}", side, means, means)
        return [one + add for one, add in zip(x, found, strict=True)]

    def vector(self, x: Rows) -> np.ndarray:
        """Of mini-batch embeddings."""
        states = [self.stack("encoder.batch_vector", "encoder", 1, one) for one in x]
        return np.mean([one.mean(axis=0) for one in states], axis=0)

    def logits(self, sources: list[list[int]], targets: list[list[int]], first: list[int]) -> Rows:
        """(tokens, vocabulary) of each instance of the batch."""
        cfg = self.cfg
        x, y = (
            self.embeddings(side, rows, first)
            for side, rows in (("encoder", sources), ("decoder", targets))
        )
        behind, norms = (
            0,
            [getattr(cfg, f"doc_{side}_layer_norm", False) for side in ("encoder", "decoder")],
        )
        if hasattr(cfg, "batch_vector_in"):
            vector, where = self.vector(x)[None], str(cfg.batch_vector_in)
            x = [np.concatenate([one, vector]) for one in x] if where != "decoder" else x
            if where != "encoder":
                y, behind = [np.concatenate([vector, one]) for one in y], 1
            x = [self.norm("encoder.batch_vector_norm", one) for one in x] if norms[0] else x
            y = [self.norm("decoder.batch_vector_norm", one) for one in y] if norms[1] else y
        else:
            x, y = self.front("encoder", sources, x), self.front("decoder", targets, y)
        found = []
        for source, target in zip(x, y, strict=True):
            memory = self.stack("encoder", "encoder", cfg.encoder_layers, source)
            states = self.stack("decoder", "decoder", cfg.decoder_layers, target, None, memory)[
                behind:
            ]
            found.append(states @ self.p["decoder.output_projection.weight"].T)
        return found
