"""What a sentence model knows survives fine-tuning on documents: the loss of the first validation."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Callable
from functools import partial

import pytest
import torch
from fairseq import optim
from omegaconf import OmegaConf

from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.optim.adam_two_rates import mark_parameter
from tests.support import pad_batch, tiny_config, tiny_dictionary

WORDS = 20
SENTENCES = 3  # of a document
EPOCH = 100  # updates until the first validation
SIZES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"embed_dim": 48, "ffn_embed_dim": 96, "layers": 2, "attention_heads": 4}.items()
}
CONTEXT = {"encoder_ctxlayers": 1, "decoder_ctxlayers": 1, "cross_ctxlayers": 1}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def words():
    return tiny_dictionary(WORDS)


def documents(draw: random.Random, dictionary, count: int, sentences: int, most: int):
    """Pairs whose target repeats the source, but for a third of its words: translation is never certain either."""
    pairs = []
    for _ in range(count):
        source, target = [], []
        for _ in range(sentences):
            line = [draw.randrange(4, 4 + WORDS) for _ in range(draw.randint(1, most))]
            other = [draw.randrange(4, 4 + WORDS) if draw.random() < 0.3 else word for word in line]
            source += [dictionary.bos(), *line, dictionary.eos()]
            target += [dictionary.bos(), *other, dictionary.eos()]
        pairs.append((source, target))
    return pairs


def loss(model, dictionary, pairs, marks: bool = False):
    """Mean negative log likelihood of words and ``</s>``; ``<s>`` leaves no choice, nor does the end of a document.

    With ``marks`` these count, too.
    """
    pad = dictionary.pad()
    source = pad_batch([s for s, _ in pairs], pad, left=True)
    previous = pad_batch([t for _, t in pairs], pad, left=False)
    target = pad_batch([[*t[1:], dictionary.bos()] for _, t in pairs], pad, left=False)
    counted = target.ne(pad) & (marks | target.ne(dictionary.bos()))
    return torch.nn.functional.cross_entropy(model(source, None, previous)[0][counted], target[counted])


def validation_loss(model, dictionary, pairs) -> float:
    model.eval()
    with torch.no_grad():
        value = loss(model, dictionary, pairs).item()
    model.train()
    return value


def build(dictionary, **options):
    torch.manual_seed(2)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return GTransformerModel.build_model(tiny_config(**{**SIZES, **CONTEXT, "dropout": 0.1, **options}), task)


def train(
    model,
    dictionary,
    updates: int,
    lr: float,
    scale: float,
    decay: bool,
    marks: bool = False,
    then: Callable[[], None] = lambda: None,
    **shape,
):
    """Adam as in the recipes, 20 updates of warm-up; pretrained parameters learn at ``scale`` times the rate.

    ``then`` is called after every update.
    """
    for name, parameter in model.named_parameters():
        mark_parameter(parameter, not model.is_pretrained(name), scale)
    cfg = {"_name": "adam_two_rates", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "tpu": False, "lr": [lr]}
    optimiser = optim.build_optimizer(OmegaConf.create(cfg), list(model.parameters()))
    draw = random.Random(3)
    for update in range(updates):
        optimiser.set_lr(lr * min(1.0, (update + 1) / 20) * (1 - update / updates if decay else 1.0))
        optimiser.zero_grad()
        optimiser.backward(loss(model, dictionary, documents(draw, dictionary, **shape), marks))
        optimiser.clip_grad_norm(1.0)
        optimiser.step()
        then()
    return model


@pytest.fixture(scope="module")
def sentence_model(words):
    """A plain Transformer on sentences, as configs/sent_base.yaml trains it."""
    torch.set_num_threads(1)
    model = build(words, doc_mode="full")
    return train(model, words, 200, 6e-3, 1.0, True, count=64, sentences=1, most=4 * SENTENCES)


@pytest.fixture(scope="module")
def from_scratch(words):
    """Loss of a G-Transformer that was trained as long as the fine-tuned ones, from random parameters."""
    torch.set_num_threads(1)
    model = train(build(words), words, EPOCH, 2e-3, 1.0, False, count=24, sentences=SENTENCES, most=4)
    return validation_loss(model, words, documents(random.Random(9), words, 60, SENTENCES, 4))


def started(words, sentence_model, **options):
    """A G-Transformer before its first update."""
    model = build(words, load_partial=True, **options)
    model.load_state_dict(dict(sentence_model.state_dict()))
    return model


def test_marks_in_the_loss_would_cost_words_first(words, sentence_model):
    """The sentence model has never predicted ``<s>``: learning to does harm to words, which else lose nothing."""
    pairs, highest = documents(random.Random(9), words, 60, SENTENCES, 4), {}
    for marks in (False, True):
        model, found = started(words, sentence_model, positions="sentence", neutral_gates=True), []
        found.append(validation_loss(model, words, pairs))
        then = partial(lambda model, found: found.append(validation_loss(model, words, pairs)), model, found)
        train(model, words, 30, 2e-3, 0.2, False, marks, then, count=24, sentences=SENTENCES, most=4)
        highest[marks] = max(found) - found[0]
    print(f"at most above the start, without and with marks: {highest}")
    assert highest[False] < 0.05 and highest[True] > 10 * highest[False]


def test_first_validation_loss_is_close_to_the_sentence_models(words, sentence_model, from_scratch):
    """The same sentences, alone and in documents; the paper's ratio of learning rates, 0.2."""
    own = validation_loss(sentence_model, words, documents(random.Random(9), words, 60 * SENTENCES, 1, 4))
    model = started(words, sentence_model)
    train(model, words, EPOCH, 2e-3, 0.2, False, count=24, sentences=SENTENCES, most=4)
    found = validation_loss(model, words, documents(random.Random(9), words, 60, SENTENCES, 4))
    print(f"sentence model {own:.3f}, fine-tuned {found:.3f}, from scratch {from_scratch:.3f}")
    assert abs(found - own) < 0.2
    assert from_scratch - own > 2 * 0.2  # otherwise anything would be close
