"""What fine-tuning of a G-Transformer trains: all, what is new, or the layers that have something new."""

from __future__ import annotations

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.tasks.finetuning import freeze_pretrained
from tests.core.models.oracle_checks import batch
from tests.core.models.test_document_transformer import pairs
from tests.core.tasks.test_finetuning import build, prepared, sentence_model  # noqa: F401
from tests.support import tiny_model

pytestmark = pytest.mark.slow

OPTIONS = {
    "positions": "sentence",
    "gate_bias": 5,
    "encoder_ctxlayers": 1,
    "decoder_ctxlayers": 2,
    "cross_ctxlayers": 1,
}


@pytest.mark.parametrize("trained", ["new", "top"])
def test_the_rest_has_no_gradient(dictionary, trained):
    model = tiny_model(dictionary, **OPTIONS).train()
    freeze_pretrained(model, None, trained, "--trained-parameters")
    source, target = batch(dictionary, pairs(dictionary))
    model(source, None, target)[0].logsumexp(dim=2).sum().backward()
    top = ("encoder.layers.2.", "decoder.layers.1.", "decoder.layers.2.")
    chosen = {
        name
        for name, _ in model.named_parameters()
        if not is_transformers(name) or trained == "top" and name.startswith(top)
    }
    assert any("_numbers" in name for name in chosen) and any("_gate" in name for name in chosen)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None) == (name in chosen), name


def test_by_the_option(prepared, sentence_model, tmp_path):  # noqa: F811
    """With two rates; another choice does not take up the optimizer of this one."""
    start = ["--load-partial", f"--finetune-from-model={sentence_model}"]
    rates = ["--doc-double-lr", "--positions=sentence", "--gate-bias=5"]
    model, cfg = build(prepared, tmp_path, *start, *rates, "--trained-parameters=new")
    assert all(parameter.requires_grad != is_transformers(name) for name, parameter in model.named_parameters())
    assert cfg.optimizer._name == "adam_two_rates"
    (tmp_path / "save").mkdir()
    torch.save({"model": model.state_dict(), "cfg": cfg}, tmp_path / "save" / "checkpoint_last.pt")
    with pytest.raises(UserError, match="trained with --trained-parameters new, so its optimizer is of other"):
        build(prepared, tmp_path, *start, *rates)


def test_what_cannot_be(dictionary, prepared, tmp_path):  # noqa: F811
    with pytest.raises(UserError, match="--trained-parameters new is the second step .* nothing to start from"):
        build(prepared, tmp_path, "--trained-parameters=new")
    local = tiny_model(dictionary, encoder_ctxlayers=0, decoder_ctxlayers=0, cross_ctxlayers=0)
    with pytest.raises(UserError, match="--trained-parameters top: this model has nothing that a sentence model has"):
        freeze_pretrained(local, None, "top", "--trained-parameters top")
