"""Several documents in a batch: what reads its batch reads its own document there."""

from __future__ import annotations

import pytest
import torch

from tests.core.models.batch_documents import document
from tests.core.models.test_docflat import SYSTEMS, TOLERANCE, system
from tests.support import pad_batch, relative_error

pytestmark = pytest.mark.slow


def joined(batches) -> dict[str, torch.Tensor]:
    """The inputs of several batches as one."""
    pad = batches[0].dictionary.pad()
    sources, targets = (
        [row for one in batches for row in one.rows(getattr(one, side))] for side in ("source", "target")
    )
    return {
        "src_tokens": pad_batch(sources, pad, left=True),
        "src_lengths": None,
        "prev_output_tokens": pad_batch(targets, pad, left=False),
        "first_sentence": torch.tensor([number for one in batches for number in one.first]),
        "stretch": torch.tensor([i for i, one in enumerate(batches) for _ in one.source]),
    }


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_document_is_as_alone(dictionary, name):
    """And so are the gradients of the sum."""
    model = system(dictionary, name)
    batches = [
        document(dictionary, seed, sentences, begin) for seed, sentences, begin in ((3, 6, 1), (4, 3, 9), (5, 4, 1))
    ]
    parameters, expected, losses = list(model.parameters()), [], []
    for batch in batches:
        expected += batch.current(model(**batch.inputs())[0])
        losses.append(sum(row.square().sum() for row in expected[-len(batch.source) :]))
    gradients = torch.autograd.grad(sum(losses), parameters)
    logits = model(**joined(batches))[0]
    found, row = [], 0
    for batch in batches:
        found += batch.current(logits[row : row + len(batch.source)])
        row += len(batch.source)
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other) < TOLERANCE
    loss = sum(one.square().sum() for one in found)
    one, other = (
        torch.cat([g.flatten() for g in found]) for found in (torch.autograd.grad(loss, parameters), gradients)
    )
    assert relative_error(one, other) < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize("name", ["C", "ABD", "MBE", "MBE decoder"])
def test_stretches_are_what_keeps_documents_apart(dictionary, name):
    model = system(dictionary, name)
    inputs = joined([document(dictionary, seed) for seed in (3, 4)])
    together = {**inputs, "stretch": torch.zeros_like(inputs["stretch"])}
    assert relative_error(model(**inputs)[0], model(**together)[0]) > 1e-4
    alone = {key: value for key, value in inputs.items() if key != "stretch"}
    assert torch.equal(model(**together)[0], model(**alone)[0])
