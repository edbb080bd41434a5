"""Sentence by sentence with context beside: instances that fit, and the second of two steps of training."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from gtransformer.errors import UserError
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.tasks.finetuning import check_rounding, freeze_pretrained
from gtransformer.tasks.options import Options
from tests.core.models.oracle_checks import batch
from tests.core.models.test_document_transformer import beside_model, pairs
from tests.core.tasks import loaded
from tests.support import tiny_model

pytestmark = pytest.mark.slow

CURRENT = ["--instances=current", "--context-sentences=2"]


def build(tmp_path, *arguments):
    """(model, task), built as fairseq-train builds them."""
    small = ["--encoder-embed-dim=16", "--decoder-embed-dim=16"]
    return loaded.built(loaded.LEN48 / "bin", tmp_path, "document_transformer_mini", *small, *arguments)[:2]


def grouped(task, *kind):
    """The task, as if it had been given other instances; with the test set, as generation loads it."""
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


MANY = "the model translates one sentence, .*; give --instances current --context-sentences K, .* no target context"


@pytest.mark.parametrize(
    "kind", [("stored",), ("sliding", 2), ("current", 2, 2)]
)
def test_instances_of_several_target_sentences_are_refused(built, kind):
    model, task = built
    with pytest.raises(UserError, match=f"--instances {kind[0]}: {MANY}"):
        grouped(task, *kind).build_generator([model], Namespace(beam=1))


def test_they_are_refused_in_training(tmp_path):
    with pytest.raises(UserError, match=f"--instances sliding: {MANY}"):
        build(tmp_path, "--instances=sliding", "--context-sentences=2")


@pytest.mark.parametrize(("kind", "most"), [(("current", 0), 1), (("current", 3), 4), (("disjoint", 0), 1)])
def test_instances_that_fit(built, kind, most):
    """One target sentence behind one to K + 1 of the source, and the rule of sentences whatever the mode is."""
    model, task = built
    assert grouped(task, *kind).build_generator([model], Namespace(beam=1)).free is False
    examples = [task.datasets["test"][number] for number in range(22)]
    assert all(int(one["target"].eq(task.tgt_dict.eos()).sum()) == 1 for one in examples)
    assert {int(one["source"].eq(task.src_dict.bos()).sum()) for one in examples} == set(range(1, most + 1))


def test_typed_lines_hold_what_their_writer_put_there(built):
    model, task = built
    grouped(task, "stored").datasets.clear()
    assert task.build_generator([model], Namespace(beam=1)).free is False
    task.options.has_strategy = True
    with pytest.raises(UserError, match="no --strategy"):
        task.build_generator([model], Namespace(beam=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*CURRENT, "--freeze-sentence-parameters"],
            "--freeze-sentence-parameters is the second step .* give --finetune-from-model CHECKPOINT of the first",
        ),
        (
            [*CURRENT, "--freeze-sentence-parameters", "--finetune-from-model=nowhere.pt"],
            "--finetune-from-model nowhere.pt: no such checkpoint",
        ),
    ],
)
def test_what_cannot_be(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        build(tmp_path, *arguments)


@pytest.fixture
def interrupted(tmp_path):
    """Options of a second step whose last checkpoint is there."""
    (tmp_path / "save").mkdir()
    model, _ = build(tmp_path, *CURRENT)
    torch.save({"model": model.state_dict()}, tmp_path / "save" / "checkpoint_last.pt")
    return [*CURRENT, "--freeze-sentence-parameters"]


def test_its_own_last_checkpoint_is_no_start_where_another_is_named(tmp_path, interrupted):
    """fairseq says only in the log that a --restore-file is not there, and trains from random parameters."""
    build(tmp_path, *interrupted)
    with pytest.raises(UserError, match="mistyped.pt"):
        build(tmp_path, *interrupted, "--restore-file=mistyped.pt")
    build(tmp_path, *interrupted, f"--restore-file={tmp_path / 'save' / 'checkpoint_last.pt'}")
    (tmp_path / "save" / "checkpoint_last.pt").unlink()
    start = ["--finetune-from-model=nowhere.pt", f"--restore-file={tmp_path / 'save' / 'checkpoint_last.pt'}"]
    with pytest.raises(UserError, match="nowhere.pt"):
        build(tmp_path, *interrupted, *start)


def test_what_is_frozen_is_not_rounded(tmp_path, interrupted, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # half precision is for GPUs
    with pytest.raises(UserError, match="--freeze-sentence-parameters: --fp16 rounds all parameters"):
        build(tmp_path, *interrupted, "--fp16")
    build(tmp_path, *interrupted, "--amp")
    with pytest.raises(UserError, match="--freeze-sentence-parameters: --bf16 rounds all parameters"):
        check_rounding(Namespace(fp16=False, bf16=True), "--freeze-sentence-parameters")  # by fairseq-hydra-train


@pytest.mark.parametrize("place", ["encoder", "decoder", "both"])
def test_what_is_frozen_has_no_gradient_and_its_dropout_is_on(dictionary, place):
    model = beside_model(dictionary, context_in=place, dropout=0.5).train()
    freeze_pretrained(model, None)
    source, target = batch(dictionary, pairs(dictionary))
    logits = [model(source, None, target)[0] for _ in range(2)]
    assert not torch.allclose(*logits)
    logits[0].logsumexp(dim=2).sum().backward()
    new = 0
    for name, parameter in model.named_parameters():
        context = "context_encoder" in name or "context_attn" in name
        assert parameter.requires_grad == context and (parameter.grad is not None) == context, name
        new += context
    # The context encoder's attention, feed-forward and norms; of each layer attention, gate and norm.
    assert new == 8 + 4 + 4 + (8 + 2 + 2) * (4 if place == "both" else 2)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'group'}", world_size=1, rank=0)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("place", ["encoder", "decoder", "both"])
def test_distributed_training_waits_for_no_gradient_that_never_comes(dictionary, group, place):
    """PyTorch's DDP, fairseq's default, which stops in the next pass if a parameter had none; whatever the contexts."""
    model = beside_model(dictionary, context_in=place).train()
    freeze_pretrained(model, None)
    parallel = DistributedDataParallel(model)
    everything = pairs(dictionary)
    for documents in (everything, [one for one in everything if one[0].count(dictionary.bos()) == 1], everything):
        source, target = batch(dictionary, documents)
        parallel(source, None, target)[0].logsumexp(dim=2).sum().backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters())


def test_checkpoints_of_other_systems_are_refused(dictionary):
    """In one sentence that says what is missing or too much."""
    ours = beside_model(dictionary, load_partial=True)
    with pytest.raises(UserError, match="another structure: .*this model has no .*self_attn_global") as error:
        ours.load_state_dict(tiny_model(dictionary, encoder_layers=2, decoder_layers=2).state_dict())
    assert "\n" not in str(error.value)
    sentence = beside_model(dictionary, InstanceTransformerModel, DocumentModelConfig, load_partial=True)
    with pytest.raises(UserError, match="this model has no encoder.layers.0.context_attn_local"):
        sentence.load_state_dict(ours.state_dict())
