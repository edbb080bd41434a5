"""The fused criterion against fairseq's own, on the whole model."""

import math
import random
from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

from gtransformer.data.batch_fields import counted, with_counted_targets
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from tests.support import pad_batch, random_document, tiny_model, tiny_task, trainable


@pytest.fixture
def sample(dictionary):
    """Two documents of unequal length."""
    draw = random.Random(1)
    sources, targets = (
        [random_document(draw, dictionary, shape) for shape in ([3, 1, 4], [2])] for _ in range(2)
    )
    pad, language = dictionary.pad(), dictionary.index("[de]")
    net_input = {
        "src_tokens": pad_batch(sources, pad, left=True),
        "src_lengths": torch.tensor([len(source) for source in sources]),
        "prev_output_tokens": pad_batch(targets, pad, left=False),
    }
    target = pad_batch([[*target[1:], language] for target in targets], pad, left=False)
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(pad).sum())}


def run(criterion, model, sample):
    model.zero_grad()
    loss, size, logs = criterion(model, sample)
    loss.backward()
    return loss, size, logs, [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_fairseqs_criterion(dictionary, sample, smoothing):
    model = trainable(tiny_model(dictionary)).double().train()
    task = Namespace(target_dictionary=dictionary)
    fused = FusedLabelSmoothedCrossEntropy(task, False, smoothing)
    plain = LabelSmoothedCrossEntropyCriterion(task, False, smoothing)
    loss, size, logs, gradients = run(fused, model, sample)
    expected_loss, expected_size, expected_logs, expected_gradients = run(plain, model, sample)
    assert loss.item() == pytest.approx(expected_loss.item(), rel=1e-6)
    assert size == expected_size and logs.keys() == expected_logs.keys()
    for name in logs:
        assert float(logs[name]) == pytest.approx(float(expected_logs[name]), rel=1e-6)
    scale = max(gradient.abs().max() for gradient in expected_gradients)
    for found, expected in zip(gradients, expected_gradients, strict=True):
        assert (found - expected).abs().max() < 1e-7 * scale


def test_falls_back_where_all_logits_are_needed(dictionary, sample):
    model = trainable(tiny_model(dictionary)).eval()
    task = Namespace(target_dictionary=dictionary)
    _, _, logs = FusedLabelSmoothedCrossEntropy(task, False, 0.1, report_accuracy=True)(
        model, sample
    )
    assert logs["total"] == sample["ntokens"] and 0 <= logs["n_correct"] <= logs["total"]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_context_does_not_count(dictionary, sample, smoothing):
    """Loss, its normalisation and gradients are those of the targets behind the context, written
    out by hand.

    Of the first document the first two of its sentences are context: 5 + 3 tokens; the second one
    has no context.
    """
    model = trainable(tiny_model(dictionary)).double().train()
    criterion = FusedLabelSmoothedCrossEntropy(
        Namespace(target_dictionary=dictionary), False, smoothing
    )
    without = counted(with_counted_targets(sample, dictionary.pad(), torch.tensor([8, 0])))
    loss, size, logs, gradients = run(criterion, model, without)

    model.zero_grad()
    logits, _ = model(**sample["net_input"])
    rows = torch.cat([logits[0, 8:14], logits[1, :4]])
    targets = torch.cat([sample["target"][0, 8:14], sample["target"][1, :4]])
    assert (
        targets[4:6].tolist()
        == [dictionary.eos(), dictionary.index("[de]")]
        == targets[8:].tolist()
    )
    assert dictionary.bos() not in targets and dictionary.pad() not in targets
    log_probs, spread = rows.log_softmax(dim=1), smoothing / (len(dictionary) - 1)
    nll = -log_probs[range(10), targets].sum()
    expected = (1 - smoothing - spread) * nll - spread * log_probs.sum()
    expected.backward()
    assert size == logs["ntokens"] == logs["sample_size"] == 10 and logs["nsentences"] == 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert float(logs["nll_loss"]) == pytest.approx(nll.item(), rel=1e-6)
    scale = max(parameter.grad.abs().max() for parameter in model.parameters())
    for found, parameter in zip(gradients, model.parameters(), strict=True):
        assert (found - parameter.grad).abs().max() < 1e-7 * scale


def test_validation_says_what_words_cost(dictionary, sample):
    """The same by hand, <s> and language symbol left out."""
    model = trainable(tiny_model(dictionary)).double().eval()
    unpredicted = [dictionary.bos(), dictionary.index("[de]")]
    task = tiny_task(dictionary, langs="en,de")
    criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1)
    logits, _ = model(**sample["net_input"])
    nll = -logits.detach().log_softmax(dim=2).gather(2, sample["target"].unsqueeze(2)).squeeze(2)
    words = sample["target"].ne(dictionary.pad()) & ~torch.isin(
        sample["target"], torch.tensor(unpredicted)
    )
    assert int(words.sum()) == 8 + 3 + 3  # words and </s> of three sentences, and of one

    _, _, logs = criterion(model, sample)
    assert float(logs["word_nll"]) == pytest.approx(float(nll[words].sum()), rel=1e-6)
    assert logs["words"] == 14 and logs["ntokens"] == 14 + 2 + 2
    with metrics.aggregate() as found:
        criterion.reduce_metrics([logs, logs])
    bits = float(nll[words].mean()) / math.log(2)
    assert found.get_smoothed_values()["word_nll_loss"] == pytest.approx(bits, abs=1e-4)
