"""Decoding token by token equals the full forward pass at every step, whatever beam search does
with the rows.
"""

import random

import pytest
import torch

from tests.core.search.systems import SYSTEMS
from tests.full_passes import step_by_step, use_caches
from tests.support import relative_error

pytestmark = pytest.mark.slow

# System, how often rows change, with caches or without. Windows need the target's length.
STEPS = [
    *((name, 1.0, True) for name in SYSTEMS if "window" not in name),
    ("gtransformer", 0.1, True),
    ("gtransformer by sentence", 0.0, True),
    ("gtransformer", 1.0, False),
]
TOLERANCE = 1e-11  # float64


def full_forward(model, source, prefixes):
    """Logits of the last position, computed from scratch."""
    return model(source, None, prefixes)[0][:, -1]


def next_tokens(draw, dictionary, prefixes):
    """Random continuations that follow the sentence structure: <s> after </s>, at times no word at
    all.
    """
    words = [i for i in range(len(dictionary)) if dictionary[i].startswith("w")]
    new = []
    for row in prefixes.tolist():
        if row[-1] == dictionary.eos() or len(row) == 1:
            new.append(dictionary.bos())
        else:
            new.append(dictionary.eos() if draw.random() < 0.3 else draw.choice(words))
    return torch.tensor(new)


@torch.no_grad()
@pytest.mark.parametrize(("name", "often", "caches"), STEPS)
def test_every_step_with_beams_reordered(dictionary, make_pairs, name, often, caches):
    """Rows are duplicated and dropped at random within a document, and documents of the batch
    finish early.

    ``often``: at how many steps rows change; where they seldom do, beams have little of their
    prefix in common.
    """
    model = SYSTEMS[name](dictionary)
    use_caches(model, caches)
    check_every_step(dictionary, make_pairs, model, often)


def check_every_step(dictionary, make_pairs, model, often):
    """See above; for any model in float64."""
    draw = random.Random(seed := int(10 * often))
    source = make_pairs(seed, [6, 1, 3], most=5).source
    beam, documents = 3, [0, 1, 2]
    encoder_out = model.encoder(source)
    rows = torch.tensor([d for d in documents for _ in range(beam)])
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, rows)
    prefixes = torch.full((len(documents) * beam, 1), dictionary.bos())
    state: dict = {}
    for step in range(80):
        logits = step_by_step(model.decoder, prefixes, encoder_out["memory"][0], state, beam)
        assert logits.shape == (len(prefixes), len(dictionary))
        if step < 25 or step % 10 == 0 or step > 76:
            rows = source[[d for d in documents for _ in range(beam)]]
            assert relative_error(logits, full_forward(model, rows, prefixes)) < TOLERANCE, step
        keep = list(range(len(documents)))
        if step in (20, 50):  # a document is finished: its rows leave the batch
            keep.remove(draw.choice(keep))
        documents = [documents[k] for k in keep]
        change = draw.random() < often
        order = torch.tensor(
            [k * beam + (draw.randrange(beam) if change else i) for k in keep for i in range(beam)]
        )
        state["state"].reorder(order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        prefixes = prefixes[order]
        prefixes = torch.cat(
            [prefixes, next_tokens(draw, dictionary, prefixes).unsqueeze(1)], dim=1
        )
