"""The loss of packed batches: one graph for all, and what the other way computes."""

import random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from torch._dynamo.testing import CompileCounterWithBackend

from gtransformer.data.packing import Packer, Symbols, capacity_of
from gtransformer.models.common import compiled
from gtransformer.models.common.compiled import compiled_loss, compiler_fault, why_not_compiled
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.modules.fused_loss import fused_cross_entropy
from tests.core.search.systems import SYSTEMS
from tests.support import drawn, pad_batch, random_document, random_lengths, tiny_model

pytestmark = pytest.mark.slow

# Compilation takes as long as there are layers. Each has group and global attention, but for the
# lower one of "partial".
LAYERS = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
CONTEXT = dict.fromkeys(("encoder_ctxlayers", "decoder_ctxlayers", "cross_ctxlayers"), 1)
ONE_LAYER = LAYERS | CONTEXT
OPTIONS = {
    "partial": dict.fromkeys(LAYERS, 2),
    "full": {"doc_mode": "full"},
    "global alone": {"context_attention": "global"},
    "converted": {
        "positions": "sentence",
        "sentence_marks": "end",
        "sinusoids": "marian",
        "output_bias": True,
        "share_all_embeddings": False,
    },
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "max_source_positions": 50,
        "max_target_positions": 50,
        "encoder_normalize_before": True,
    },
}


def four_batches(dictionary: Dictionary):
    """Batches of different numbers of documents and sentences: lists of source, input, target."""
    draw, batches = random.Random(3), []
    for count in (4, 2, 6, 1):
        documents = []
        for sentences in random_lengths(draw, count, 5, 1):
            source, previous = (
                torch.tensor(
                    random_document(draw, dictionary, random_lengths(draw, sentences, 6, 0))
                )
                for _ in range(2)
            )
            end = previous.new_tensor([dictionary.index("[de]")])
            documents.append((source, previous, torch.cat([previous[1:], end])))
        batches.append(list(map(list, zip(*documents, strict=True))))
    return batches


def packer(model, batches):
    flat = [sum(sides, []) for sides in zip(*batches, strict=True)]
    groups = np.split(np.arange(len(flat[0])), np.cumsum([len(one[0]) for one in batches])[:-1])
    sizes = [np.array(list(map(len, side))) for side in flat[:2]]
    sentences = np.array([int(one.eq(0).sum()) for one in flat[0]])
    capacity = capacity_of(groups, sizes, sentences, 10)
    encoder, decoder = model.encoder, model.decoder
    return Packer(
        capacity,
        Symbols(encoder.bos, encoder.padding, encoder.marks != "both", encoder.restarts),
        Symbols(decoder.bos, decoder.padding, False, decoder.restarts),
    )


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def of_the_engine(model, batch, pad):
    """Loss, negative log likelihood and gradients of the padded batch."""
    source, previous, target = (
        pad_batch([row.tolist() for row in side], pad, left=False) for side in batch
    )
    states, extra = model(source, None, previous, ragged=True)
    product = model.decoder.output_product(states, extra["layout"].pack(target))
    loss, nll = fused_cross_entropy(*product, 0.1)
    return loss.detach(), nll, gradients(model, loss)


@pytest.fixture
def counter(monkeypatch):
    """Compile without a code generator, and count how often."""
    torch._dynamo.reset()
    counting = CompileCounterWithBackend("aot_eager")
    monkeypatch.setattr(compiled, "BACKEND", counting)
    return counting


OTHERS = {
    "doc_transformer": (InstanceTransformerModel,),
    "lst_transformer by sentence": (LstTransformerModel, LstTransformerConfig),
}


@pytest.mark.parametrize("name", [*OPTIONS, *OTHERS])
def test_one_graph_for_four_batches_with_equal_loss_and_gradients(dictionary, counter, name):
    if name in OPTIONS:
        model = tiny_model(dictionary, **ONE_LAYER | OPTIONS[name]).double().train()
    else:
        model = drawn(dictionary, *OTHERS[name], **LAYERS).train()
    assert why_not_compiled(model) is None
    batches = four_batches(dictionary)
    pack = packer(model, batches)
    for batch in batches:
        loss, nll, expected = of_the_engine(model, batch, dictionary.pad())
        found = compiled_loss(model, pack(*batch), 0.1)
        assert found[0].item() == pytest.approx(loss.item(), rel=1e-6)
        assert found[1].item() == pytest.approx(nll.item(), rel=1e-6)
        own = gradients(model, found[0])
        assert own.keys() == expected.keys()
        largest = max(float(one.abs().max()) for one in expected.values())
        errors = [float((own[key] - one).abs().max()) for key, one in expected.items()]
        assert max(errors) < 1e-6 * largest
    assert counter.frame_count == 1


def test_targets_that_do_not_count_change_nothing(dictionary, counter):
    """As of the context, and of symbols that the model cannot predict."""
    words = {"first_output_word": dictionary.eos(), "output_words": 14}
    model = tiny_model(dictionary, **words, **ONE_LAYER).double().train()
    batch, pad = four_batches(dictionary)[0], dictionary.pad()
    for target in batch[2]:
        target[:3] = pad
        target[(target < words["first_output_word"]) | (target >= 14)] = pad
    loss, _ = compiled_loss(model, packer(model, [batch])(*batch), 0.1)
    source, previous, target = (
        pad_batch([row.tolist() for row in side], pad, left=False) for side in batch
    )
    states, extra = model(source, None, previous, ragged=True)
    target = extra["layout"].pack(target)
    counts = target.ne(pad)
    product = model.decoder.output_product(states[counts], target[counts])
    assert 5 < len(product[2]) < len(target) - 5
    assert loss.item() == pytest.approx(fused_cross_entropy(*product, 0.1)[0].item(), rel=1e-6)


def test_dropout_is_drawn_anew(dictionary, counter):
    model = tiny_model(dictionary, dropout=0.5, **ONE_LAYER).train()
    batch = four_batches(dictionary)[0]
    packed = packer(model, [batch])(*batch)
    losses = {compiled_loss(model, packed, 0.1)[0].item() for _ in range(3)}
    assert len(losses) == 3


def test_what_cannot_be_compiled_says_why(dictionary):
    reasons = {name: why_not_compiled(make(dictionary)) for name, make in SYSTEMS.items()}
    compilable = {name for name, reason in reasons.items() if reason is None}
    others = {"gtransformer with SSRU", "last sentences"}
    assert compilable == {
        name for name in SYSTEMS if not name.startswith("window") and name not in others
    }
    for more in (
        {"attention_dropout": 0.1},
        {"checkpoint_activations": True},
        {"decoder_unit": "ssru"},
    ):
        assert why_not_compiled(tiny_model(dictionary, **more))
    model = tiny_model(dictionary)
    model.decoder.layers[0].register_forward_hook(print)
    assert "hooks" in why_not_compiled(model)


def test_a_compiler_that_fails(monkeypatch):
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    assert compiler_fault("cpu") is None
    monkeypatch.setattr(compiled, "BACKEND", "no such backend")
    assert "no such backend" in compiler_fault("cpu")


def test_a_hook_that_a_layer_gets_later_is_called(dictionary, counter):
    model = tiny_model(dictionary, **ONE_LAYER).train()
    batch = four_batches(dictionary)[0]
    packed = packer(model, [batch])(*batch)
    before = compiled_loss(model, packed, 0.1)[0]
    model.encoder.layers[0].register_forward_hook(lambda layer, given, made: made * 2)
    assert compiled_loss(model, packed, 0.1)[0] != before
