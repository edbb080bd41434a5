"""The attention of a trained model on documents: entropy, share on the aligned sentence, and
pictures.

Entropy is -sum p log2 p of a query's weights, mean over heads (Bao et al. 2021, section 3.2); flat
attention over n keys has log2 n. The share is the sum of a target token's weights on the source
sentence of the same number (Herold and Ney 2023, Table 1). Weights are recomputed from the inputs
of the attention modules; the model runs unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.lab.results import new_figure
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.reach import Reach
from gtransformer.plugin.load_model import load_model


@dataclass
class Attention:
    """One attention of one layer over one document.

    Attributes:
        part: encoder, decoder or cross; reach: group or global; layer: from 1, the lowest.
        weights: (Nq, Nk) float64, means over heads; rows of queries without a key are zero.
        seen: (Nq,) number of keys that a query sees.
        query_tags, key_tags: (Nq,), (Nk,) numbers of sentences, from 1.
        gate: (Nq,) share of group attention (Eq. 10), mean over channels; None without a gate.
    """

    part: str
    reach: str
    layer: int
    weights: Tensor
    seen: Tensor
    query_tags: Tensor
    key_tags: Tensor
    gate: Tensor | None = None

    def queries(self) -> int:
        """Return the number of queries that see a key."""
        return int((self.seen > 0).sum())

    def entropy(self) -> tuple[float, float]:
        """Return mean entropy and mean log2 of the number of keys, in bits, over queries that see a
        key."""
        there = self.seen > 0
        bits = torch.special.entr(self.weights[there]).sum(dim=1) / math.log(2)
        return float(bits.mean()), float(self.seen[there].double().log2().mean())

    def share(self) -> float:
        """Return the mean share of a query's weights on the sentence of its own number."""
        own = self.query_tags.unsqueeze(1) == self.key_tags
        return float((self.weights * own).sum(dim=1).mean())

    def by_sentence(self) -> Tensor:
        """Return (query sentences, key sentences): the mean over a sentence's tokens of their
        weights on another."""
        rows, columns = _of_sentence(self.query_tags), _of_sentence(self.key_tags)
        return rows.T @ self.weights @ columns / rows.sum(dim=0).unsqueeze(1)

    def gate_by_sentence(self) -> Tensor:
        """Return (query sentences,): the mean gate of a sentence's tokens."""
        rows = _of_sentence(self.query_tags)
        return rows.T @ self.gate / rows.sum(dim=0)


def _of_sentence(tags: Tensor) -> Tensor:
    """Return (tokens, sentences): 1 where a token belongs to a sentence, else 0."""
    return nn.functional.one_hot(tags.long())[:, 1:].double()


@torch.no_grad()
def inspect(model: nn.Module, source: Sequence[int], target: Sequence[int]) -> list[Attention]:
    """Return every attention of a model on one document, lowest layer first.

    Args:
        source, target: ``<s> a b </s> <s> c </s>`` as indices, the inputs of encoder and decoder.

    Raises UserError for a model without attention of this package, and for relative positions.
    """
    # Their weights depend on more than queries and keys, from which they are recomputed here.
    if any(getattr(module, "relative", None) is not None for module in model.modules()):
        raise UserError("attention with relative positions cannot be shown")
    device = next(model.parameters()).device
    with watching(model.eval()) as found:
        model(torch.tensor([source], device=device), None, torch.tensor([target], device=device))
    if not found:
        raise UserError(f"{type(model).__name__}: its attention cannot be shown")
    return found


@contextmanager
def watching(model: nn.Module) -> Iterator[list[Attention]]:
    """Yield a list that the running model fills with every attention of its batches."""
    found: list[Attention] = []
    handles = []

    def see(part: str, layer: int, scopes):
        def hook(module: MultiheadAttention, inputs: tuple, _output: Tensor) -> None:
            x, memory, *patterns = inputs
            for scope, pattern in zip(scopes, patterns, strict=True):
                found.append(
                    Attention(part, scope.name, layer, *_weights(module, x, memory, pattern.reach))
                )

        return hook

    def see_gate(part: str, layer: int):
        def hook(_module: nn.Module, _inputs: tuple, output: Tensor) -> None:
            # A gate runs after the attentions that it mixes, so these are in the list already.
            for one in found:
                if (one.part, one.layer) == (part, layer):
                    one.gate = output.double().mean(dim=-1).cpu()

        return hook

    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(getattr(model, side, None), "layers", ()), 1):
            for block in getattr(layer, "blocks", ()):
                part = side if block.memory is None else "cross"
                for name, scopes in zip(block.modules, block.scopes, strict=True):
                    module = getattr(layer, name)
                    if isinstance(module, MultiheadAttention):
                        handles.append(module.register_forward_hook(see(part, number, scopes)))
                if block.gate is not None:
                    gate = getattr(layer, block.gate)
                    handles.append(gate.register_forward_hook(see_gate(part, number)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _weights(
    module: MultiheadAttention, x: Tensor, memory: Tensor, reach: Reach
) -> tuple[Tensor, ...]:
    """Return weights, seen keys and both sides' tags, as of ``Attention``."""
    # In the precision of the parameters: bfloat16 would blur the entropy.
    with torch.autocast(x.device.type, enabled=False):
        dtype = module.q_proj.weight.dtype
        queries = module.project_queries(x.to(dtype), reach.queries.tag)
        keys, _ = module.keys_and_values(memory.to(dtype), reach.keys.tag)
    first, last = torch.as_tensor(reach.first), torch.as_tensor(reach.last)
    column = torch.arange(len(keys))
    visible = (column >= first[:, None]) & (column < last[:, None])
    queries = queries * queries.shape[-1] ** -0.5
    scores = torch.einsum("qhd,khd->hqk", queries, keys).double().cpu()
    weights = scores.masked_fill(~visible, -math.inf).softmax(dim=-1)
    # A query that sees no key gives NaN; its weights are zero, as in the model.
    weights = weights.nan_to_num().mean(dim=0)
    tags = torch.as_tensor(reach.queries.tag), torch.as_tensor(reach.keys.tag)
    return weights, last - first, *tags


def inspect_split(
    prepared: Path, checkpoint: Path, split: str, most: int
) -> Iterator[list[Attention]]:
    """Yield the attention on each of the first instances of a split, with the reference as the
    target."""
    model, task = load_model(prepared, checkpoint, cpu=True)
    task.load_dataset(split)
    dataset = task.dataset(split)
    for number in range(min(most, len(dataset))):
        inputs = dataset.collater([dataset[number]])["net_input"]
        yield inspect(
            model, inputs["src_tokens"][0].tolist(), inputs["prev_output_tokens"][0].tolist()
        )


def draw(found: Sequence[Attention], path: Path) -> None:
    """Draw cross-attention of the top layer by sentence, and the gates of all layers.

    A panel for each attention, target sentences down, source sentences across; each has its own
    scale, because weights over a document are small.
    """
    cross = [one for one in found if one.part == "cross"]
    top = [one for one in cross if one.layer == cross[-1].layer]
    gated = {one.layer: one.gate_by_sentence() for one in cross if one.gate is not None}
    panels = len(top) + bool(gated)
    figure, grid = new_figure(3 * panels, 3.2, panels)
    for one, axes in zip(top, grid, strict=False):
        image = axes.imshow(one.by_sentence(), cmap="Blues", vmin=0, aspect="auto")
        axes.set_title(f"layer {one.layer}, {one.reach} attention", fontsize=10)
        axes.set(xlabel="source sentence", ylabel="target sentence")
        figure.colorbar(image, ax=axes)
    for layer, means in gated.items():
        grid[-1].plot(means, range(len(means)), label=f"layer {layer}")
    if gated:
        grid[-1].set_title("gate (share of group attention)", fontsize=10)
        grid[-1].set(xlim=(0, 1), ylim=grid[0].get_ylim(), ylabel="target sentence")
        grid[-1].legend(fontsize=8)
    figure.savefig(path)
