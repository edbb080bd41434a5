"""Entropy of attention in bits: low if a query attends to few keys, log2 n if attention is flat over n keys.

Bao et al. (2021) plot it in Figures 4, 5 and 8 and read it as the sign of a local minimum (section 3.2, "Attention
Distribution"). For one query with weights p over its visible keys, H = -sum p_i log2 p_i. p is the mean over the heads
of their weights (Eq. 4 or 6), as in the authors' release, or, on request, the weights of each head.

Padding and queries without a visible key are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.lab.analysis.watching import AttentionSite, can_be_watched, per_query, projections, watching
from gtransformer.modules.attention import MultiheadAttention, Pattern


def entropy_bits(weights: Tensor) -> Tensor:
    """Return -sum p log2 p over the last dimension, with 0 log 0 = 0; (..., keys) probabilities -> (...)."""
    return torch.special.entr(weights).sum(dim=-1) / math.log(2)


def query_entropies(
    q: Tensor, k: Tensor, pattern: Pattern, per_head: bool = False, relative: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the entropy of each query's attention.

    Args:
        q, k, pattern, relative: as of ``watching.per_query``.
        per_head: an entropy for each head instead of one of the mean over heads.

    Returns:
        bits (Nq, 1 or heads), 0 for a query without a visible key; and the number of visible keys, (Nq,) int64.
    """

    def bits(weights: Tensor, *_) -> Tensor:
        return entropy_bits(weights if per_head else weights.mean(dim=1, keepdim=True)).transpose(1, 2)

    keys = torch.from_numpy(pattern.reach.last - pattern.reach.first).to(q.device)
    return per_query(q, k, pattern, q.shape[1] if per_head else 1, bits, relative), keys


@dataclass
class Tally:
    """Sums over the queries of one attention layer.

    bits: (1 or heads,) float64; flat: the sum of log2 n, the entropies of flat attention over the n visible keys;
    queries: how many were counted.
    """

    bits: Tensor
    flat: float = 0.0
    queries: int = 0

    def mean(self) -> list[float]:
        """Return the mean entropy over queries, in bits: one number, or one for each head."""
        return (self.bits / max(self.queries, 1)).tolist()


@dataclass
class EntropyMeter:
    """A meter of the entropy of every attention layer over all batches that a watched model sees."""

    per_head: bool = False
    tallies: dict[AttentionSite, Tally] = field(default_factory=dict)

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Measure while the model runs. Raises UserError for a model of another kind."""
        if not can_be_watched(model):
            raise UserError(f"{type(model).__name__}: attention entropy is measured for G-Transformer models only")
        with watching(model, self.see):
            yield

    @torch.no_grad()
    def see(self, site: AttentionSite, module: MultiheadAttention, x: Tensor, memory: Tensor, pattern: Pattern) -> None:
        """Add the queries of one call of an attention module."""
        q, k, relative = projections(module, x, memory, pattern.reach)
        bits, keys = query_entropies(q, k, pattern, self.per_head, relative)
        counted = keys > 0
        bits, keys = bits[counted].double(), keys[counted].double()
        tally = self.tallies.setdefault(site, Tally(torch.zeros(bits.shape[1], dtype=torch.float64)))
        tally.bits += bits.sum(dim=0).cpu()
        tally.flat += float(keys.log2().sum())
        tally.queries += len(keys)

    def to_json(self) -> list[dict]:
        """Return a record for each layer, for a result file; ``bits`` is a list of one mean entropy, or one for each
        head.
        """
        return [
            {
                "part": site.part,
                "reach": site.reach,
                "layer": site.layer,
                "queries": tally.queries,
                "bits": [round(value, 6) for value in tally.mean()],
                "flat": round(tally.flat / max(tally.queries, 1), 6),
            }
            for site, tally in sorted(
                self.tallies.items(), key=lambda item: (item[0].part, item[0].reach, item[0].layer)
            )
        ]
