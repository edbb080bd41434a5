"""The loss of a packed batch as one graph, compiled once for all batches of a training.

Encoder, decoder and loss run over tensors of fixed shapes (``data.packing``). The layers are those
of every other pass; only their view differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from gtransformer.data.packing import DOCUMENTS, SENTENCES
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.modules.fused_loss import fused_cross_entropy
from gtransformer.modules.positions import LearnedPositions, SinusoidalPositions
from gtransformer.modules.segments import SegmentPattern, Segments

BACKEND = "inductor"  # what generates code from a graph
KINDS = {BySentence: SENTENCES, ByDocument: DOCUMENTS}


@dataclass
class PackedMemory:
    """Encoder states of a packed batch, (N, channels)."""

    states: Tensor
    segments: Segments


class PackedView:
    """What the layers see of a packed batch; see ``layer.View``."""

    def __init__(self, own: Segments, memories: dict[str, PackedMemory], causal: bool):
        self.own, self.memories, self.causal = own, memories, causal

    def pattern(self, block: AttentionBlock, scope: Scope) -> SegmentPattern:
        """Return the pattern of a block's scope."""
        is_own = block.memory is None
        keys = self.own if is_own else self.memories[block.memory].segments
        return SegmentPattern(self.own, keys, KINDS[type(scope)], self.causal and is_own)


def packed_loss(model: nn.Module, batch: dict, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return summed loss and negative log likelihood; ``batch`` is that of ``packing.Packer``."""
    sides = {name: dict(batch[name]) for name in ("source", "target")}
    predicted = sides["target"].pop("predicted")
    source, target = Segments(**sides["source"]), Segments(**sides["target"])
    encoder, decoder = model.encoder, model.decoder
    with encoder.autocast():
        states = _states(encoder, source, {})
        features = _states(decoder, target, {"source": PackedMemory(states, source)})
        counts = predicted.ne(decoder.padding)
        some_word = decoder.predictable[0]  # where nothing is predicted
        product = decoder.output_product(features, predicted.where(counts, some_word))
        return fused_cross_entropy(*product, smoothing, counts)


def _states(
    side: DocumentEmbedding, segments: Segments, memories: dict[str, PackedMemory]
) -> Tensor:
    longest = segments.longest[SENTENCES if side.restarts else DOCUMENTS]
    if isinstance(side.embed_positions, LearnedPositions):
        # Rounded up, it may be more than the table has.
        longest = min(longest, side.embed_positions.positions)
    x = side.embed(segments.tokens, segments.position, longest)
    return side.run_layers(x, PackedView(segments, memories, side.causal))


@cache
def _compiled(backend: str) -> Callable:
    # Each shard of a corpus may need a larger capacity, and thus a graph of its own.
    torch._dynamo.config.recompile_limit = 64
    # Without this, hooks that a layer gets after compilation are ignored silently.
    torch._dynamo.config.skip_nnmodule_hook_guards = False
    return torch.compile(packed_loss, fullgraph=True, dynamic=False, backend=backend)


def compiled_loss(model: nn.Module, batch: dict, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return what ``packed_loss`` does, by a graph that is compiled for the first batch."""
    for side, name in ((model.encoder, "source"), (model.decoder, "target")):
        if isinstance(side.embed_positions, SinusoidalPositions):  # a graph cannot let it grow
            side.embed_positions.grow(max(batch[name]["longest"].values()))
    return _compiled(BACKEND)(model, batch, smoothing)


def compiler_fault(device: str) -> str | None:
    """Compile and run something small; return the first line of what fails, None if nothing."""
    x = torch.ones(8, device=device, requires_grad=True)
    try:
        torch.compile(lambda x: x.exp().sum(), backend=BACKEND)(x).backward()
    except Exception as error:  # of a C compiler, Triton, a driver
        return f"the compiler fails: {error}".splitlines()[0]
    return None


def why_not_compiled(model: nn.Module) -> str | None:
    """Return in words what of a model has no graph of fixed shapes; None if nothing."""
    if type(model.encoder) is not DocumentEncoder or type(model.decoder) is not DocumentDecoder:
        return "its encoder or decoder reads a batch in a way of its own"
    blocks = [
        block
        for side in (model.encoder, model.decoder)
        for one in side.layers
        for block in one.blocks
    ]
    scopes = {type(one) for block in blocks for scopes in block.scopes for one in scopes}
    if not scopes <= KINDS.keys():
        return "its attention sees neither sentences nor whole documents"
    if any(block.recurrent or block.relative is not None for block in blocks):
        return "it has recurrent units or relative positions"
    if any(
        one._forward_hooks
        or one._forward_pre_hooks
        or one._backward_hooks
        or one._backward_pre_hooks
        for one in model.modules()
    ):
        return "its layers have hooks"
    cfg = model.cfg
    if cfg.attention_dropout > 0:
        return "--attention-dropout: the attention of fixed shapes has none"
    if cfg.checkpoint_activations:
        return "--checkpoint-activations"
    return None
