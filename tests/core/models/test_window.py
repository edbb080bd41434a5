"""Window attention against masks spelled out by loops: full pass, gradients, decoding with and without caches."""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import pytest
import torch

from gtransformer.models.window import ALIGNMENTS, WindowTransformerConfig, WindowTransformerModel
from tests.core.models import window_oracle
from tests.core.models.oracle_checks import TOLERANCE, check_every_step, check_full_pass
from tests.support import drawn, random_document, relative_error, with_engine

pytestmark = pytest.mark.slow

RATIO = 1.3
# Words by sentence, source and target: one-token documents, far more on one side, more sentences on one side.
SHAPES = [([3, 1, 5], [2, 2, 4]), ([0], [0]), ([9, 8], [1, 0]), ([1], [7]), ([2, 2, 2], [3]), ([4], [2, 1, 1])]


def window_model(dictionary, width: int, **options) -> WindowTransformerModel:
    """A tiny model in float64 with weights drawn wide."""
    own = {"window": width, "length_ratio": RATIO, **options}
    return drawn(dictionary, WindowTransformerModel, WindowTransformerConfig, **own)


def pairs(dictionary) -> list[tuple[list[int], list[int]]]:
    """The documents of SHAPES, and one whose single token is ``<s>``."""
    draw = random.Random(2)
    found = [tuple(random_document(draw, dictionary, lengths) for lengths in shape) for shape in SHAPES]
    return [*found, ([dictionary.bos()], [dictionary.bos()])]


@pytest.mark.parametrize(
    ("engine", "width", "positions", "alignment"),
    [*product(("packed",), (1, 3, 40), ("absolute", "relative"), ALIGNMENTS), ("dense", 3, "relative", "linear")],
)
def test_forward_and_backward_equal_the_oracle(dictionary, engine, width, positions, alignment):
    options = {"window_positions": positions, "train_alignment": alignment}
    model = with_engine(window_model(dictionary, width, **options), engine)
    check_full_pass(model, dictionary, pairs(dictionary), partial(window_oracle.logits, model))


@torch.no_grad()
@pytest.mark.parametrize(
    ("caches", "width", "positions", "alignment"),
    [
        *product((True,), (1, 4, 60), ("absolute", "relative"), ALIGNMENTS),
        *product((False,), (4,), ("relative",), ALIGNMENTS),
    ],
)
def test_every_step_equals_the_oracle(dictionary, caches, width, positions, alignment):
    """Token by token, where the target's length is not known; the linear alignment then has its ratio."""
    model = window_model(dictionary, width, window_positions=positions, decode_alignment=alignment)
    check_every_step(model, dictionary, pairs(dictionary), partial(window_oracle.logits, model, ratio=RATIO), caches)


@torch.no_grad()
def test_long_documents(dictionary):
    """More tokens than there is room for at first; old ones are stored elsewhere, and nothing changes."""
    model = window_model(dictionary, 5, decode_alignment="sentence")
    draw = random.Random(4)
    source, target = (random_document(draw, dictionary, [6] * 30) for _ in range(2))
    state = model.decoder.begin(model.encoder(torch.tensor([source]))["memory"][0], 1)
    expected = window_oracle.logits(model, source, target, RATIO)
    tags = model.decoder.tags(torch.tensor([target])).numpy()
    for step, token in enumerate(torch.tensor(target)):
        x = state.step(token.view(1), tags[:, step : step + 1])
    assert relative_error(state.logits(x)[0], expected[-1]) < TOLERANCE
