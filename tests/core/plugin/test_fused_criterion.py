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
@pytest.mark.parametrize("context", [None, [8, 0]])
def test_equals_fairseqs_criterion(dictionary, sample, smoothing, context):
    """Of targets behind the context: of the first document two sentences, 5 + 3 tokens, of the
    second none. fairseq's own leaves out padding.
    """
    model = trainable(tiny_model(dictionary)).double().train()
    task, pad = Namespace(target_dictionary=dictionary), dictionary.pad()
    given = expected = sample
    if context is not None:
        given = counted(with_counted_targets(sample, pad, torch.tensor(context)))
        target = sample["target"].clone()
        target[0, :8] = pad
        expected = {**sample, "target": target, "ntokens": 6 + 4}
    found = run(FusedLabelSmoothedCrossEntropy(task, False, smoothing), model, given)
    wanted = run(LabelSmoothedCrossEntropyCriterion(task, False, smoothing), model, expected)
    assert found[0].item() == pytest.approx(wanted[0].item(), rel=1e-6)
    assert found[1] == wanted[1] and found[2].keys() == wanted[2].keys()
    for name, value in wanted[2].items():
        assert float(found[2][name]) == pytest.approx(float(value), rel=1e-6)
    scale = max(gradient.abs().max() for gradient in wanted[3])
    for one, other in zip(found[3], wanted[3], strict=True):
        assert (one - other).abs().max() < 1e-7 * scale


def test_falls_back_where_all_logits_are_needed(dictionary, sample):
    model = trainable(tiny_model(dictionary)).eval()
    task = Namespace(target_dictionary=dictionary)
    _, _, logs = FusedLabelSmoothedCrossEntropy(task, False, 0.1, report_accuracy=True)(
        model, sample
    )
    assert logs["total"] == sample["ntokens"] and 0 <= logs["n_correct"] <= logs["total"]


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
