"""Every system in NumPy: a document pair at a time, matrices as the papers have them, masks for
each pair of tokens.

Nothing here is the models' code: of these there are their options, and their parameters as arrays
by name. Equations of the Document Transformer are those of Zhang et al. (2018), transposed: rows
are tokens. Parameters may be complex: all that is done to them is analytic, or decided by the real
part, so the imaginary part of f(p + i h v) over a tiny h is f's derivative along v.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy import ndarray

FIRST_POSITION = 2  # of the tables, as fairseq counts
Masks = list[list[ndarray]]  # (queries, keys) bool of each scope of each module of a block


def waves(number: float, channels: int) -> ndarray:
    """Sines, then cosines; fairseq computes them in float32."""
    half = channels // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = float(number) * rates
    return torch.cat([torch.sin(angles), torch.cos(angles)]).double().numpy()


def sigmoid(x: ndarray) -> ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: ndarray) -> ndarray:
    return np.where(x.real > 0, x, 0)


class Oracle:
    """A Transformer whose attention sees everything, in the decoder what precedes.

    Args:
        cfg: the model's options.
        parameters: by name, (out, in) and so on; ``SIDE.embed_positions.weight`` also where
            positions are sinusoids.
        bos, eos: indices of ``<s>`` and ``</s>``.
    """

    def __init__(self, cfg, parameters: dict[str, ndarray], bos: int, eos: int):
        self.cfg, self.p, self.bos, self.eos = cfg, parameters, bos, eos
        self.tags: dict[str, ndarray] = {}  # of both sides

    def seen(self, name: str, number: int, queries: int, keys: int) -> Masks:
        """Who sees whom in the attention ``name`` of a layer."""
        causal = name.startswith("decoder") and name.endswith("self_attn")
        return [
            [np.tri(queries, keys, dtype=bool) if causal else np.ones((queries, keys), dtype=bool)]
        ]

    def decoded(self, target: list[int], context: ndarray | None, memory: ndarray) -> ndarray:
        x = self.stack(
            "decoder",
            "decoder",
            self.cfg.decoder_layers,
            self.embed("decoder", target),
            context,
            memory,
        )
        return x @ self.p["decoder.output_projection.weight"].T

    def embed(self, side: str, tokens: list[int]) -> ndarray:
        """Words and positions, (tokens, channels)."""
        words, table = (
            self.p[f"{side}.embed_tokens.weight"],
            self.p.get(f"{side}.embed_positions.weight"),
        )
        x = np.sqrt(words.shape[1]) * words[tokens]
        if table is None:
            return x
        places = np.arange(len(tokens))
        if str(getattr(self.cfg, "positions", "document")) == "sentence":
            begins = [
                max((i for i in range(at + 1) if tokens[i] == self.bos), default=0) for at in places
            ]
            places = places - begins
        return x + table[FIRST_POSITION + places]

    def stack(
        self, name: str, side: str, layers: int, x: ndarray, context=None, memory=None
    ) -> ndarray:
        """So many layers, and the norm behind them where norms stand before the blocks."""
        for number in range(layers):
            x = self.layer(name, number, side, x, context, memory)
        return (
            self.norm(f"{name}.layer_norm", x)
            if getattr(self.cfg, f"{side}_normalize_before")
            else x
        )

    def layer(
        self, stack: str, number: int, side: str, x: ndarray, context=None, memory=None
    ) -> ndarray:
        """Self-attention, attention to the context and to the memory where there are any,
        feed-forward.
        """
        before = getattr(self.cfg, f"{side}_normalize_before")
        name = f"{stack}.layers.{number}"

        def block(x: ndarray, kind: str, sublayer, join=np.add) -> ndarray:
            """Eq. 6 and 20, or with another ``join`` Eq. 21; where norms stand before, join gets x
            itself.
            """
            norm = f"{name}.{kind}_layer_norm"
            if before:
                return join(x, sublayer(self.norm(norm, x)))
            return self.norm(norm, join(x, sublayer(x)))

        def attend(kind: str, keys: ndarray | None):
            def found(h: ndarray) -> ndarray:
                others = h if keys is None else keys
                masks = self.seen(f"{stack}.{kind}", number, len(h), len(others))
                results = [
                    self.attention(f"{name}.{kind}_{end}", side, h, others, *own)
                    for end, own in zip(("local", "global"), masks, strict=False)
                ]
                if len(results) == 1:
                    return results[0]
                g = sigmoid(self.linear(f"{name}.{kind}_gate.0", np.concatenate(results, axis=1)))
                return g * results[0] + (1 - g) * results[1]  # Bao et al. (2021), Eq. 10

            return found

        def gate(x: ndarray, found: ndarray) -> ndarray:
            """Eq. 21 and 22; the gate reads what attention reads."""
            h = self.norm(f"{name}.context_attn_layer_norm", x) if before else x
            own, other = (
                self.p[f"{name}.context_attn_gate.{kind}_proj.weight"] for kind in ("own", "found")
            )
            weight = sigmoid(h @ own.T + found @ other.T)
            return weight * x + (1 - weight) * found

        x = block(x, "self_attn", attend("self_attn", None))  # Eq. 5, 8, 11, 15
        if context is not None:
            join = np.add if str(self.cfg.context_join) == "residual" else gate
            x = block(x, "context_attn", attend("context_attn", context), join)  # Eq. 12, 16
        if memory is not None:
            x = block(x, "encoder_attn", attend("encoder_attn", memory))  # Eq. 17
        return block(
            x, "final", lambda h: self.linear(f"{name}.fc2", relu(self.linear(f"{name}.fc1", h)))
        )

    def attention(self, name: str, side: str, x: ndarray, keys: ndarray, *seen: ndarray) -> ndarray:
        """Softmax attention, all heads at once; zero where nothing is seen. Results of several
        masks are concatenated.

        Where the name is a recurrent unit's, that: c = f c + (1 - f) W x within what the mask
        joins.
        """
        if f"{name}.forget_proj.weight" in self.p:
            return self.recurrent(name, x, *seen)
        heads = getattr(self.cfg, f"{side}_attention_heads")
        q, k, v = (
            self.linear(f"{name}.{kind}_proj", given)
            for kind, given in (("q", x), ("k", keys), ("v", keys))
        )
        if f"{name}.query_numbers.map.weight" in self.p:
            q = q + self.numbers(f"{name}.query_numbers.map", side, q.shape[1])
            k = k + self.numbers(
                f"{name}.key_numbers.map", "encoder" if "encoder_attn" in name else side, k.shape[1]
            )
        q, k, v = (one.reshape(len(one), heads, -1).swapaxes(0, 1) for one in (q, k, v))
        scores = q @ k.swapaxes(1, 2)
        if f"{name}.relative.weight" in self.p:
            table = self.p[f"{name}.relative.weight"]
            clip = len(table) // 2
            distance = np.subtract.outer(np.arange(len(keys)), np.arange(len(x))).T.clip(
                -clip, clip
            )
            scores = scores + np.einsum("hid,ijd->hij", q, table[distance + clip])
        scores = scores / np.sqrt(q.shape[-1])
        found = []
        for mask in seen or [np.ones(scores.shape[1:], dtype=bool)]:
            weights = np.exp(scores - scores.real.max(axis=-1, keepdims=True)) * mask
            total = weights.sum(axis=-1, keepdims=True)
            found.append(
                (weights / np.where(total == 0, 1, total) @ v).swapaxes(0, 1).reshape(len(x), -1)
            )
        return self.linear(f"{name}.out_proj", np.concatenate(found, axis=1))

    def recurrent(self, name: str, x: ndarray, mask: ndarray) -> ndarray:
        forget, state, found = sigmoid(self.linear(f"{name}.forget_proj", x)), 0.0, []
        for row, new in enumerate((1 - forget) * self.linear(f"{name}.input_proj", x)):
            state = forget[row] * (state if row and mask[row, row - 1] else 0.0) + new
            found.append(relu(state))
        return np.stack(found)

    def numbers(self, name: str, side: str, channels: int) -> ndarray:
        return self.linear(name, np.stack([waves(tag, channels) for tag in self.tags[side]]))

    def linear(self, name: str, x: ndarray) -> ndarray:
        return x @ self.p[f"{name}.weight"].T + self.p.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x: ndarray) -> ndarray:
        far = x - x.mean(axis=1, keepdims=True)
        return (
            far / np.sqrt((far**2).mean(axis=1, keepdims=True) + 1e-5) * self.p[f"{name}.weight"]
            + self.p[f"{name}.bias"]
        )


class DocumentOracle(Oracle):
    """Systems over whole documents: G-Transformer with its ablations, LST and window attention.

    ``decoding``: target lengths are not known, so that windows are aligned as in decoding.
    """

    decoding = False

    def logits(self, source: list[int], target: list[int]) -> ndarray:
        """(tokens, vocabulary) of one document pair."""
        self.tags = {
            side: np.cumsum(np.equal(tokens, self.bos))
            for side, tokens in (("encoder", source), ("decoder", target))
        }
        memory = self.stack(
            "encoder", "encoder", self.cfg.encoder_layers, self.embed("encoder", source)
        )
        return self.decoded(target, None, memory)

    def seen(self, name: str, number: int, queries: int, keys: int) -> Masks:
        cfg, (side, kind) = self.cfg, name.split(".")
        part = "cross" if kind == "encoder_attn" else side
        own, others = self.tags[side], self.tags["encoder" if part == "cross" else side]
        whole = super().seen(name, number, queries, keys)[0][0]
        group = whole & np.equal.outer(own, others)
        if hasattr(cfg, "window"):
            middle = [
                self.centre(i, own.tolist(), others.tolist()) if part == "cross" else i
                for i in range(1, queries + 1)
            ]
            return [
                [whole & (abs(np.subtract.outer(middle, np.arange(1, keys + 1))) <= cfg.window)]
            ]
        if hasattr(cfg, "translation_locality"):
            return (
                [[group, whole]]
                if part != "cross"
                else [[group if cfg.translation_locality else whole]]
            )
        if not hasattr(cfg, "context_attention"):
            return [[whole]]
        layers = cfg.encoder_layers if part == "encoder" else cfg.decoder_layers
        if cfg.doc_mode == "full" or (
            cfg.no_translation_locality if part == "cross" else cfg.no_language_locality
        ):
            return [[whole]]
        if number < layers - getattr(cfg, f"{part}_ctxlayers"):
            return [[group]]
        return [[whole]] if str(cfg.context_attention) == "global" else [[group], [whole]]

    def centre(self, i: int, own: list[int], keys: list[int]) -> int:
        """b_i for row i of the target (from 1), clamped to [1, J] (Herold and Ney 2023, 3.3)."""
        total = len(keys)
        alignment = str(self.cfg.decode_alignment if self.decoding else self.cfg.train_alignment)
        if alignment == "one-to-one":
            found = i
        elif alignment == "linear":
            found = math.floor(
                (self.cfg.length_ratio * i if self.decoding else total * i / len(own)) + 0.5
            )
        else:
            found = 0
            for row in range(1, i + 1):
                opens = row == 1 or own[row - 1] != own[row - 2]
                found = (
                    keys.index(own[row - 1]) + 1 if opens and own[row - 1] in keys else found + 1
                )
                found = min(max(found, 1), total)
        return min(max(found, 1), total)


class ContextOracle(Oracle):
    """A Document Transformer."""

    def logits(self, source: list[int], target: list[int]) -> ndarray:
        """(tokens, vocabulary) of one sentence pair; the last sentence of the source is current."""
        cfg = self.cfg
        first = max(place for place, token in enumerate(source) if token == self.bos)
        current, before = source[first:], source[:first]
        words = [token for token in before if token not in (self.bos, self.eos)]
        # Eq. 4 to 9
        context = self.embed("encoder", [*words, self.eos])
        context = self.stack("encoder.context_encoder", "encoder", cfg.context_layers, context)
        sides = [
            context if str(cfg.context_in) in (side, "both") else None
            for side in ("encoder", "decoder")
        ]
        memory = self.stack(
            "encoder", "encoder", cfg.encoder_layers, self.embed("encoder", current), sides[0]
        )
        return self.decoded(target, sides[1], memory)


class FlatOracle(Oracle):
    """A Flat-Transformer (Ma et al. 2020)."""

    def logits(self, source: list[int], target: list[int]) -> ndarray:
        """(tokens, vocabulary) of one sentence pair."""
        first = max(place for place, token in enumerate(source) if token == self.bos)
        segments = self.p["encoder.embed_segments.weight"]
        x = (
            self.embed("encoder", source)
            + segments[[int(place >= first) for place in range(len(source))]]
        )
        for number in range(self.cfg.encoder_layers):
            if number == self.cfg.encoder_layers - self.cfg.current_layers:
                x = x[first:]
            x = self.layer("encoder", number, "encoder", x)
        x = x[-(len(source) - first) :]
        memory = self.norm("encoder.layer_norm", x) if self.cfg.encoder_normalize_before else x
        return self.decoded(target, None, memory)
