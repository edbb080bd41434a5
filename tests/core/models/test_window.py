"""Window attention against masks spelled out by loops: full pass, gradients, decoding with and without caches."""

from __future__ import annotations

import random
from argparse import Namespace
from dataclasses import fields
from functools import partial
from itertools import product

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from gtransformer.models.window.attention import ALIGNMENTS
from tests.core.models import window_oracle
from tests.core.models.oracle_checks import TOLERANCE, check_every_step, check_full_pass
from tests.core.search.conftest import Translator
from tests.support import random_document, relative_error, tiny_config

pytestmark = pytest.mark.slow

RATIO = 1.3
# Words by sentence, source and target: one-token documents, far more on one side, more sentences on one side.
SHAPES = [([3, 1, 5], [2, 2, 4]), ([0], [0]), ([9, 8], [1, 0]), ([1], [7]), ([2, 2, 2], [3]), ([4], [2, 1, 1])]


def window_model(dictionary, width: int, **options) -> WindowTransformerModel:
    """A tiny model in float64 with weights drawn wide."""
    shared = {field.name for field in fields(DocumentModelConfig)}
    sizes = {key: value for key, value in vars(tiny_config()).items() if key in shared}
    cfg = WindowTransformerConfig(**{**sizes, "window": width, "length_ratio": RATIO, **options})
    torch.manual_seed(1)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = WindowTransformerModel.build_model(cfg, task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.dim() == 2 else parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


def pairs(dictionary) -> list[tuple[list[int], list[int]]]:
    """The documents of SHAPES, and one whose single token is ``<s>``."""
    draw = random.Random(2)
    found = [tuple(random_document(draw, dictionary, lengths) for lengths in shape) for shape in SHAPES]
    return [*found, ([dictionary.bos()], [dictionary.bos()])]


@pytest.mark.parametrize("engine", ["packed", "dense"])
@pytest.mark.parametrize("width, positions, alignment", [*product((1, 3, 40), ("absolute", "relative"), ALIGNMENTS)])
def test_forward_and_backward_equal_the_oracle(dictionary, engine, width, positions, alignment):
    options = {"window_positions": positions, "train_alignment": alignment, "group_attention": engine}
    model = window_model(dictionary, width, **options)
    check_full_pass(model, dictionary, pairs(dictionary), partial(window_oracle.logits, model))


@torch.no_grad()
@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("width, positions, alignment", [*product((1, 4, 60), ("absolute", "relative"), ALIGNMENTS)])
def test_every_step_equals_the_oracle(dictionary, caches, width, positions, alignment):
    """Token by token, where the target's length is not known; the linear alignment then has its ratio."""
    model = window_model(dictionary, width, window_positions=positions, decode_alignment=alignment)
    check_every_step(model, dictionary, pairs(dictionary), partial(window_oracle.logits, model, ratio=RATIO), caches)


@torch.no_grad()
@pytest.mark.parametrize("at_once", [0, 2])
@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_search_finds_the_same_without_caches(dictionary, at_once, rule, alignment):
    """Beams change places, finished documents make room for waiting ones; with and without the rule of sentences."""
    model = window_model(dictionary, 2, decode_alignment=alignment)
    draw = random.Random(3)
    sources = [random_document(draw, dictionary, lengths) for lengths in ([3, 1], [2], [1, 4, 2], [6])]
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 3, "nbest": 3}
    found = []
    for caches in (True, False):
        model.decoder.caches = caches
        task = {"documents_at_once": at_once, "doc_mode": "partial" if rule else "full"}
        found.append(Translator(dictionary, [model], task, **options)(sources))
    for ours, slow in zip(*found, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in slow]
        scores = [torch.stack([one["score"] for one in side]) for side in (ours, slow)]
        assert torch.allclose(*scores, atol=1e-9)


@torch.no_grad()
def test_long_documents_drop_what_no_window_sees(dictionary):
    """More tokens than there is room for at first: slots are dropped, and nothing changes."""
    model = window_model(dictionary, 5, decode_alignment="sentence")
    draw = random.Random(4)
    source, target = (random_document(draw, dictionary, [6] * 30) for _ in range(2))
    state = model.decoder.begin(model.encoder(torch.tensor([source]))["memory"][0], 1)
    expected = window_oracle.logits(model, source, target, RATIO)
    tags = model.decoder.tags(torch.tensor([target])).numpy()
    for step, token in enumerate(torch.tensor(target)):
        x = state.step(token.view(1), token.eq(dictionary.bos()).view(1, 1).numpy(), tags[:, step : step + 1])
    assert relative_error(state.logits(x)[0], expected[-1]) < TOLERANCE
    assert state.history.capacity == 64 < len(target)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"width": 0}, "--window 0: give at least 1"),
        ({"decode_alignment": "diagonal"}, "--decode-alignment diagonal is unknown; choose one of one-to-one, linear"),
        ({"length_ratio": None, "decode_alignment": "linear"}, "--decode-alignment linear needs --length-ratio"),
        ({"length_ratio": -1.0}, "--length-ratio -1: give a number greater than 0"),
    ],
)
def test_what_cannot_be(dictionary, options, message):
    with pytest.raises(UserError, match=message):
        window_model(dictionary, **{"width": 2, **options})
