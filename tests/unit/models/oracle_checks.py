"""A model against an oracle that computes its logits in another way: full pass, gradients, every step of decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gtransformer.models.common.decoding.prefix import PrefixState
from gtransformer.models.common.decoding.state import CachedState
from tests.support import pad_batch, relative_error

TOLERANCE = 1e-11  # float64
Documents = Sequence[tuple[list[int], list[int]]]  # source and target
Logits = Callable[[list[int], list[int]], torch.Tensor]  # of source and target -> (target length, vocabulary)


def batch(dictionary, documents: Documents, extra: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """(source padded on the left, target padded on the right), ``extra`` more than is needed."""
    pad = dictionary.pad()
    return (
        pad_batch([source for source, _ in documents], pad, left=True, extra=extra),
        pad_batch([target for _, target in documents], pad, left=False, extra=extra),
    )


def check_full_pass(model, dictionary, documents: Documents, logits: Logits, extra: int = 0) -> None:
    """Logits and gradients of all parameters, over a batch of documents of different lengths."""
    sources, targets = batch(dictionary, documents, extra)
    found, _ = model(sources, None, targets)
    weights = torch.randn_like(found)
    total = 0.0
    for row, (source, target) in enumerate(documents):
        expected = logits(source, target)
        total = total + (expected * weights[row, : len(target)]).sum()
        assert relative_error(found[row, : len(target)], expected) < TOLERANCE, row
    parameters = dict(model.named_parameters())
    ours = torch.autograd.grad((found * weights).sum(), list(parameters.values()))
    theirs = torch.autograd.grad(total, list(parameters.values()))
    for name, one, other in zip(parameters, ours, theirs, strict=True):
        # A bias of keys changes no softmax: its gradient is rounding alone.
        if not name.endswith("k_proj.bias"):
            assert relative_error(one, other) < 1e-9, name


def check_every_step(model, dictionary, documents: Documents, logits: Logits, caches: bool) -> None:
    """Each document by itself, token by token."""
    model.decoder.caches = caches
    for source, target in documents:
        state = model.decoder.begin(model.encoder(torch.tensor([source]))["memory"][0], 1)
        assert type(state) is (CachedState if caches else PrefixState)
        expected, tags = logits(source, target), model.decoder.tags(torch.tensor([target])).numpy()
        for step, token in enumerate(torch.tensor(target)):
            opens = token.eq(dictionary.bos()).view(1, 1).numpy()
            x = state.step(token.view(1), opens, tags[:, step : step + 1])
            assert relative_error(state.logits(x)[0], expected[step]) < TOLERANCE, (len(source), step)
