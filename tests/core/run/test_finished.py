"""Finished trainings: kept if their model is whole, made good, trained on, or refused; and models that are means."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch

from gtransformer.cli import average
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run import run as module
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.tasks.checkpoints import AVERAGE
from tests.core.run.locations import made, prepare

OPTIONS = ("train.average-checkpoints=2", "train.no-epoch-checkpoints=", "train.keep-last-epochs=2")
EVERY = ("train.save-interval-updates=100",)


def changed(*changes: str) -> list[str]:
    return [part for change in changes for part in ("--set", change)]


class Training:
    """A run on a corpus that is prepared, whose training leaves what it is to leave."""

    def __init__(self, folder: Path, corpus: Path, monkeypatch):
        self.did: list[str] = []
        self.folder, self.corpus = folder, corpus
        self.state: dict = {"extra_state": {"val_loss": 1.0, "best": 1.0}}
        self.leaves = ["checkpoint_last.pt", "checkpoint_best.pt"]
        self.epochs = 0
        prepare(folder / "prepared")
        monkeypatch.setattr(module, "run_stage", self.stage)

    def run(self, *options: str):
        return made("cpu_tiny", self.corpus, "train", "--output", self.folder, *changed(*options))

    def stage(self, name: str, command: list[str], directory: Path, results: dict) -> None:
        self.did.append(name)
        checkpoints = directory / "checkpoints"
        if name == "average":
            assert command[2] == "gtransformer.cli.average" and average.main(command[3:]) == 0
        else:
            for path in (checkpoints / name for name in self.leaves):
                torch.save(self.state, path)
            for epoch in range(1, self.epochs + 1):
                model = {"weight": torch.full((2,), float(epoch))}
                torch.save(
                    {"model": model, "optimizer_history": [{"num_updates": epoch}], **self.state},
                    checkpoints / f"checkpoint{epoch}.pt",
                )
        write_json(directory / f"{name}.json", {"stage": name, "command": command, **results})


@pytest.fixture
def training(tmp_path: Path, corpus: Path, monkeypatch) -> Training:
    return Training(tmp_path / "out", corpus, monkeypatch)


def test_a_finished_model_is_kept_if_it_is_whole(training, capsys):
    """Cut short it is made again from what was copied; else it is refused, as fairseq would find nothing left to do."""
    run = training.run()
    best, last = (run.directory / "checkpoints" / f"checkpoint_{name}.pt" for name in ("best", "last"))
    run.train(), run.train()
    whole = best.read_bytes()
    best.write_bytes(whole[:-100])
    run.train()
    assert best.read_bytes() == last.read_bytes() and training.did == ["train"]
    assert capsys.readouterr().out.count("[train] done before") == 2
    last.unlink()
    for harm in (lambda: best.write_bytes(whole[:100]), lambda: best.rename(last)):
        harm()
        with pytest.raises(UserError, match="best.pt: missing or truncated, but the training was finished; restore it"):
            run.train()
    shutil.rmtree(best.parent)
    run.train()
    assert training.did == ["train"] * 2 and best.read_bytes() == whole  # zip archives name the file that they were


@pytest.mark.parametrize("extra_state", [{}, {"best": math.nan}])
def test_where_there_never_was_a_best_it_is_trained_on(training, extra_state):
    """Validation was off, or nan: fairseq finds nothing to do, and nothing is asked to be removed."""
    training.state, training.leaves = {"extra_state": extra_state}, ["checkpoint_last.pt"]
    run = training.run()
    run.train(), run.train()
    assert training.did == ["train"] * 2


def test_the_model_of_another_corpus_is_neither_kept_nor_trained_on(training):
    """The corpus of the same name was prepared from other text; a test set of its own changes no model."""
    run = training.run()
    run.train()
    prepare(run.prepared, test="2", source="2")
    run.again = True
    run.train()
    prepare(run.prepared, train="2")
    with pytest.raises(UserError, match="the model there was trained on another corpus than .* remove that folder"):
        run.train()
    assert training.did == ["train"] * 2


def test_further_data_are_of_the_corpus_too(training, tmp_path):
    """Made again under the same name they are other data; data that another program prepared are not known."""
    more = [f"train.more-training-data={prepare(tmp_path / 'back' / 'prepared') / 'bin'}:{tmp_path / 'bin'}"]
    run = training.run(*more)
    run.train(), run.train()
    prepare(tmp_path / "back" / "prepared", test="2")
    run.train()
    prepare(tmp_path / "back" / "prepared", train="2")
    with pytest.raises(UserError, match="trained on another corpus than .*back/prepared/bin:.* is now; remove that"):
        run.train()
    with pytest.raises(UserError, match="trained on another corpus than this one without --more-training-data is now"):
        training.run().train()
    assert training.did == ["train"]


def test_the_mean_is_made_when_training_has_ended(training):
    """Once for each end of a training; another number of checkpoints is another mean."""
    training.epochs, training.leaves = 2, []
    run = training.run(*OPTIONS)
    assert run.checkpoint == run.directory / "checkpoints" / AVERAGE
    run.train(), run.train()
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [1.5, 1.5] and training.did == ["train", "average"]
    run.checkpoint.unlink()
    shutil.copy(run.directory / "checkpoints" / "checkpoint2.pt", run.directory / "checkpoints" / "checkpoint_last.pt")
    run.train()
    run.again, training.epochs = True, 3
    run.train()
    assert training.did == ["train", "average", "average", "train", "average"]
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [2.5, 2.5]
    more = training.run("train.average-checkpoints=3", *OPTIONS[1:2], "train.keep-last-epochs=2")
    more.train()
    assert training.did[-1] == "average" and torch.load(run.checkpoint)["model"]["weight"].tolist() == [2.0, 2.0]
    assert read_json(run.directory / "average.json")["model"] == str(run.checkpoint)
    before = len(training.did)
    more.train()
    assert len(training.did) == before


def test_the_mean_needs_no_best_but_a_last(training):
    training.epochs, training.leaves = 2, ["checkpoint_last.pt"]
    run = training.run(*OPTIONS)
    run.train()
    last = run.checkpoint.with_name("checkpoint_last.pt")
    for path in (run.checkpoint, *last.parent.glob("checkpoint[0-9].pt")):  # nothing that it could be made from again
        path.unlink()
    last.write_bytes(last.read_bytes()[:50])
    with pytest.raises(UserError, match=r"checkpoint_last\.pt: missing or truncated, but the training was finished"):
        run.train()


def test_a_training_that_ended_early(training, capsys):
    """The mean is that of what there is; it says how many."""
    training.epochs = 2
    run = training.run("train.average-checkpoints=5", *OPTIONS[1:2])
    run.train()
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [1.5, 1.5]
    assert "2 numbered checkpoint(s), not 5" in capsys.readouterr().err


def test_who_starts_from_a_recipe_starts_from_its_mean(corpus, tmp_path):
    (tmp_path / "first.yaml").write_text(
        "based-on: cpu_tiny\ntrain: {average-checkpoints: 2, no-epoch-checkpoints: null}\n"
    )
    (tmp_path / "second.yaml").write_text("based-on: cpu_tiny\npretrained-from: first\n")
    run = made(tmp_path / "second.yaml", corpus, "all")
    assert run.pretrained.parts[-4:] == ("first", "tiny", "checkpoints", AVERAGE)
    assert run.checkpoint.name == "checkpoint_best.pt"


@pytest.mark.parametrize(
    ("changes", "enough"),
    [
        ((), False),  # as the recipe has it: the best and the last
        (("train.no-epoch-checkpoints=",), True),
        (("train.no-epoch-checkpoints=", "train.keep-last-epochs=4"), False),
        ((*EVERY, "train.keep-interval-updates=4"), False),
        (("train.no-epoch-checkpoints=", "train.max-epoch=4", "train.save-interval=5"), False),
        (("train.no-epoch-checkpoints=", "train.max-update=1"), True),  # it may be an epoch
        ((*EVERY, "train.max-update=99"), False),
        ((*EVERY, "train.max-epoch=1"), True),  # of how many updates is not known
    ],
)
def test_a_training_leaves_what_is_to_be_averaged(changes: tuple[str, ...], enough: bool):
    recipe = load_recipe("base", ["train.average-checkpoints=5", *changes])
    if enough:
        return check_recipe(recipe, ["train"])
    with pytest.raises(UserError, match="recipe 'base', stage train: average-checkpoints is 5, but training"):
        check_recipe(recipe, ["train"])
    for number in ("1", "five", "-2"):
        with pytest.raises(UserError, match="average-checkpoints"):
            check_recipe(load_recipe("base", [f"train.average-checkpoints={number}"]), ["train"])
