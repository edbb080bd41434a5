"""Recipes whose model is the mean of their last checkpoints: what is made, checked, used, and made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtransformer.cli import average
from gtransformer.cli.run import build_parser, main
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run import run as module
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run import make_run
from gtransformer.tasks.averaging import AVERAGE

OPTIONS = ("train.average-checkpoints=2", "train.no-epoch-checkpoints=", "train.keep-last-epochs=2")
EVERY = ("train.save-interval-updates=100",)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    directory = tmp_path / "raw" / "tiny"
    directory.mkdir(parents=True)
    return directory


def made(corpus: Path, *options: str, recipe: str = "cpu_tiny"):
    line = [recipe, str(corpus), "all", "--output", str(corpus.parent / "out")]
    args = build_parser().parse_args([*line, *(part for option in options for part in ("--set", option))])
    args.extra = []
    return make_run(args)


def test_the_mean_is_the_model_and_no_option_of_the_training(corpus: Path):
    run = made(corpus, *OPTIONS)
    assert run.checkpoint == run.directory / "checkpoints" / AVERAGE
    assert made(corpus).checkpoint == run.directory / "checkpoints" / "checkpoint_best.pt"
    recipe = load_recipe("cpu_tiny", list(OPTIONS))
    assert recipe.averaged == 2 and "average-checkpoints" in recipe.options("train")
    own = recipe.options("task", "train")
    assert recipe.training() == {key: value for key, value in own.items() if key != "average-checkpoints"}


def checkpoints(run, number: int) -> None:
    folder = run.directory / "checkpoints"
    for epoch in range(1, number + 1):
        state = {"model": {"weight": torch.full((2,), float(epoch))}, "optimizer_history": [{"num_updates": epoch}]}
        for name in (f"checkpoint{epoch}.pt", "checkpoint_best.pt"):
            torch.save(state, folder / name)


def test_the_mean_is_made_when_training_has_ended(corpus: Path, monkeypatch):
    """Once for each end of a training; another number of checkpoints is another mean."""
    did, trained = [], [2]

    def stage(name: str, command: list[str], directory: Path, results: dict) -> None:
        did.append(name)
        if name == "train":
            checkpoints(run, trained[0])
        else:
            assert command[2] == "gtransformer.cli.average" and average.main(command[3:]) == 0
        write_json(directory / f"{name}.json", {"command": command, **results})

    monkeypatch.setattr(module, "run_stage", stage)
    monkeypatch.setattr(module.Run, "_need_prepared", lambda *_: None)
    run = made(corpus, *OPTIONS)
    run.prepared.mkdir(parents=True)
    write_json(run.prepared / "manifest.json", {})
    run.train()
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [1.5, 1.5]
    run.train()
    assert did == ["train", "average"]
    run.checkpoint.unlink()
    run.train()
    run.again, trained[0] = True, 3
    run.train()
    assert did == ["train", "average", "average", "train", "average"]
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [2.5, 2.5]
    more = made(corpus, "train.average-checkpoints=3", *OPTIONS[1:2], "train.keep-last-epochs=2")
    more.train()
    assert did[-1] == "average" and torch.load(run.checkpoint)["model"]["weight"].tolist() == [2.0, 2.0]
    record = read_json(run.directory / "average.json")
    assert record["model"] == str(run.checkpoint)
    record["command"].remove("--or-fewer")  # as an earlier version noted it
    write_json(run.directory / "average.json", record)
    before = len(did)
    more._average()
    assert len(did) == before


def test_a_training_that_ended_early(corpus: Path, monkeypatch, capsys):
    """The mean is that of what there is; it says how many, and of none there is no mean."""
    monkeypatch.setattr(module, "run_stage", lambda name, command, *_: average.main(command[3:]))
    run = made(corpus, "train.average-checkpoints=5", *OPTIONS[1:2])
    (run.directory / "checkpoints").mkdir(parents=True)
    run._average()
    assert "holds 0 numbered checkpoint(s), but 5 are to be averaged" in capsys.readouterr().err
    checkpoints(run, 2)
    run._average()
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [1.5, 1.5]
    error = capsys.readouterr().err
    assert "training has left 2 numbered checkpoint(s), not 5; averaged is what there is" in error


def test_a_start_that_is_averaged(corpus: Path, tmp_path: Path):
    """Who starts from a recipe starts from its model."""
    (tmp_path / "first.yaml").write_text(
        "based-on: cpu_tiny\ntrain: {average-checkpoints: 2, no-epoch-checkpoints: null}\n"
    )
    (tmp_path / "second.yaml").write_text("based-on: cpu_tiny\npretrained-from: first\n")
    run = made(corpus, recipe=str(tmp_path / "second.yaml"))
    assert run.pretrained.parts[-4:] == ("first", "tiny", "checkpoints", AVERAGE)
    assert run.checkpoint.name == "checkpoint_best.pt"


@pytest.mark.parametrize(
    ("kept", "enough"),
    [
        ((), False),  # as the recipe has it: the best and the last
        (("train.no-epoch-checkpoints=",), True),
        (("train.no-epoch-checkpoints=", "train.keep-last-epochs=5"), True),
        (("train.no-epoch-checkpoints=", "train.keep-last-epochs=4"), False),
        (("train.save-interval-updates=100",), True),
        (("train.save-interval-updates=100", "train.keep-interval-updates=4"), False),
    ],
)
def test_as_many_are_kept_as_are_averaged(kept: tuple[str, ...], enough: bool):
    recipe = load_recipe("base", ["train.average-checkpoints=5", *kept])
    if enough:
        check_recipe(recipe, ["train"])
        return
    with pytest.raises(UserError, match="recipe 'base', stage train: average-checkpoints is 5, but training keeps few"):
        check_recipe(recipe, ["train"])


@pytest.mark.parametrize(
    ("ends", "any_is_written"),
    [
        (("train.no-epoch-checkpoints=", "train.max-epoch=1"), True),
        (("train.no-epoch-checkpoints=", "train.max-epoch=4", "train.save-interval=5"), False),
        (("train.no-epoch-checkpoints=", "train.max-update=1"), True),  # it may be an epoch
        ((*EVERY, "train.max-update=100"), True),
        ((*EVERY, "train.max-update=99"), False),
        ((*EVERY, "train.max-update=99", "train.max-epoch=9"), False),
        (("train.no-epoch-checkpoints=", "train.max-epoch=3", *EVERY, "train.max-update=99"), True),
        ((*EVERY, "train.max-epoch=1"), True),  # of how many updates is not known
    ],
)
def test_a_training_that_ends_before_a_checkpoint(ends: tuple[str, ...], any_is_written: bool):
    recipe = load_recipe("base", ["train.average-checkpoints=5", *ends])
    if any_is_written:
        check_recipe(recipe, ["train"])
        return
    message = (
        "^recipe .base., stage train: average-checkpoints is 5, but training ends before it has written a numbered"
    )
    with pytest.raises(UserError, match=message):
        check_recipe(recipe, ["train"])


@pytest.mark.parametrize("number", ["1", "five", "-2", "true"])
def test_what_is_no_number_of_checkpoints(corpus: Path, capsys, number: str):
    line = ["base", str(corpus), "train", "--set", f"train.average-checkpoints={number}"]
    assert main(line) == 1
    error = capsys.readouterr().err
    assert "give a whole number of at least 2" in error and error.count("\n") == 1
