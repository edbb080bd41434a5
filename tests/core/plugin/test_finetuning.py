"""What is settled before fine-tuning starts: learning rates, the optimizer, and whether the
pretrained model fits.
"""

from __future__ import annotations

import shutil

import pytest
import torch
from fairseq import optim
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.models.common.pretrained import is_transformers
from gtransformer.plugin.finetuning import freeze_pretrained, pretrained_path
from tests.core.models import fairseq_models
from tests.core.models.oracle_checks import batch
from tests.core.models.test_numpy import pairs
from tests.core.plugin import loaded
from tests.support import tiny_model, write_lines

pytestmark = pytest.mark.slow

SIZES = [f"--{key.replace('_', '-')}={value}" for key, value in fairseq_models.SIZES.items()]


@pytest.fixture
def prepared(corpus):
    return corpus(train=2, valid=1)


@pytest.fixture
def sentence_model(dictionary, prepared, tmp_path):
    """A checkpoint of fairseq's own transformer over the same data."""
    args = fairseq_models.settings(
        "transformer",
        share_all_embeddings=True,
        data=str(prepared),
        source_lang="en",
        target_lang="de",
    )
    model = fairseq_models.build(dictionary, share_all_embeddings=True)
    path = tmp_path / "sentence.pt"
    torch.save(fairseq_models.checkpoint(model.state_dict(), args), path)
    return path


def build(prepared, tmp_path, *arguments):
    """(model, all options), built as fairseq-train builds it."""
    line = [*SIZES, "--share-all-embeddings", *arguments]
    return loaded.built(prepared, tmp_path, "gtransformer_mini", *line)[::2]


@pytest.mark.parametrize("copied", [False, True])
def test_what_learns_at_the_full_rate(prepared, sentence_model, tmp_path, monkeypatch, copied):
    """As in the release: gates, and global attention unless it is copied; without weight decay,
    which the rest has. Mixed precision keeps parameters apart.
    """
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # nothing is computed here
    start = [
        "--load-partial-global-from-local" if copied else "--load-partial",
        "--positions=sentence",
    ]
    start += [f"--finetune-from-model={sentence_model}", "--lr-scale-pretrained=0.3", "--fp16"]
    model, cfg = build(prepared, tmp_path, "--doc-double-lr", "--weight-decay=0.1", *start)
    assert cfg.common.fp16_no_flatten_grads is True
    trained = optim.build_optimizer(cfg.optimizer, list(model.parameters()))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rest, fresh = ({names[id(p)] for p in group["params"]} for group in trained.param_groups)
    settings = [(group["weight_decay"], group["lr_scale"]) for group in trained.param_groups]
    assert settings == [(0.1, 0.3), (0.0, 1.0)]
    new = ("_gate.", "_numbers.") if copied else ("_gate.", "_global.")
    assert {name for name in names.values() if any(part in name for part in new)} == fresh
    assert any("_global." in name for name in rest) == copied and fresh | rest == {*names.values()}


HEADS = (
    ["--encoder-attention-heads=4"],
    "trained with --encoder-attention-heads 2, this model has 4",
)
LOADED = ["--load-partial", "--finetune-from-model"]


@pytest.mark.parametrize(
    ("naming", "options", "message"),
    [
        (LOADED, *HEADS),
        (
            LOADED,
            ["--decoder-normalize-before"],
            "trained with --decoder-normalize-before False, this model has True",
        ),
        (["--finetune-from-model"], *HEADS),
        (["--load-partial", "--reset-optimizer", "--restore-file"], *HEADS),
    ],
)
def test_settings_that_parameters_do_not_show(
    prepared, sentence_model, tmp_path, naming, options, message
):
    with pytest.raises(UserError, match=f"{sentence_model}: {message}"):
        build(prepared, tmp_path, *naming, str(sentence_model), *options)


def swapped(prepared, folder):
    """The same data with another dictionary of the same size."""
    shutil.copytree(prepared, folder)
    for lang in ("en", "de"):
        path = folder / f"dict.{lang}.txt"
        lines = path.read_text().splitlines()
        lines[0], lines[3] = lines[3], lines[0]
        write_lines(path, lines)
    return folder


def test_another_dictionary_of_the_same_size(prepared, sentence_model, tmp_path):
    """Parameters would load, and every word would be another: the dictionary beside the old data
    tells.
    """
    other = swapped(prepared, tmp_path / "other")
    arguments = [
        "--load-partial",
        f"--finetune-from-model={sentence_model}",
        "--share-all-embeddings",
    ]
    line = [other, tmp_path, "gtransformer_mini", *SIZES, *arguments]
    with pytest.raises(
        UserError, match="has 'w0' as entry 4, this data's has 'w3': the model needs the same"
    ):
        loaded.built(*line)
    shutil.rmtree(prepared)  # where the old data are gone, there is nothing to compare
    loaded.built(*line)


def test_a_training_is_not_resumed_with_another_dictionary(prepared, tmp_path):
    model, cfg = build(prepared, tmp_path)
    (tmp_path / "save").mkdir()
    torch.save({"model": model.state_dict(), "cfg": cfg}, tmp_path / "save" / "checkpoint_last.pt")
    other = swapped(prepared, tmp_path / "other")
    with pytest.raises(UserError, match="has 'w0' as entry 4, this data's has 'w3'"):
        build(other, tmp_path)


def test_which_checkpoint_training_starts_from(tmp_path, sentence_model):
    """Its own last one comes first, as with fairseq; a --restore-file before all."""

    def found(restore="checkpoint_last.pt", finetune=str(sentence_model), other=None):
        names = {"restore_file": restore, "continue_once": other, "finetune_from_model": finetune}
        return pretrained_path(
            OmegaConf.create({"checkpoint": {"save_dir": str(tmp_path), **names}})
        )

    assert found() == sentence_model and found(finetune=None) is None
    assert found(restore=str(sentence_model), finetune=None) == sentence_model
    for missing in ({"restore": "nowhere.pt"}, {"other": "nowhere.pt"}, {"finetune": "nowhere.pt"}):
        with pytest.raises(UserError, match="nowhere.pt"):
            found(**missing)
    (tmp_path / "checkpoint_last.pt").touch()
    assert found() is found(other="nowhere.pt") is found(finetune="nowhere.pt") is None


@pytest.mark.parametrize("trained", ["new", "top"])
def test_what_is_not_trained_has_no_gradient(dictionary, trained):
    start = {"positions": "sentence", "gate_bias": 5}
    model = tiny_model(dictionary, encoder_ctxlayers=1, cross_ctxlayers=1, **start).train()
    freeze_pretrained(model, trained)
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


def test_what_is_trained_by_the_option(prepared, sentence_model, tmp_path):
    """With two rates."""
    start = ["--load-partial", f"--finetune-from-model={sentence_model}"]
    rates = ["--doc-double-lr", "--positions=sentence", "--gate-bias=5"]
    model, cfg = build(prepared, tmp_path, *start, *rates, "--trained-parameters=new")
    assert all(
        parameter.requires_grad != is_transformers(name)
        for name, parameter in model.named_parameters()
    )
    assert cfg.optimizer._name == "adam_two_rates"


@pytest.mark.parametrize("option", ["--load-partial", "--trained-parameters=new"])
def test_nothing_to_start_from(prepared, tmp_path, option):
    """Unless the training is resumed."""
    with pytest.raises(UserError, match="there is no model"):
        build(prepared, tmp_path, option)
    (tmp_path / "save").mkdir()
    torch.save({"model": {}}, tmp_path / "save" / "checkpoint_last.pt")
    build(prepared, tmp_path, option)
