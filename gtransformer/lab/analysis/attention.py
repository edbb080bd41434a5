"""Attention and gates of one document, by sentence, while the model translates it.

Weights are recomputed from the inputs of the attention modules, with the dense engine's attention masks. The model
itself runs unchanged, with any engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.dense import DensePattern, attention_weights
from gtransformer.lab.analysis.watching import AttentionSite, can_be_watched, watching
from gtransformer.modules.relative import clipped_distance


@dataclass(frozen=True)
class AttentionMap:
    """Attention of one layer, averaged over its heads.

    Attributes:
        part: one of ``watching.PARTS``, CONTEXT_PARTS or BATCH_PARTS; reach: "group", or "global" over the document.
        layer: from 1, the lowest.
        mean: (query sentences, key sentences) float64, Eq. 12 of DocFlat.
        mass: (query tokens, key sentences) float64, a token's attention mass on each sentence.
    """

    part: str
    reach: str
    layer: int
    mean: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class GateValues:
    """A gate of one layer, averaged over channels.

    For PARTS it is the gate of Eq. 10 (Bao et al. 2021): 1 is group attention only. For CONTEXT_PARTS it is that of Eq.
    22 (Zhang et al. 2018): 1 is the sentence only, without its context. For BATCH_PARTS it is that of Eq. 8 and 9 (Wu
    et al. 2023): 1 is the attention across the batch only. tokens: (query tokens,) float64; sentences: (query
    sentences,) their means.
    """

    part: str
    layer: int
    tokens: np.ndarray
    sentences: np.ndarray


@dataclass
class Inspection:
    """All maps and gates of a document, lowest layer first; ``tags`` (tokens,): group tags of a part's queries."""

    maps: list[AttentionMap] = field(default_factory=list)
    gates: list[GateValues] = field(default_factory=list)
    tags: dict[str, np.ndarray] = field(default_factory=dict)

    def find(self, part: str, reach: str) -> list[AttentionMap]:
        """Return the maps of a part and reach, by layer."""
        return [one for one in self.maps if (one.part, one.reach) == (part, reach)]

    def drawn_from(self, part: str = "cross") -> np.ndarray:
        """Return the share of each source sentence for each target sentence, (target, source) float64; rows sum to 1.

        It is the sentence's share of cross-attention. In a layer with a gate, group and global attention have the
        gate's weights, g and 1 - g. The share is averaged over these layers (over all, if none has a gate), then over
        the tokens of the target sentence. For another ``part``, it is the same with its queries and keys.
        """
        gates = {gate.layer: gate.tokens[:, None] for gate in self.gates if gate.part == part}
        local = {one.layer: one.mass for one in self.maps if one.part == part and one.reach != "global"}
        whole = {one.layer: one.mass for one in self.find(part, "global")}
        if gates:
            layers = [gates[layer] * local[layer] + (1 - gates[layer]) * whole[layer] for layer in gates]
        else:
            layers = list((local | whole).values())  # without a gate a layer has only one kind
        return token_means(np.mean(layers, axis=0), self.tags[part])


def sentence_means(weights: Tensor, query_tags: Tensor, key_tags: Tensor) -> Tensor:
    """Return Eq. 12 of DocFlat (Wu et al. 2023, appendix D): the mean of each patch of a token-wise attention map.

    A_S(i, j) = sum of the patch A_ij of sentence i attending to sentence j, over its size.

    Args:
        weights: (queries, keys); query_tags (queries,), key_tags (keys,) int64: sentences from 1; 0: no sentence.

    Returns:
        (query sentences, key sentences) float64.
    """
    rows, columns = memberships(query_tags), memberships(key_tags)
    sizes = rows.sum(dim=0).unsqueeze(1) * columns.sum(dim=0)
    return rows.T @ weights.double() @ columns / sizes.clamp(min=1)


def memberships(tags: Tensor) -> Tensor:
    """Return (tokens, sentences) float64, 1 if a token is in a sentence, from (tokens,) tags; tag 0: no sentence."""
    return torch.nn.functional.one_hot(tags, int(tags.max()) + 1)[:, 1:].double()


def token_means(values: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """Return (sentences, ...), means over the tokens of each sentence, from (tokens, ...)."""
    return np.stack([values[tags == tag].mean(axis=0) for tag in range(1, int(tags.max()) + 1)])


@torch.no_grad()
def inspect(model: nn.Module, source: Sequence[int], target: Sequence[int]) -> Inspection:
    """Run one document through the model and record its attention and gates.

    Args:
        source, target: ``<s> a b </s> <s> c </s>`` as indices, the inputs of encoder and decoder.

    Raises UserError for another kind of model.
    """
    if not can_be_watched(model):
        raise UserError(f"{type(model).__name__}: attention can only be shown for G-Transformer models")
    device = next(model.parameters()).device
    found = Inspection()
    with recording(model, found):
        tokens = torch.tensor([source], device=device)
        model.eval()(tokens, None, torch.tensor([target], device=device))
    return found


@contextmanager
def recording(model: nn.Module, found: Inspection) -> Iterator[None]:
    """Fill ``found`` while the model runs on a single document.

    For a batch of pseudo-documents, only attention across the batch is recorded.
    """

    def see(site: AttentionSite, module, x: Tensor, memory: Tensor, pattern) -> None:
        queries, keys = pattern.reach.queries, pattern.reach.keys
        if queries.batch > 1:
            return
        relative, rows = None if module.relative is None else module.relative.weight, None
        if relative is not None:
            rows = clipped_distance(queries.offset, keys.offset, relative).unsqueeze(0)
        q = queries.pad(module.project_queries(x, queries.tag))
        k = keys.pad(module.keys_and_values(memory, keys.tag)[0])
        allowed = DensePattern(pattern.reach).allowed
        weights = attention_weights(q, k, allowed, relative, rows)[0].double().mean(dim=0)
        weights = weights[queries.index][:, keys.index].cpu()  # only tokens in the layers: not all have <s>
        query_tags, key_tags = torch.from_numpy(queries.tag), torch.from_numpy(keys.tag)
        mean = sentence_means(weights, query_tags, key_tags)
        mass = weights @ memberships(key_tags)
        found.maps.append(AttentionMap(site.part, site.reach, site.layer, mean.numpy(), mass.numpy()))
        found.tags[site.part] = queries.tag

    def see_gate(part: str, layer: int, values: Tensor) -> None:
        tokens = values.double().mean(dim=-1).cpu().numpy()
        # The gate follows the attention of its own block and has its queries as tokens.
        found.gates.append(GateValues(part, layer, tokens, token_means(tokens, found.tags[part])))

    with watching(model, see, see_gate):
        yield
