"""Models that read their batch, through the task: what they are given, what they may not do, how
they translate.
"""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

from gtransformer.data.batch_fields import counted
from gtransformer.errors import UserError
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from tests.core.models.test_docflat import system
from tests.core.plugin.loaded import load
from tests.core.plugin.test_document_batches import DOCFLAT, iterator
from tests.core.plugin.test_instance_schemes import Optimizer
from tests.support import drawn, tiny_task, trainable

pytestmark = pytest.mark.slow


def batch_of(split: str, number: int):
    """The task, and a batch of four consecutive sentences."""
    task, dataset = load(split, numbered=True, **DOCFLAT)
    batches = iterator(task, dataset, max_tokens=None, max_sentences=4)
    return task, list(batches.next_epoch_itr(shuffle=False))[number]


def log_probabilities(model, batch, tokens: torch.Tensor) -> torch.Tensor:
    """Those of tokens (batch, length) for a batch's inputs, of the same shape."""
    logits = model(**batch["net_input"])[0]
    return logits.log_softmax(dim=2).gather(2, tokens.unsqueeze(2)).squeeze(2)


def test_a_step_and_a_validation_know_the_numbers():
    # Of its first document the sentences 1 to 4 are one batch; of the second, 1 to 4, then 5 to 8.
    task, batch = batch_of("valid", 2)
    assert batch["net_input"]["first_sentence"].tolist() == [2, 3, 4, 5]
    model = trainable(system(task.tgt_dict, "C").float())
    criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1)
    loss, size, _ = task.train_step(batch, model, criterion, Optimizer(), 0)
    valid, valid_size, _ = task.valid_step(batch, model.eval(), criterion)
    assert task.valid_step({}, model, criterion) == (
        0.0,
        0,
        {},
    )  # of fairseq-validate in several processes
    assert size == valid_size and valid.item() == pytest.approx(loss.item(), rel=1e-4)
    given = counted(batch)
    for numbers in (True, False):
        if not numbers:
            del given["net_input"]["first_sentence"]
        expected = criterion(model, given)[0].item()
        assert (valid.item() == pytest.approx(expected, rel=1e-5)) == numbers


@torch.no_grad()
def test_scores_of_references_are_those_of_the_batch():
    """fairseq-generate --score-reference, of a model whose decoder reads the batch."""
    task, batch = batch_of("test", 1)
    model = system(task.tgt_dict, "C")
    scorer = task.build_generator([model], Namespace(score_reference=True))
    hypotheses = task.inference_step(scorer, [model], batch)
    found = log_probabilities(model, batch, batch["target"])
    for (one,), row, target in zip(hypotheses, found, batch["target"], strict=True):
        assert torch.allclose(
            one["positional_scores"].double(), row[target.ne(task.tgt_dict.pad())], atol=1e-5
        )


@torch.no_grad()
def test_an_ensemble_gives_each_model_what_it_reads():
    """Whichever comes first, and beside one that knows no sentence numbers."""
    task, batch = batch_of("test", 1)
    assert max(batch["net_input"]["first_sentence"].tolist()) > 1
    models = [system(task.tgt_dict, "C")]
    models.append(drawn(task.tgt_dict, InstanceTransformerModel))
    found = []
    for order in (models, models[::-1]):
        scorer = task.build_generator(order, Namespace(score_reference=True))
        scored = task.inference_step(scorer, order, batch)
        found.append(torch.cat([one["positional_scores"] for (one,) in scored]))
    assert torch.allclose(*found, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", ["C encoder", "none", "ABD", "MBE"])
def test_what_is_found_has_the_probability_that_teacher_forcing_gives_it(name):
    """Of models whose decoder reads no other target: a batch of consecutive sentences, encoded at
    once.
    """
    task, batch = batch_of("test", 1)
    model = system(task.tgt_dict, name)
    options = {"beam": 2, "max_len_a": 0, "max_len_b": 2, "sentence_rule": "on"}
    generator = task.build_generator([model], Namespace(**options))
    hypotheses = [nbest[0] for nbest in task.inference_step(generator, [model], batch)]
    bos, eos, pad = task.tgt_dict.bos(), task.tgt_dict.eos(), task.tgt_dict.pad()
    outputs = torch.nn.utils.rnn.pad_sequence([one["tokens"] for one in hypotheses], True, pad)
    inputs = torch.cat([torch.full_like(outputs[:, :1], bos), outputs[:, :-1]], dim=1).masked_fill(
        outputs.eq(pad), pad
    )
    batch["net_input"]["prev_output_tokens"] = inputs
    found = log_probabilities(model, batch, outputs)
    for one, row, read, written in zip(hypotheses, found, inputs, outputs, strict=True):
        real = written.ne(pad)
        chosen = read[real].ne(eos)  # behind </s> there is no choice
        assert chosen.sum() > 2
        assert torch.allclose(
            one["positional_scores"].double()[chosen], row[real][chosen], atol=1e-5
        )


def test_what_a_decoder_that_reads_targets_cannot_do(dictionary):
    task = tiny_task(dictionary, **DOCFLAT)
    messages = (
        "the decoder reads the other sentences of its batch.* give --first-pass",
        "reads the mean of the whole",
    )
    for where in ("both", "decoder"):
        for name, message in zip(("C", "ABD"), messages, strict=True):
            model = system(dictionary, name, batch_attention_in=where)
            with pytest.raises(UserError, match=message):
                task.build_generator([model], Namespace())
            task.build_generator([model], Namespace(score_reference=True))
