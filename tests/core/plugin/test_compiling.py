"""--compile: training by packed batches, and what is refused."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from gtransformer.data.packing import PACKED
from gtransformer.errors import UserError
from gtransformer.models.common import compiled, embedding
from gtransformer.models.common.compiled import packed_loss
from gtransformer.plugin import compiling, graphs
from gtransformer.plugin.compiling import Compiling
from gtransformer.plugin.graphs import GraphedLoss
from tests.commands import TRAINING, losses, run
from tests.core.plugin.loaded import LEN48, built, iterator
from tests.core.plugin.test_graphs import pretended

pytestmark = pytest.mark.slow
FUSED = "--criterion=fused_label_smoothed_cross_entropy"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Compile without a code generator."""
    torch._dynamo.reset()
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")


def opened(tmp_path, *options, workers=0, **limits):
    model, task, cfg = built(
        LEN48 / "bin", tmp_path, "gtransformer_mini", FUSED, "--cpu", "--compile=on", *options
    )
    task.load_dataset("train")
    return model, iterator(task, task.dataset("train"), workers, **limits)


def test_workers_make_the_same_packed_batches(tmp_path):
    options = ["--doc-noise-mask=0.2", "--doc-noise-epochs=9"]
    read = []
    for workers in (0, 2):
        _, batches = opened(tmp_path, *options, workers=workers)
        epochs = [list(batches.next_epoch_itr(shuffle=True)) for _ in range(2)]
        read.append([batch for epoch in epochs for batch in epoch])
    assert len(read[0]) == len(read[1]) > 4
    shapes = set()
    for one, other in zip(*read, strict=True):
        assert one["id"].tolist() == other["id"].tolist() and one["ntokens"] == other["ntokens"]
        for name, side in one[PACKED].items():
            assert side["tokens"].tolist() == other[PACKED][name]["tokens"].tolist()
            shapes.add((name, side["tokens"].shape, side["bounds"]["sentences"].shape))
    assert len(shapes) == 2


def test_mostly_padding_is_not_compiled_unasked(tmp_path):
    """Batches of few instances, whose capacity is rounded up; shards have one capacity."""
    model, task, cfg = built(LEN48 / "bin", tmp_path, "gtransformer_mini", FUSED, "--cpu")
    task.load_dataset("train")
    dataset = task.dataset("train")
    compiling = Compiling("on", model, cfg)
    pairs, one = np.arange(8).reshape(4, 2), np.arange(8).reshape(8, 1)
    larger = compiling.packer(dataset, pairs, None).capacity
    assert compiling.packer(dataset, one, None).capacity == larger
    compiling.wish = "auto"
    assert compiling.packer(dataset, one, None) is None and not compiling.active


def test_targets_that_count(tmp_path):
    """The context does not; each current target token counts once an epoch."""
    options = ["--instances=sliding", "--context-sentences=2", "--context-loss=off"]
    _, batches = opened(tmp_path, *options)
    dataset = batches.dataset
    counted = sum(int(dataset.tgt_sizes[one] - dataset.context[one]) for one in range(len(dataset)))
    found = list(batches.next_epoch_itr(shuffle=True))
    predicted = [batch[PACKED]["target"]["predicted"] for batch in found]
    assert sum(int(one.ne(dataset.tgt_dict.pad()).sum()) for one in predicted) == counted
    assert sum(batch["ntokens"] for batch in found) == counted


def test_what_does_not_fit_is_refused_when_batches_are_made(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="--max-tokens 20"):
        opened(tmp_path, max_tokens=20)
    learned = ["--positions=sentence", "--encoder-learned-pos", "--sentence-marks=end"]
    longest = int(opened(tmp_path, *learned)[1].dataset.src.sentences.lengths.max())
    monkeypatch.setattr(embedding, "LEARNED_POSITIONS", longest - 1)  # no layer sees <s>
    model, batches = opened(tmp_path, *learned)
    for batch in batches.next_epoch_itr():
        packed_loss(model, batch[PACKED], 0.1)
    monkeypatch.setattr(embedding, "LEARNED_POSITIONS", longest - 2)
    with pytest.raises(UserError, match=f"the {longest - 2} learned positions"):
        opened(tmp_path, *learned)


@pytest.mark.parametrize(
    "more",
    [
        ["--criterion=label_smoothed_cross_entropy"],
        ["--report-accuracy"],
        ["--update-epoch-batch-itr=True"],
        ["--attention-dropout=0.1"],
        ["--valid-subset=valid,train"],
        ["--arch=window_transformer_mini"],
    ],
)
def test_what_cannot_be_compiled_is_refused_or_trained_as_before(
    tmp_path, more, monkeypatch, caplog
):
    """On a GPU that may be compiled for, as far as one can tell without."""
    caplog.set_level("INFO", logger="gtransformer.plugin")  # export sets this one
    arguments = [LEN48 / "bin", tmp_path, "gtransformer_mini", FUSED, "--compile"]
    with pytest.raises(UserError, match="--compile on"):
        built(*arguments, "on", "--cpu", *more)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    _, task, _ = built(*arguments, "auto", "--fp16", *more)
    assert not task.compiling.active
    assert "not compiled, because" in caplog.text


@pytest.mark.parametrize("by_graphs", [False, True])
def test_training_and_resumption(tmp_path, monkeypatch, by_graphs):
    """The same losses as without, also of a training that stops and resumes, with workers."""
    own = defaultdict(GraphedLoss)
    if by_graphs:
        monkeypatch.setattr(graphs, "capture", pretended)
        monkeypatch.setattr(Compiling, "loss", lambda self, *given: own[self](*given))
    folder = LEN48 / "bin"
    data = [folder, *TRAINING, "--arch=gtransformer_mini", FUSED, "--max-tokens=150", "--lr=0.001"]
    data += ["--encoder-layers=1", "--decoder-layers=1", "--encoder-ctxlayers=1"]
    data += ["--decoder-ctxlayers=1", "--cross-ctxlayers=1", "--dropout=0"]
    data += ["--warmup-updates=2", "--disable-validation", "--label-smoothing=0.1"]
    data += ["--save-interval-updates=3", "--num-workers=2", "--update-freq=2"]

    def train(name, updates, choice):
        options = f"--max-update={updates}", f"--save-dir={tmp_path / name}", f"--compile={choice}"
        return losses(run("train", *data, *options))

    expected = train("off", 6, "off")
    resumed = train("on", 3, "on") | train("on", 6, "on")
    assert list(resumed) == list(expected) == list(range(1, 7))
    for update, loss in expected.items():
        assert resumed[update] == pytest.approx(loss, abs=2e-3)
    assert [loss.graph is not None for loss in own.values()] == [True, True] * by_graphs


def test_what_has_no_cuda_graphs_is_refused(tmp_path, monkeypatch):
    def training(*options):
        data = LEN48 / "bin", tmp_path, "gtransformer_mini", FUSED, "--compile=graphs"
        return built(*data, *options)[1].compiling

    monkeypatch.setattr(compiling, "_unfit_options", lambda *whatever: None)
    with pytest.raises(UserError, match="single GPU"):
        training()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert training("--autocast=bfloat16").graphs is not None
    for option, reason in {"--fp16": "loss scale", "--distributed-world-size=2": "single"}.items():
        with pytest.raises(UserError, match=reason):
            training(option)
