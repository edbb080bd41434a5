"""Document Flattening, attention between datapoints and mini-batch embeddings against NumPy; who can see what."""

from __future__ import annotations

import copy

import pytest
import torch

from gtransformer.models.batch_readers import AbdConfig, AbdModel, DocFlatConfig, DocFlatModel, MbeConfig, MbeModel
from tests.core.models.batch_documents import CONTEXT, document, made
from tests.core.models.batch_oracle import BatchOracle
from tests.support import relative_error

pytestmark = pytest.mark.slow

TOLERANCE = 1e-11  # float64
NORMS = {"encoder_normalize_before": True, "decoder_normalize_before": True}
DOCFLAT, ABD, MBE = (DocFlatModel, DocFlatConfig), (AbdModel, AbdConfig), (MbeModel, MbeConfig)
SYSTEMS = {
    "C": (DOCFLAT, {}),
    "C encoder": (DOCFLAT, {"batch_attention_in": "encoder", "sentence_numbers": "off"}),
    "D": (DOCFLAT, {"context_gate": "discrete"}),
    "D decoder": (DOCFLAT, {"context_gate": "discrete", "batch_attention_in": "decoder", "gate_threshold": 0.7}),
    "I prenorm": (DOCFLAT, {"context_gate": "identity", **NORMS}),
    "none": (DOCFLAT, {"batch_attention_in": "none"}),
    "ABD": (ABD, {}),
    "ABD both": (ABD, {"batch_attention_in": "both"}),
    "ABD decoder": (ABD, {"batch_attention_in": "decoder", "sentence_numbers": "off", **NORMS}),
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
    expected = BatchOracle(model).logits(batch.rows(batch.source), batch.rows(batch.target), batch.first)
    for extra in (0, 3):
        inputs = batch.inputs(extra)
        for source in (inputs["src_tokens"], inputs["src_tokens"].roll(-extra, dims=1)):
            found = model(**inputs | {"src_tokens": source})[0]
            for row, one in zip(found, expected, strict=True):
                assert relative_error(row[: len(one)], torch.from_numpy(one)) < TOLERANCE


@pytest.mark.parametrize("name", ["C", "I prenorm", "ABD both", "MBE", "MBE norms"])
def test_gradients_equal_numpys_differences(dictionary, name):
    """Along random directions in the space of all parameters."""
    model, batch = system(dictionary, name), document(dictionary)
    torch.manual_seed(2)
    logits = model(**batch.inputs())[0]
    weights = [torch.randn(len(row), logits.shape[2], dtype=torch.double) for row in batch.rows(batch.target)]
    loss = sum((row[: len(one)] * one).sum() for row, one in zip(logits, weights, strict=True))
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    aliases = {id(one): [] for one in parameters}
    for other, one in model.named_parameters(remove_duplicate=False):
        aliases[id(one)].append(other)
    new = [number for number, one in enumerate(names) if not model.is_pretrained(one)]
    for chosen in (range(len(names)), new):
        directions = {number: torch.randn_like(parameters[number]) for number in chosen}
        values = []
        for step in (1e-7, -1e-7):  # small, so that hardly a unit of feed-forward opens or closes on the way
            oracle = BatchOracle(model)
            for number, direction in directions.items():
                for other in aliases[id(parameters[number])]:
                    oracle.p[other] = oracle.p[other] + step * direction.numpy()
            rows = oracle.logits(batch.rows(batch.source), batch.rows(batch.target), batch.first)
            values.append(sum((row * one.numpy()).sum() for row, one in zip(rows, weights, strict=True)))
        along = sum((gradients[number] * direction).sum().item() for number, direction in directions.items())
        assert along == pytest.approx((values[0] - values[1]) / 2e-7, rel=1e-4)


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """But for the rounding of products, which may depend on where in memory they are made."""
    return relative_error(one, other) < TOLERANCE


def changed(batch, sentence: int, place: int):
    """The same document with another target word, or an empty sentence's </s> made a word."""
    other = copy.deepcopy(batch)
    other.target[sentence][place] = other.target[sentence][place] % 11 + 4
    assert other.target[sentence] != batch.target[sentence]
    return other


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["C", "D", "I prenorm", "D decoder", "C encoder", "ABD", "MBE", "ABD both", "ABD decoder"]
)
def test_no_later_target_token_changes_an_earlier_prediction(dictionary, name):
    """Of any sentence of the batch; those of attention between datapoints in the decoder do, as it is printed."""
    model, batch = system(dictionary, name), document(dictionary)
    before = batch.current(model(**batch.inputs())[0])
    far = leaks = 0
    for sentence, tokens in enumerate(batch.target):
        for place in range(1, len(tokens)):
            other = changed(batch, sentence, place)
            after = other.current(model(**other.inputs())[0])
            for number, (one, two) in enumerate(zip(before, after, strict=True)):
                same = [is_same(*rows) for rows in zip(one, two, strict=True)]
                if number < sentence:
                    leaks += not all(same)
                elif number == sentence:
                    leaks += not all(same[:place])
                    assert not any(same[place:])
                elif number <= sentence + CONTEXT:
                    assert not any(same)
                else:
                    far += not any(same)
    assert (leaks > 0) == (name in ("ABD both", "ABD decoder"))
    assert (far > 0) == model.needs.targets


@torch.no_grad()
@pytest.mark.parametrize("name", ["C", "D decoder", "C encoder", "ABD", "ABD decoder", "MBE", "none"])
def test_what_a_source_word_changes(dictionary, name):
    """Where the encoder reads the batch, predictions of all sentences of it; else of those that have it in context."""
    model, batch = system(dictionary, name), document(dictionary)
    before = batch.current(model(**batch.inputs())[0])
    everywhere = name in ("C", "C encoder", "ABD", "MBE")
    assert everywhere <= model.needs.batch
    for sentence in (0, 3, 5):
        other = copy.deepcopy(batch)
        other.source[sentence][1] = other.source[sentence][1] % 11 + 4
        after = other.current(model(**other.inputs())[0])
        for number, (one, two) in enumerate(zip(before, after, strict=True)):
            near = sentence <= number <= sentence + CONTEXT
            assert is_same(one, two) != (near or everywhere), (sentence, number)


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
