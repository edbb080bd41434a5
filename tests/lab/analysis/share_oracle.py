"""Shares of cross-attention worked out by loops over tokens and heads, one document at a time, in float64."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import ExitStack
from operator import mul

import torch

from tests.core.models import window_oracle
from tests.core.models.batch_oracle import waves
from tests.full_passes import FullPasses

MODULES = ("encoder_attn_local", "encoder_attn_global")


@torch.no_grad()
def given(model, source: list[int], target: list[int], decoding: bool) -> dict[tuple[int, str], list]:
    """What every module of cross-attention is given and gives: (module, queries, keys, results), by layer and name.

    ``decoding``: token by token, each time the newest query of a prefix; else all at once.
    """
    parts = defaultdict(list)

    def keep(place: tuple[int, str]):
        def hook(module, inputs, output):
            rows = slice(-1, None) if decoding else slice(None)
            parts[place].append((module, inputs[0][rows], inputs[1], output[rows]))

        return hook

    with ExitStack() as hooks:
        for number, layer in enumerate(model.decoder.layers, 1):
            for name in MODULES:
                if hasattr(layer, name):
                    hooks.enter_context(getattr(layer, name).register_forward_hook(keep((number, name))))
        if decoding:
            state = FullPasses(model.decoder, model.encoder(torch.tensor([source]))["memory"][0], 1)
            for token in target:
                state.step(torch.tensor([token]), None)
        else:
            model(torch.tensor([source]), None, torch.tensor([target]))
    return {
        place: [
            steps[0][0],
            torch.cat([step[1] for step in steps]),
            steps[0][2],
            torch.cat([step[3] for step in steps]),
        ]
        for place, steps in parts.items()
    }


def sees(model, scope, i: int, j: int, tags: tuple[list[int], list[int]], decoding: bool) -> bool:
    """Whether query i of the target sees key j of the source, both from 0."""
    source, target = tags
    if scope.name == "window":
        alignment = str(model.cfg.decode_alignment if decoding else model.cfg.train_alignment)
        ratio = model.cfg.length_ratio if decoding else None
        return abs(j + 1 - window_oracle.centre(alignment, i + 1, target, source, ratio)) <= model.cfg.window
    return scope.name == "global" or source[j] == target[i]


def told(numbers, tags: list[int]) -> torch.Tensor:
    """What each token is told of its sentence's number, (tokens, channels)."""
    rows = [torch.from_numpy(waves(tag, numbers.channels)).double() for tag in tags]
    return torch.stack([numbers.map.weight @ row + numbers.map.bias for row in rows])


@torch.no_grad()
def shares(model, source: list[int], target: list[int], current: int | None = None, decoding: bool = False):
    """(share, flat) of each counted query by (layer, scope), and (share, flat, gate) by layer.

    ``current``: how many sentences are; aligned from the end. Else all, from the beginning.
    """
    bos, eos = model.decoder.bos, model.decoder.dictionary.eos()
    tags = tuple([side[: i + 1].count(bos) for i in range(len(side))] for side in (source, target))
    shift = 0 if current is None else tags[0][-1] - tags[1][-1]
    first = 1 if current is None else tags[1][-1] - current + 1
    rows = [i for i, token in enumerate(target) if token != eos and tags[1][i] >= first]
    places = given(model, source, target, decoding)
    attentions, layers = {}, {}
    for number, layer in enumerate(model.decoder.layers, 1):
        (block,) = (block for block in layer.blocks if block.memory == "source")
        by_module: list[list] = []
        for name, scopes in zip(MODULES, block.scopes, strict=False):
            module, x, memory, _ = places[number, name]
            assert x.dtype == torch.float64
            q, k = module.q_proj(x), module.k_proj(memory)
            if module.query_numbers is not None:
                k, q = k + told(module.key_numbers, tags[0]), q + told(module.query_numbers, tags[1])
            q, k = q.unflatten(-1, (module.heads, -1)).tolist(), k.unflatten(-1, (module.heads, -1)).tolist()
            by_module.append([])
            for scope in scopes:
                found = []
                for i in rows:
                    seen = [j for j in range(len(source)) if sees(model, scope, i, j, tags, decoding)]
                    own = [j for j in seen if tags[0][j] == tags[1][i] + shift]
                    share = 0.0
                    for head in range(module.heads):
                        query = q[i][head]
                        exps = {j: math.exp(sum(map(mul, query, k[j][head])) / math.sqrt(len(query))) for j in seen}
                        share += sum(exps[j] for j in own) / sum(exps.values()) / module.heads
                    found.append((share, len(own) / len(seen)))
                attentions.setdefault((number, scope.name), []).extend(found)
                by_module[-1].append(found)
        layers[number] = []
        for row, i in enumerate(rows):
            means = [[sum(one[row][n] for one in some) / len(some) for n in (0, 1)] for some in by_module]
            gate = math.nan
            if len(means) == 2:
                both = torch.cat([places[number, name][3][i] for name in MODULES])
                linear = layer.encoder_attn_gate[0]
                gate = float(torch.sigmoid(linear.weight @ both + linear.bias).mean())
                means = [[gate * one + (1 - gate) * other for one, other in zip(*means, strict=True)]]
            layers[number].append((*means[0], gate))
    return attentions, layers
