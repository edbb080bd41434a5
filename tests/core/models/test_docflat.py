"""Document Flattening, attention between datapoints and mini-batch embeddings against NumPy; who
can see what.
"""

from __future__ import annotations

import pytest
import torch

from gtransformer.models.batch_readers import (
    AbdConfig,
    AbdModel,
    DocFlatConfig,
    DocFlatModel,
    MbeConfig,
    MbeModel,
)
from tests.core.models.batch_documents import document, made
from tests.core.models.batch_oracle import BatchOracle
from tests.core.models.oracle_checks import TOLERANCE, check_derivatives
from tests.support import relative_error

pytestmark = pytest.mark.slow

NORMS = {"encoder_normalize_before": True, "decoder_normalize_before": True}
DOCFLAT, ABD, MBE = (DocFlatModel, DocFlatConfig), (AbdModel, AbdConfig), (MbeModel, MbeConfig)
SYSTEMS = {
    "C": (DOCFLAT, {}),
    "C encoder": (DOCFLAT, {"batch_attention_in": "encoder"}),
    "D": (DOCFLAT, {"context_gate": "discrete"}),
    "D decoder": (
        DOCFLAT,
        {"context_gate": "discrete", "batch_attention_in": "decoder", "gate_threshold": 0.7},
    ),
    "I prenorm": (DOCFLAT, {"context_gate": "identity", **NORMS}),
    "none": (DOCFLAT, {"batch_attention_in": "none"}),
    "ABD": (ABD, {}),
    "ABD both": (ABD, {"batch_attention_in": "both"}),
    "ABD decoder": (ABD, {"batch_attention_in": "decoder", **NORMS}),
    "MBE": (MBE, {}),
    "MBE encoder": (MBE, {"batch_vector_in": "encoder", **NORMS}),
    "MBE decoder": (MBE, {"batch_vector_in": "decoder"}),
    "MBE norms": (MBE, {"doc_encoder_layer_norm": True, "doc_decoder_layer_norm": True}),
}


def system(dictionary, name: str, **options):
    kinds, own = SYSTEMS[name]
    return made(dictionary, *kinds, **{**own, **options})


@torch.no_grad()
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_batch_equals_numpy(dictionary, name):
    """And padding, wherever it is, changes nothing."""
    model, batch = system(dictionary, name), document(dictionary, begin=5)
    expected = BatchOracle(model).logits(
        batch.rows(batch.source), batch.rows(batch.target), batch.first
    )
    for extra in (0, 3):
        inputs = batch.inputs(extra)
        for source in (inputs["src_tokens"], inputs["src_tokens"].roll(-extra, dims=1)):
            found = model(**inputs | {"src_tokens": source})[0]
            for row, one in zip(found, expected, strict=True):
                assert relative_error(row[: len(one)], torch.from_numpy(one)) < TOLERANCE


@pytest.mark.parametrize("name", ["C", "I prenorm", "ABD both", "MBE", "MBE norms"])
def test_gradients_equal_numpys(dictionary, name):
    model, batch = system(dictionary, name), document(dictionary)

    def logits(parameters: dict) -> list:
        oracle = BatchOracle(model)
        oracle.p = parameters
        return oracle.logits(batch.rows(batch.source), batch.rows(batch.target), batch.first)

    check_derivatives(model(**batch.inputs())[0], model, logits)


def test_gradients_of_discrete_gates_go_straight_through(dictionary):
    """As if the gate were what the sigmoid says, but with the states that the step lets through."""
    attention = system(dictionary, "D").encoder.batch_front.across
    torch.manual_seed(3)
    own, found = (torch.randn(5, 16, dtype=torch.double, requires_grad=True) for _ in range(2))
    weights = torch.randn(5, 16, dtype=torch.double)
    result = attention.merged(own, found)
    sure = torch.sigmoid(attention.gate(found)).detach()
    opened = sure >= 0.5
    assert 0 < opened.sum() < opened.numel()
    assert torch.equal(result, torch.where(opened, found, own))
    gradients = torch.autograd.grad((result * weights).sum(), [own, found, attention.gate.bias])
    through = (weights * (found - own) * sure * (1 - sure)).detach()
    assert torch.allclose(gradients[0], weights * ~opened)
    assert torch.allclose(gradients[1], weights * opened + through @ attention.gate.weight)
    assert torch.allclose(gradients[2], through.sum(dim=0))
