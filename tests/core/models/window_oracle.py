"""Window attention spelled out: masks by loops over positions that count from 1, one document at a time, float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def centre(alignment: str, i: int, own: list[int], keys: list[int], ratio: float | None) -> int:
    """b_i for row i of the target (from 1), clamped to [1, J]; ``own`` and ``keys`` are the tags of all tokens.

    ``ratio`` None: the whole document is known, so linear is J / I.
    """
    total, length = len(keys), len(own)
    if alignment == "one-to-one":
        found = i
    elif alignment == "linear":
        found = math.floor((total * i / length if ratio is None else ratio * i) + 0.5)
    else:
        found = 0
        for row in range(1, i + 1):
            opens = row == 1 or own[row - 1] != own[row - 2]
            if opens and own[row - 1] in keys:
                found = keys.index(own[row - 1]) + 1
            else:
                found += 1
            found = min(max(found, 1), total)
    return min(max(found, 1), total)


def attention(module, x: Tensor, keys: Tensor, seen: Tensor) -> Tensor:
    """softmax(q (k + r) / sqrt(d)) v with everything in the open; ``seen`` (Lq, Lk) bool."""
    split = lambda y: y.unflatten(-1, (module.heads, -1)).transpose(0, 1)  # noqa: E731
    q, k, v = split(module.q_proj(x)), split(module.k_proj(keys)), split(module.v_proj(keys))
    scores = torch.einsum("hid,hjd->hij", q, k)
    if module.relative is not None:
        table = module.relative.weight
        clip = len(table) // 2
        distance = torch.tensor([[min(max(j - i, -clip), clip) for j in range(len(keys))] for i in range(len(x))])
        scores = scores + torch.einsum("hid,ijd->hij", q, table[distance + clip])
    weights = (scores / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf).softmax(dim=-1)
    return module.out_proj(torch.einsum("hij,hjd->hid", weights, v).transpose(0, 1).flatten(1))


def run_layers(layers, x: Tensor, width: int, memory: Tensor | None = None, cross: Tensor | None = None) -> Tensor:
    """The layers of one side over one document, (L, channels); ``cross`` (Lq, Lk) bool says who sees what there."""
    rows = torch.arange(len(x))
    own = (rows[:, None] - rows).abs() <= width
    if memory is not None:
        own &= rows[:, None] >= rows
    for layer in layers:
        x = layer.self_attn_layer_norm(x + attention(layer.self_attn_local, x, x, own))
        if memory is not None:
            x = layer.encoder_attn_layer_norm(x + attention(layer.encoder_attn_local, x, memory, cross))
        x = layer.final_layer_norm(x + layer.fc2(functional.relu(layer.fc1(x))))
    return x


def logits(model, source: list[int], target: list[int], ratio: float | None = None) -> Tensor:
    """(tokens, vocabulary) of one document pair; with ``ratio`` as decoding has it, token by token."""
    cfg, bos = model.cfg, model.decoder.bos
    tags = [[side[: i + 1].count(bos) for i in range(len(side))] for side in (source, target)]
    alignment = str(cfg.train_alignment if ratio is None else cfg.decode_alignment)
    middle = [centre(alignment, i, tags[1], tags[0], ratio) for i in range(1, len(target) + 1)]
    cross = torch.tensor([[abs(j - b) <= cfg.window for j in range(1, len(source) + 1)] for b in middle])
    memory = run_layers(model.encoder.layers, _embed(model.encoder, source), cfg.window)
    x = run_layers(model.decoder.layers, _embed(model.decoder, target), cfg.window, memory, cross)
    return model.decoder.output_projection(x)


def _embed(side, tokens: list[int]) -> Tensor:
    x = math.sqrt(side.embed_tokens.embedding_dim) * side.embed_tokens(torch.tensor(tokens))
    if side.embed_positions is not None:
        x = x + side.embed_positions(torch.arange(len(tokens)), len(tokens)).to(x.dtype)
    return x
