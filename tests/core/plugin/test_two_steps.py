"""Sentence by sentence with context beside: instances that fit, and the second of two steps of
training.
"""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from gtransformer.errors import UserError
from gtransformer.plugin.finetuning import freeze_pretrained
from gtransformer.plugin.options import Options
from tests.core.models import test_numpy
from tests.core.models.oracle_checks import batch
from tests.core.plugin import loaded

pytestmark = pytest.mark.slow

CURRENT = ["--instances=current", "--context-sentences=2"]


def build(tmp_path, *arguments):
    """(model, task), built as fairseq-train builds them."""
    small = ["--encoder-embed-dim=16", "--decoder-embed-dim=16"]
    return loaded.built(
        loaded.LEN48 / "bin", tmp_path, "document_transformer_mini", *small, *arguments
    )[:2]


def grouped(task, *kind):
    """The task, as if it had been given other instances; with the test set, as generation loads
    it.
    """
    names = ("instances", "context_sentences", "target_context_sentences", "instance_tokens")
    for name, value in zip(names, (*kind, None, None, None), strict=False):
        setattr(task.cfg, name, value)
    task.options = Options(task.cfg)
    task.load_dataset("test")
    return task


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(model, task) with two sentences of context."""
    return build(tmp_path_factory.mktemp("built"), *CURRENT, "--doc-mode=full")


MANY = "the model translates one sentence, .*; give --instances current --context-sentences K"


@pytest.mark.parametrize("kind", [("stored",), ("sliding", 2), ("current", 2, 2)])
def test_instances_of_several_target_sentences_are_refused(built, kind):
    model, task = built
    with pytest.raises(UserError, match=f"--instances {kind[0]}: {MANY}"):
        grouped(task, *kind).build_generator([model], Namespace(beam=1))


@pytest.mark.parametrize(
    ("kind", "most"), [(("current", 0), 1), (("current", 3), 4), (("disjoint", 0), 1)]
)
def test_instances_that_fit(built, kind, most):
    """One target sentence behind one to K + 1 of the source, and the rule of sentences whatever the
    mode is.
    """
    model, task = built
    assert grouped(task, *kind).build_generator([model], Namespace(beam=1)).free is False
    examples = [task.datasets["test"][number] for number in range(22)]
    assert all(int(one["target"].eq(task.tgt_dict.eos()).sum()) == 1 for one in examples)
    assert {int(one["source"].eq(task.src_dict.bos()).sum()) for one in examples} == set(
        range(1, most + 1)
    )


@pytest.mark.parametrize("place", ["encoder", "both"])
def test_what_is_frozen_has_no_gradient_and_its_dropout_is_on(dictionary, place):
    model = test_numpy.context(context_in=place, dropout=0.5)[0](dictionary).train()
    freeze_pretrained(model)
    source, target = batch(dictionary, test_numpy.pairs(dictionary))
    logits = [model(source, None, target)[0] for _ in range(2)]
    assert not torch.allclose(*logits)
    logits[0].logsumexp(dim=2).sum().backward()
    for name, parameter in model.named_parameters():
        context = "context_encoder" in name or "context_attn" in name
        assert parameter.requires_grad == context and (parameter.grad is not None) == context, name


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone."""
    torch.distributed.init_process_group(
        "gloo", f"file://{tmp_path / 'group'}", world_size=1, rank=0
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("place", ["encoder", "both"])
def test_distributed_training_waits_for_no_gradient_that_never_comes(dictionary, group, place):
    """PyTorch's DDP, fairseq's default, which stops in the next pass if a parameter had none;
    whatever the contexts.
    """
    model = test_numpy.context(context_in=place)[0](dictionary).train()
    freeze_pretrained(model)
    parallel = DistributedDataParallel(model)
    everything = test_numpy.pairs(dictionary)
    for documents in (
        everything,
        [one for one in everything if one[0].count(dictionary.bos()) == 1],
        everything,
    ):
        source, target = batch(dictionary, documents)
        parallel(source, None, target)[0].logsumexp(dim=2).sum().backward()
    assert all(
        (parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters()
    )
