"""What is forced in one pass is what it would have been token by token, in every system, with and
without caches.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from gtransformer.models.common.layer import Layer
from tests.core.search.systems import SYSTEMS, windows
from tests.full_passes import step, use_caches
from tests.support import pad_batch, random_document, random_lengths, relative_error, tiny_model

TOLERANCE = 1e-11  # float64


class Sandwich(Layer):
    """A layer whose blocks do not read what the usual one's read."""

    def forward(self, x, view):
        for block in self.blocks:
            norm = getattr(self, block.norm)
            x = x + norm(self.attend(block, norm(x), view))
        return x + self.final_layer_norm(self.feed_forward(self.final_layer_norm(x)))


def sandwich(dictionary):
    model = tiny_model(dictionary).double()
    for layer in model.decoder.layers:
        layer.__class__ = Sandwich
    return model


# A narrow window shows where it is behind forced sentences that have used up the source.
FORCED = {
    **SYSTEMS,
    "own residual": sandwich,
    "window by sentence, narrow": windows(decode_alignment="sentence"),
    "SSRU over documents": lambda dictionary: tiny_model(
        dictionary, decoder_unit="ssru", doc_mode="full"
    ).double(),
}
BEAM, STEPS, SWAP = 2, 70, 40  # longer than the first slots; where beams change places


def full_pass(model, memory, document: int, tokens: list[int]) -> torch.Tensor:
    """Logits (length, vocabulary) of a document that is begun, at once."""
    decoder, row = model.decoder, torch.tensor([tokens])
    layout = decoder.layout(row)
    layout.whole = False
    source = memory.reorder(torch.tensor([document])).expanded()
    return decoder.output_layer(decoder.extract_ragged(row, layout, source))


@torch.no_grad()
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    ("name", "caches"), [*((name, True) for name in FORCED), ("gtransformer", False)]
)
def test_forced_tokens(dictionary, name, within, caches):
    """Documents that begin with a lot, with little and with nothing; their beams go on differently
    and swap.

    ``within``: they begin with targets up to the middle of a sentence.
    """
    draw = random.Random(7)
    model = FORCED[name](dictionary)
    use_caches(model, caches)
    sources = [random_document(draw, dictionary, random_lengths(draw, 6, 5)) for _ in range(4)]
    memory = model.encoder(pad_batch(sources, dictionary.pad(), left=True))["memory"][0]
    targets = [
        random_document(draw, dictionary, lengths) for lengths in ([9] * 12, [2], [], [3, 0, 1])
    ]
    lengths = np.array([100, 2, 0, 6]) if within else np.array(list(map(len, targets)))
    begun = [target[:length] for target, length in zip(targets, lengths, strict=True)]
    swap, steps = (SWAP, STEPS) if caches else (3, 6)
    own = [
        random_document(draw, dictionary, random_lengths(draw, 40, 6, 1)) for _ in range(4 * BEAM)
    ]
    own = [one[within and row // BEAM != 2 :][:steps] for row, one in enumerate(own)]
    rows = torch.arange(4).repeat_interleave(BEAM)
    state = model.decoder.begin(memory, np.arange(4), BEAM)
    read = [torch.tensor(one, dtype=torch.int64) for one in targets]
    state.force(read)
    if within:
        state.begin_at(np.arange(4), lengths)
    read = [begun[row // BEAM] + own[row][:swap] for row in range(len(rows))]
    order = [1, 0, 3, 2, 5, 5, 6, 6]
    read += [read[old] + own[row][swap:] for row, old in enumerate(order)]
    tags = [model.decoder.tags(torch.tensor([one]))[0].tolist() for one in read]
    expected = [
        full_pass(model, memory, row % len(rows) // BEAM, one) for row, one in enumerate(read)
    ]
    for number in range(steps):
        if number == swap:
            state.reorder(np.array(order))
        half = len(rows) * (number >= swap)
        places = [(half + row, len(begun[row // BEAM]) + number) for row in range(len(rows))]
        given = [[one[row][place] for row, place in places] for one in (read, tags)]
        logits = state.logits(step(state, *np.array(given).reshape(2, -1, BEAM)))
        for row, (which, place) in enumerate(places):
            assert relative_error(logits[row], expected[which][place]) < TOLERANCE, (number, row)
