"""Decoding a batch of sentences together: states step by step against their definition, beams and all."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tests.core.models.batch_documents import CONTEXT, Batch, document, made
from tests.core.models.batch_steps import BatchSteps, Hypothesis
from tests.core.models.test_docflat import ABD, DOCFLAT, NORMS, TOLERANCE
from tests.full_passes import use_caches
from tests.support import relative_error

SYSTEMS = {
    "C": (DOCFLAT, {}),
    "D decoder": (DOCFLAT, {"context_gate": "discrete", "batch_attention_in": "decoder", "sentence_numbers": "off"}),
    "I prenorm": (DOCFLAT, {"context_gate": "identity", **NORMS}),
    "C encoder": (DOCFLAT, {"batch_attention_in": "encoder"}),
    "none": (DOCFLAT, {"batch_attention_in": "none"}),
    "ABD": (ABD, {}),
}


def contexts_of(batch: Batch) -> list[list[int]]:
    """First translations of what stands before each sentence: those of the document's target."""
    return [row[: len(row) - len(own)] for row, own in zip(batch.rows(batch.target), batch.target, strict=True)]


def begun(model, batch: Batch, beam: int):
    """The state of ``beam`` rows a sentence behind their contexts."""
    inputs = batch.inputs()
    memory = model.encoder(inputs["src_tokens"], first_sentence=inputs["first_sentence"])["memory"][0]
    rows = torch.arange(len(batch.source)).repeat_interleave(beam)
    state = model.decoder.begin(memory.reorder(rows), beam)
    state.force([torch.tensor(one, dtype=torch.int64) for one in contexts_of(batch)])
    return state


def steps_of(model, batch: Batch) -> BatchSteps:
    return BatchSteps(model, batch.rows(batch.source), contexts_of(batch), batch.first)


@torch.no_grad()
@pytest.mark.parametrize(("name", "caches"), [*((name, True) for name in SYSTEMS), ("C encoder", False)])
def test_every_step_is_what_it_is_defined_to_be(dictionary, name, caches):
    """Random tokens, beams that change places, sentences that end with another hypothesis than the best that went on.

    What a hypothesis read of others stays, whatever becomes the best of these later.
    """
    kinds, options = SYSTEMS[name]
    model, batch, beam = made(dictionary, *kinds, **options), document(dictionary, sentences=4, begin=3), 2
    use_caches(model, caches)
    oracle, state = steps_of(model, batch), begun(model, batch, beam)
    draw, words = random.Random(5), range(4, 14)
    active = list(range(4))
    rows = {sentence: [Hypothesis()] * beam for sentence in active}
    tags = {sentence: min(sentence, CONTEXT) + 1 for sentence in active}
    lasts = {1: 1, 3: 2, 0: 4, 2: 6}  # the step behind which each sentence is translated
    translated: dict[int, list[int]] = {}
    moved = 0
    for step in range(7):
        newest = {s: [dictionary.bos()] * beam if step == 0 else draw.choices(words, k=beam) for s in active}
        held = dict(translated)
        held |= {s: (*rows[s][0].tokens, newest[s][0]) for s in active}
        tokens = torch.tensor([token for s in active for token in newest[s]])
        tag = np.array([[tags[s]] * beam for s in active])
        found = state.logits(state.step(tokens, tag)).view(len(active), beam, -1)
        for place, s in enumerate(active):
            pairs = [oracle.take(s, row, token, held) for row, token in zip(rows[s], newest[s], strict=True)]
            rows[s] = [row for row, _ in pairs]
            expected = torch.from_numpy(np.stack([logits for _, logits in pairs]))
            assert relative_error(found[place], expected) < TOLERANCE, (step, s)
        order = []
        for place, s in enumerate(active):
            parents = draw.choices(range(beam), k=beam)
            moved += parents[0] != 0
            rows[s] = [rows[s][parent] for parent in parents]
            if lasts[s] != step:
                order += [place * beam + parent for parent in parents]
        for s in [s for s in active if lasts[s] == step]:
            # An ended hypothesis of a length of its own.
            words_of = [*draw.choices(words, k=draw.randint(1, step)), dictionary.eos()]
            state.finish(s, torch.tensor(words_of))
            translated[s] = [dictionary.bos(), *words_of]
            active.remove(s)
        if active:
            state.reorder(torch.tensor(order))
    assert moved > 3 and not active
