"""Transformers in NumPy, Document and Flat-Transformer: a sentence pair at a time, matrices as the papers have them.

Nothing here is the models' code: of these there are their options, and their parameters as arrays by name. Equations
are those of Zhang et al. (2018), transposed: rows are tokens. Parameters may be complex: all that is done to them is
analytic, or decided by the real part, so the imaginary part of f(p + i h v) over a tiny h is f's derivative along v.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

FIRST_POSITION = 2  # of the tables, as fairseq counts


def split(source: list[int], bos: int, eos: int, itself: bool) -> tuple[list[int], list[int]]:
    """The current sentence with its marks, and the context: words of those before, ``</s>`` at the end."""
    begins = [place for place, token in enumerate(source) if token == bos]
    current, before = source[begins[-1] :], source[: begins[-1]]
    if itself and not before:
        before = current
    return current, [token for token in before if token not in (bos, eos)] + [eos]


class Oracle:
    """A Document Transformer.

    Args:
        cfg: the model's options.
        parameters: by name, (out, in) and so on; ``SIDE.embed_positions.weight`` also where positions are sinusoids.
        bos, eos: indices of ``<s>`` and ``</s>``.
    """

    def __init__(self, cfg, parameters: dict[str, ndarray], bos: int, eos: int):
        self.cfg, self.p, self.bos, self.eos = cfg, parameters, bos, eos

    def logits(self, source: list[int], target: list[int]) -> ndarray:
        """(tokens, vocabulary) of one sentence pair."""
        cfg = self.cfg
        current, before = split(source, self.bos, self.eos, str(cfg.context_of_first) == "itself")
        # Eq. 4 to 9
        context = self.stack("encoder.context_encoder", "encoder", cfg.context_layers, self.embed("encoder", before))
        in_encoder, in_decoder = (str(cfg.context_in) in (side, "both") for side in ("encoder", "decoder"))
        return self.translated(current, target, context if in_encoder else None, context if in_decoder else None)

    def translated(
        self, current: list[int], target: list[int], in_encoder: ndarray | None, in_decoder: ndarray | None
    ) -> ndarray:
        """Eq. 10 to 19, with the context that either side attends to."""
        x = self.embed("encoder", current)
        memory = self.stack("encoder", "encoder", self.cfg.encoder_layers, x, in_encoder)
        return self.decoded(target, in_decoder, memory)

    def decoded(self, target: list[int], context: ndarray | None, memory: ndarray) -> ndarray:
        """Eq. 14 to 19."""
        x = self.stack("decoder", "decoder", self.cfg.decoder_layers, self.embed("decoder", target), context, memory)
        return x @ self.p["decoder.output_projection.weight"].T

    def embed(self, side: str, tokens: list[int]) -> ndarray:
        """Words and positions, (tokens, channels)."""
        words = self.p[f"{side}.embed_tokens.weight"]
        positions = self.p[f"{side}.embed_positions.weight"][FIRST_POSITION : FIRST_POSITION + len(tokens)]
        return np.sqrt(words.shape[1]) * words[tokens] + positions

    def stack(self, name: str, side: str, layers: int, x: ndarray, context=None, memory=None) -> ndarray:
        """So many layers, and the norm behind them where norms stand before the blocks."""
        for number in range(layers):
            x = self.layer(f"{name}.layers.{number}", side, x, context, memory)
        return self.norm(f"{name}.layer_norm", x) if getattr(self.cfg, f"{side}_normalize_before") else x

    def layer(self, name: str, side: str, x: ndarray, context: ndarray | None, memory: ndarray | None) -> ndarray:
        """Self-attention, attention to the context and to the memory where there are any, feed-forward."""
        before = getattr(self.cfg, f"{side}_normalize_before")

        def block(x: ndarray, kind: str, sublayer, join=np.add) -> ndarray:
            """Eq. 6 and 20, or with another ``join`` Eq. 21; where norms stand before, join gets x itself."""
            norm = f"{name}.{kind}_layer_norm"
            if before:
                return join(x, sublayer(self.norm(norm, x)))
            return self.norm(norm, join(x, sublayer(x)))

        def attend(kind: str, keys: ndarray | None, causal: bool = False):
            found = f"{name}.{kind}_local"
            return lambda h: self.attention(found, side, h, h if keys is None else keys, causal)

        def gate(x: ndarray, found: ndarray) -> ndarray:
            """Eq. 21 and 22; the gate reads what attention reads."""
            h = self.norm(f"{name}.context_attn_layer_norm", x) if before else x
            own, other = (self.p[f"{name}.context_attn_gate.{kind}_proj.weight"] for kind in ("own", "found"))
            weight = 1 / (1 + np.exp(-(h @ own.T + found @ other.T)))
            return weight * x + (1 - weight) * found

        x = block(x, "self_attn", attend("self_attn", None, side == "decoder"))  # Eq. 5, 8, 11, 15
        if context is not None:
            join = np.add if str(self.cfg.context_join) == "residual" else gate
            x = block(x, "context_attn", attend("context_attn", context), join)  # Eq. 12, 16
        if memory is not None:
            x = block(x, "encoder_attn", attend("encoder_attn", memory))  # Eq. 17
        return block(x, "final", lambda h: self.linear(f"{name}.fc2", relu(self.linear(f"{name}.fc1", h))))

    def attention(self, name: str, side: str, x: ndarray, keys: ndarray, causal: bool = False) -> ndarray:
        """Softmax attention, all heads at once."""
        heads = getattr(self.cfg, f"{side}_attention_heads")
        q, k, v = (
            self.linear(f"{name}.{kind}_proj", given).reshape(len(given), heads, -1).swapaxes(0, 1)
            for kind, given in (("q", x), ("k", keys), ("v", keys))
        )
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
        weights = weights * np.tri(*weights.shape[1:]) if causal else weights
        found = weights / weights.sum(axis=-1, keepdims=True) @ v
        return self.linear(f"{name}.out_proj", found.swapaxes(0, 1).reshape(len(x), -1))

    def linear(self, name: str, x: ndarray) -> ndarray:
        return x @ self.p[f"{name}.weight"].T + self.p.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x: ndarray) -> ndarray:
        far = x - x.mean(axis=1, keepdims=True)
        return (
            far / np.sqrt((far**2).mean(axis=1, keepdims=True) + 1e-5) * self.p[f"{name}.weight"]
            + self.p[f"{name}.bias"]
        )


def relu(x: ndarray) -> ndarray:
    return np.where(x.real > 0, x, 0)


class FlatOracle(Oracle):
    """A Flat-Transformer (Ma et al. 2020)."""

    def logits(self, source: list[int], target: list[int]) -> ndarray:
        """(tokens, vocabulary) of one sentence pair."""
        first = max(place for place, token in enumerate(source) if token == self.bos)
        segments = self.p["encoder.embed_segments.weight"]
        x = self.embed("encoder", source) + segments[[int(place >= first) for place in range(len(source))]]
        for number in range(self.cfg.encoder_layers):
            if number == self.cfg.encoder_layers - self.cfg.current_layers:
                x = x[first:]
            x = self.layer(f"encoder.layers.{number}", "encoder", x, None, None)
        x = x[-(len(source) - first) :]
        memory = self.norm("encoder.layer_norm", x) if self.cfg.encoder_normalize_before else x
        return self.decoded(target, None, memory)
