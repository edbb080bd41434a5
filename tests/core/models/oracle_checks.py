"""A model against its oracle in NumPy: full pass, derivatives, every step of decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from tests.full_passes import step, use_caches
from tests.support import pad_batch, relative_error

TOLERANCE = 1e-11  # float64
Documents = Sequence[tuple[list[int], list[int]]]  # source and target
TINY = 1e-30  # step of complex derivatives, which have no rounding error that would grow with it


def batch(dictionary, documents: Documents, extra: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """(source padded on the left, target padded on the right), ``extra`` more than is needed."""
    pad = dictionary.pad()
    return (
        pad_batch([source for source, _ in documents], pad, left=True, extra=extra),
        pad_batch([target for _, target in documents], pad, left=False, extra=extra),
    )


def arrays(model) -> dict[str, np.ndarray]:
    """All parameters by name, a shared one by all of its names; tables of sinusoids as if they were
    learned.
    """
    found = {
        name: value.detach().numpy()
        for name, value in model.named_parameters(remove_duplicate=False)
    }
    for side in ("encoder", "decoder"):
        positions = getattr(model, side).embed_positions
        if positions is not None:
            positions(torch.tensor([0]), 1)  # sinusoids are made when they are asked for
            table = positions.weight if hasattr(positions, "weight") else positions.weights
            found[f"{side}.embed_positions.weight"] = table.detach().numpy()
    return found


def numpy_logits(
    model, dictionary, documents: Documents, oracle: type, parameters: dict
) -> list[np.ndarray]:
    """Logits of each document by itself."""
    made = oracle(model.cfg, parameters, dictionary.bos(), dictionary.eos())
    return [made.logits(source, target) for source, target in documents]


def check_derivatives(
    found: torch.Tensor, model, logits: Callable[[dict], list[np.ndarray]]
) -> None:
    """The logits of a padded batch, and their derivatives in random directions of the parameters
    that stand together in a module; ``logits``: from parameters those of each row.
    """
    for row, expected in enumerate(logits(arrays(model))):
        assert (
            relative_error(found[row, : len(expected)], torch.from_numpy(expected)) < TOLERANCE
        ), row
    weights, p, draw = torch.randn_like(found), arrays(model), np.random.default_rng(1)
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    together: dict[str, list[tuple[list[str], np.ndarray]]] = {}
    for same, gradient in zip(
        names.values(), torch.autograd.grad((found * weights).sum(), list(names)), strict=True
    ):
        together.setdefault(same[0].rsplit(".", 2)[0], []).append((same, gradient.numpy()))
    for module, gradients in together.items():
        moved, ours, norm = dict(p), 0.0, 0.0
        for same, gradient in gradients:
            direction = draw.standard_normal(gradient.shape)
            moved |= {name: p[name] + 1j * TINY * direction for name in same}
            ours, norm = ours + (gradient * direction).sum(), norm + np.linalg.norm(gradient)
        rows = enumerate(logits(moved))
        theirs = sum(
            (one.imag / TINY * weights[row, : len(one)].numpy()).sum() for row, one in rows
        )
        assert abs(ours - theirs) < 1e-9 * norm, module


def decoded(model, source: list[int], target: list[int]) -> Iterator[torch.Tensor]:
    """The logits (1, vocabulary) behind each token of a target, which is read token by token."""
    memory = model.encoder(torch.tensor([source]))["memory"][0]
    state = model.decoder.begin(memory, np.arange(1), 1)
    tags = model.decoder.tags(torch.tensor([target])).numpy()
    for position, token in enumerate(target):
        x = step(state, np.array([[token]]), tags[:, position : position + 1])
        yield state.logits(x)[0]


def check_every_step(model, dictionary, documents: Documents, oracle: type, caches: bool) -> None:
    """Each document by itself, token by token."""
    use_caches(model, caches)
    expected = numpy_logits(model, dictionary, documents, oracle, arrays(model))
    for (source, target), logits in zip(documents, expected, strict=True):
        pairs = zip(decoded(model, source, target), torch.from_numpy(logits), strict=True)
        for position, (found, wanted) in enumerate(pairs):
            assert relative_error(found, wanted) < TOLERANCE, (len(source), position)
