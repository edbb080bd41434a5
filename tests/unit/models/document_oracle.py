"""The Document Transformer spelled out: one sentence at a time, loops over tokens, heads and layers, float64.

Only parameters are taken from the model, by name; equations are those of Zhang et al. (2018).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Parameters = dict[str, Tensor]


def parameters(model) -> Parameters:
    """All by name, ready for gradients; a shared one has all of its names."""
    return dict(model.named_parameters(remove_duplicate=False))


def split(source: list[int], bos: int, eos: int, itself: bool) -> tuple[list[int], list[int]]:
    """The current sentence with its marks, and the context: words of those before, ``</s>`` at the end."""
    begins = [place for place, token in enumerate(source) if token == bos]
    current, before = source[begins[-1] :], source[: begins[-1]]
    if itself and not before:
        before = current
    return current, [token for token in before if token not in (bos, eos)] + [eos]


def positions(length: int, channels: int) -> Tensor:
    """Sines, then cosines; fairseq counts positions from 2 and computes in float32."""
    half = channels // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    rows = [torch.cat([torch.sin((i + 2) * rates), torch.cos((i + 2) * rates)]) for i in range(length)]
    return torch.stack(rows).double()


def embed(p: Parameters, side: str, tokens: list[int]) -> Tensor:
    table = p[f"{side}.embed_tokens.weight"]
    x = torch.stack([math.sqrt(table.shape[1]) * table[token] for token in tokens])
    if f"{side}.embed_positions.weight" in p:
        return x + torch.stack([p[f"{side}.embed_positions.weight"][place + 2] for place in range(len(tokens))])
    return x + positions(len(tokens), table.shape[1])


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    y = torch.einsum("oi,ni->no", p[f"{name}.weight"], x)
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    mean = x.mean(dim=1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(p: Parameters, name: str, heads: int, x: Tensor, keys: Tensor, causal: bool = False) -> Tensor:
    q, k, v = linear(p, f"{name}.q_proj", x), linear(p, f"{name}.k_proj", keys), linear(p, f"{name}.v_proj", keys)
    width = x.shape[1] // heads
    rows = []
    for i in range(len(x)):
        found = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            seen = range(i + 1 if causal else len(keys))
            scores = torch.stack([(q[i, part] * k[j, part]).sum() / math.sqrt(width) for j in seen])
            weights = scores.exp() / scores.exp().sum()
            found.append(sum(weights[j] * v[j, part] for j in seen))
        rows.append(torch.cat(found))
    return linear(p, f"{name}.out_proj", torch.stack(rows))


class Oracle:
    """A model's options, and its parameters."""

    def __init__(self, model):
        self.p, self.cfg = parameters(model), model.cfg
        self.bos, self.eos = model.decoder.bos, model.encoder.eos

    def layer(self, name: str, side: str, x: Tensor, context: Tensor | None, memory: Tensor | None) -> Tensor:
        """Self-attention, context attention if there is a context, cross-attention if a memory, feed-forward."""
        p, heads = self.p, getattr(self.cfg, f"{side}_attention_heads")
        before = getattr(self.cfg, f"{side}_normalize_before")
        causal = side == "decoder"

        def residual(x: Tensor, block: str, sublayer) -> Tensor:
            if before:
                return x + sublayer(norm(p, f"{name}.{block}_layer_norm", x))
            return norm(p, f"{name}.{block}_layer_norm", x + sublayer(x))  # Eq. 6

        x = residual(x, "self_attn", lambda h: attention(p, f"{name}.self_attn_local", heads, h, h, causal))
        if context is not None:
            if str(self.cfg.context_join) == "residual":
                x = residual(x, "context_attn", lambda h: attention(p, f"{name}.context_attn_local", heads, h, context))
            else:
                h = norm(p, f"{name}.context_attn_layer_norm", x) if before else x
                found = attention(p, f"{name}.context_attn_local", heads, h, context)  # Eq. 12, 16
                own_weight, found_weight = (
                    p[f"{name}.context_attn_gate.{part}_proj.weight"] for part in ("own", "found")
                )
                gate = 1 / (1 + (-(h @ own_weight.T + found @ found_weight.T)).exp())  # Eq. 22
                x = gate * x + (1 - gate) * found  # Eq. 21
                x = x if before else norm(p, f"{name}.context_attn_layer_norm", x)
        if memory is not None:
            x = residual(x, "encoder_attn", lambda h: attention(p, f"{name}.encoder_attn_local", heads, h, memory))
        return residual(x, "final", lambda h: linear(p, f"{name}.fc2", linear(p, f"{name}.fc1", h).clamp(min=0)))

    def stack(self, name: str, side: str, layers: int, x: Tensor, context=None, memory=None) -> Tensor:
        for number in range(layers):
            x = self.layer(f"{name}.layers.{number}", side, x, context, memory)
        return norm(self.p, f"{name}.layer_norm", x) if getattr(self.cfg, f"{side}_normalize_before") else x

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """(tokens, vocabulary) of one sentence pair."""
        p, cfg = self.p, self.cfg
        current, before = split(source, self.bos, self.eos, str(cfg.context_of_first) == "itself")
        context = self.stack(
            "encoder.context_encoder", "encoder", cfg.context_layers, embed(p, "encoder", before)
        )  # Eq. 4 to 9
        places = {"encoder": "encoder", "decoder": "decoder", "both": "encoder decoder"}[str(cfg.context_in)]
        read = {side: context if side in places else None for side in ("encoder", "decoder")}
        memory = self.stack(
            "encoder", "encoder", cfg.encoder_layers, embed(p, "encoder", current), read["encoder"]
        )  # Eq. 10 to 13
        x = self.stack(
            "decoder", "decoder", cfg.decoder_layers, embed(p, "decoder", target), read["decoder"], memory
        )  # Eq. 14 to 18
        return x @ p["decoder.output_projection.weight"].T  # Eq. 19
