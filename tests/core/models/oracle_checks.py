"""A model against an oracle that computes its logits in another way: full pass, gradients, every step of decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from tests.full_passes import use_caches
from tests.support import pad_batch, relative_error

TOLERANCE = 1e-11  # float64
Documents = Sequence[tuple[list[int], list[int]]]  # source and target
# Of source and target -> (target length, vocabulary)
Logits = Callable[[list[int], list[int]], torch.Tensor | np.ndarray]
TINY = 1e-30  # step of complex derivatives, which have no rounding error that would grow with it


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


def arrays(model) -> dict[str, np.ndarray]:
    """All parameters by name, a shared one by all of its names; tables of sinusoids as if they were learned."""
    found = {name: value.detach().numpy() for name, value in model.named_parameters(remove_duplicate=False)}
    for side in ("encoder", "decoder"):
        positions = getattr(model, side).embed_positions
        positions(torch.tensor([0]), 1)  # sinusoids are made when they are asked for
        table = positions.weight if hasattr(positions, "weight") else positions.weights
        found[f"{side}.embed_positions.weight"] = table.detach().numpy()
    return found


def check_logits(model, dictionary, documents: Documents, oracle: type, extra: int = 0) -> torch.Tensor:
    """The full pass over a batch of documents against an oracle in NumPy; the model's logits."""
    source, target = batch(dictionary, documents, extra)
    found, _ = model(source, None, target)
    for row, expected in enumerate(numpy_logits(model, dictionary, documents, oracle, arrays(model))):
        assert relative_error(found[row, : len(expected)], torch.from_numpy(expected)) < TOLERANCE, row
    return found


def numpy_logits(model, dictionary, documents: Documents, oracle: type, parameters: dict) -> list[np.ndarray]:
    """Logits of each document by itself."""
    made = oracle(model.cfg, parameters, dictionary.bos(), dictionary.eos())
    return [made.logits(source, target) for source, target in documents]


def check_derivatives(model, dictionary, documents: Documents, oracle: type, extra: int = 0) -> None:
    """``check_logits``, and the derivatives in random directions of the parameters that stand together in a module."""
    found = check_logits(model, dictionary, documents, oracle, extra)
    weights, p, draw = torch.randn_like(found), arrays(model), np.random.default_rng(1)
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    together: dict[str, list[tuple[list[str], np.ndarray]]] = {}
    for same, gradient in zip(names.values(), torch.autograd.grad((found * weights).sum(), list(names)), strict=True):
        together.setdefault(same[0].rsplit(".", 2)[0], []).append((same, gradient.numpy()))
    for module, gradients in together.items():
        moved, ours, norm = dict(p), 0.0, 0.0
        for same, gradient in gradients:
            direction = draw.standard_normal(gradient.shape)
            moved |= {name: p[name] + 1j * TINY * direction for name in same}
            ours, norm = ours + (gradient * direction).sum(), norm + np.linalg.norm(gradient)
        logits = numpy_logits(model, dictionary, documents, oracle, moved)
        theirs = sum((one.imag / TINY * weights[row, : len(one)].numpy()).sum() for row, one in enumerate(logits))
        assert abs(ours - theirs) < 1e-9 * norm, module


def check_every_step(model, dictionary, documents: Documents, logits: Logits, caches: bool) -> None:
    """Each document by itself, token by token."""
    use_caches(model, caches)
    for source, target in documents:
        state = model.decoder.begin(model.encoder(torch.tensor([source]))["memory"][0], 1)
        expected, tags = torch.as_tensor(logits(source, target)), model.decoder.tags(torch.tensor([target])).numpy()
        for step, token in enumerate(torch.tensor(target)):
            x = state.step(token.view(1), tags[:, step : step + 1])
            assert relative_error(state.logits(x)[0], expected[step]) < TOLERANCE, (len(source), step)
