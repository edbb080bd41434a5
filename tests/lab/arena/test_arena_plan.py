"""Arenas: which systems, on what terms, with which budget, in which order.

Real runs: tests/lab/end_to_end/test_arena.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.arena.arena import Arena, system_names
from gtransformer.lab.arena.budget import budget_words, measure_epoch, updates_of_tokens
from gtransformer.lab.cli import arena as command
from gtransformer.lab.cli.arena import build_parser
from gtransformer.run.recipe import load_recipe
from tests.core.run.locations import parse_training
from tests.pretended import changes, pretend
from tests.support import ROOT

PREPARED = ROOT / "tests" / "prepared" / "len90"  # 26 sentences in 5 documents, 378 target tokens
# What systems are, in which their trainings may differ.
OWN = {"arch", "window", "window-positions", "train-alignment", "decode-alignment", "max-tokens"}
OWN |= {"encoder-ctxlayers", "decoder-ctxlayers", "cross-ctxlayers", "freeze-sentence-parameters", "current-layers"}
OWN |= {"context-gate", "batch-attention-in"}


def arena(output: Path, *options: object, corpus: object = "demo", systems: tuple = ("lst",)) -> Arena:
    line = [str(corpus), str(output), "--systems", *map(str, systems), "--seeds", "1", *map(str, options)]
    return Arena(build_parser().parse_args(line))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        for lang in ("en", "de"):
            (folder / f"concatenated_en2de_{split}_{lang}.txt").write_text("<d>\none\n")
    return folder


# Systems


def test_all_systems_have_the_same_terms():
    """They share start, corpus and schedule; updates have as many current sentences, as far as batches allow it."""
    assert system_names()[0] == "sentences" and not {"start", "document_alone"} & set(system_names())
    trainings = {}
    for name in system_names():
        recipe = load_recipe(f"arena/{name}")
        assert recipe.pretrained_from == recipe.prepared_from == "arena/start"
        assert recipe.sections["train"]["load-partial"]
        trainings[name] = recipe.options("train")
    shared = [{key: value for key, value in one.items() if key not in OWN} for one in trainings.values()]
    assert len(shared) > 10 and all(options == shared[0] for options in shared)
    tokens = {name: one["max-tokens"] for name, one in trainings.items()}
    sliding = {"pseudo_documents", "docflat", "docflat_d", "docflat_i", "abd", "mbe"}
    assert {tokens.pop(name) for name in sliding} == {3800}  # three sentences in four are context
    assert tokens.pop("document_transformer") == tokens.pop("flat_transformer") == 3 * 1500  # two in three
    assert set(tokens.values()) == {1500}


def test_the_baseline_is_added_and_everything_starts_from_one_model(tmp_path: Path):
    found = arena(tmp_path, "--seeds", 3, 4, "--updates", 9, "--start-updates", 7)
    stages, runs = found.pipeline.stages, ["sentences-3", "lst-3", "sentences-4", "lst-4"]
    assert found.systems == ["sentences", "lst"] and found.start == "start"
    assert [name for name in stages if name.startswith("train-")] == ["train-start", *(f"train-{run}" for run in runs)]
    for name in runs:
        assert stages[f"train-{name}"].after == ["train-start"]
        given = changes(stages[f"train-{name}"])
        assert {f"train.seed={name[-1]}", "train.max-update=9", "train.total-num-update=9"} <= set(given)
        assert f"train.finetune-from-model={tmp_path}/runs/start/checkpoints/checkpoint_best.pt" in given
        assert stages[f"contrastive-{name}"].after == [f"train-{name}", "prepare-set"]
    assert {"train.max-update=7", "train.total-num-update=7"} <= set(changes(stages["train-start"]))
    assert not any("seed" in one for one in changes(stages["train-start"]))
    assert f"prepare.vocabulary={tmp_path}/prepared" in changes(stages["prepare-set"])


def test_a_file_of_ones_own(tmp_path: Path):
    """A further system needs no change to the arena, and shortens no budget."""
    path = tmp_path / "near.yaml"
    train = "{window: 3, max-epoch: 1, stop-time-hours: 0.01, patience: 1}"
    path.write_text(f"description: Near\nbased-on: arena/window\ntrain: {train}\n")
    for budget, hours in (("--updates", None), ("--minutes", 0.5)):
        found = arena(tmp_path / budget, budget, 30, systems=(path, "window"))
        assert found.systems == ["sentences", "near", "window"]
        stage = found.pipeline.stages["train-near-1"]
        options = load_recipe(str(path), changes(stage)).options("train")
        assert options.get("stop-time-hours") == hours and not {"max-epoch", "patience"} & options.keys()
        assert options["window"] == 3 and str(path) in stage.work.command


def test_what_was_done_is_kept_and_more_is_added(tmp_path: Path):
    """Metrics of what was translated, too, which earlier versions did not have."""
    found = arena(tmp_path).pipeline
    assert len(pretend(found)) == 1 + 2 + 1 + 1 + 2 * (7 + 1)
    assert pretend(arena(tmp_path).pipeline) == []
    more = pretend(arena(tmp_path, "--seeds", 1, 2, systems=("lst", "window")).pipeline)
    assert {name.partition("-")[2] for name in more} == {"window", "window-1", "sentences-2", "lst-2", "window-2"}
    later = ("context-items", "align-", "generative-", "cxmi-", "epoch-")
    for path in (tmp_path / "stages").glob("*.json"):
        if path.name.startswith(later):
            path.unlink()
    done = pretend(arena(tmp_path).pipeline)
    assert len(done) == 1 + 2 * (3 + 1) and all(name.startswith(later) for name in done)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    assert pretend(arena(moved).pipeline) == [], "a result does not depend on where it lies"


@pytest.mark.parametrize("options", [["--set", "train.dropout=0.2"], ["--updates", 301], ["--items", 7]])
def test_other_terms_do_not_overwrite_a_model(tmp_path: Path, options):
    pretend(arena(tmp_path).pipeline)
    with pytest.raises(UserError, match="output directory"):
        arena(tmp_path, *options).pipeline.check()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--updates", 0], "--updates"),
        (["--start-updates", 0], "--start-updates"),
        (["--jobs", 0], "--jobs"),
        (["--seeds", 1, 1], "--seeds"),
        (["--seeds", -1], "--seeds"),
        (["--systems", "lst", "lst"], "--systems"),
        (["--systems", "windo"], "give window"),
        (["--systems", "start"], "'start'"),
        (["--systems", "cpu_small_finetune"], "'cpu_small_finetune'"),
        (["--set", "train.seed=3"], "--seeds"),
        (["--set", "train.max_update=3"], "--updates"),
        (["--updates", 5, "--minutes", 3], "--minutes"),
        (["--minutes", "nan"], "--minutes"),
        (["--tokens", -3], "--tokens"),
        (["--from", "scratch", "--start-updates", 3], "--start-updates"),
    ],
)
def test_bad_input(tmp_path: Path, options, word):
    with pytest.raises(UserError, match=word):
        arena(tmp_path, *options)


def test_bad_corpora(tmp_path: Path, corpus: Path, capsys):
    path = tmp_path / "other.yaml"
    path.write_text("description: x\nbased-on: arena/lst\nprepared-from: base\n")
    with pytest.raises(UserError, match="'other'.*prepared-from"):
        arena(tmp_path, systems=(path,))
    with pytest.raises(UserError, match="--items"):
        arena(tmp_path, "--items", 4, corpus=corpus)
    for path in corpus.glob("*dev*"):
        path.unlink()
    with pytest.raises(UserError, match="dev"):
        arena(tmp_path, corpus=corpus)
    assert command.main([str(tmp_path / "nowhere"), str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


# Budgets


def test_minutes_are_each_systems_own_and_no_schedule_ends(tmp_path: Path):
    found = arena(tmp_path, "--minutes", 30)
    stages = found.pipeline.stages
    for run in ("sentences-1", "lst-1"):
        given = changes(stages[f"train-{run}"])
        recipe = load_recipe("arena/lst", given[:-1])  # the last names the start
        parse_training(recipe)
        options = recipe.options("train")
        assert stages[f"train-{run}"].budget == 30 and options["stop-time-hours"] == 0.5
        assert options["lr-scheduler"] == "inverse_sqrt" and not {"max-update", "total-num-update"} & options.keys()
    assert stages["train-start"].budget is None, "updates, as without minutes"
    assert not any("stop-time" in one or "scheduler" in one for one in changes(stages["train-start"]))
    terms = found.common()
    assert (terms["updates"], terms["minutes"]) == (None, 30) and budget_words(terms) == "30 minutes"


def test_more_minutes_go_on_and_fewer_are_refused(tmp_path: Path):
    pretend(arena(tmp_path, "--minutes", 1).pipeline)
    for run in ("start", "sentences-1", "lst-1"):
        (tmp_path / "runs" / run / "checkpoints" / "checkpoint_last.pt").touch()
    done = pretend(arena(tmp_path, "--minutes", 2).pipeline)
    assert {"train-lst-1", "translate-lst-1", "cxmi-lst-1"} <= set(done) and "train-start" not in done
    assert (tmp_path / "runs" / "lst-1" / "checkpoints" / "checkpoint_last.pt").is_file(), "gone on with"
    for options in (["--minutes", 1], ["--updates", 5]):
        with pytest.raises(UserError, match="output directory"):
            arena(tmp_path, *options).pipeline.check()


@pytest.mark.parametrize(
    ("system", "more", "updates"),
    [
        ("sentences", "train.update-freq=2", 4),  # 26 sentences, four a batch: seven batches, two an update
        ("concatenation", "train.update-freq=2", 4),  # as many instances, though they overlap
        ("documents", "train.update-freq=2", 1),  # five documents: two batches
        ("pseudo_documents", "train.shuffled-context=global", None),
    ],
)
def test_an_epoch_is_all_target_tokens_once(system: str, more: str, updates: int | None):
    found = measure_epoch(load_recipe(f"arena/{system}", ["train.max-tokens=", "train.batch-size=4", more]), PREPARED)
    assert found == {"target_tokens": 378, "updates": updates or found["updates"]}
    assert updates_of_tokens(3 * 378, found) == 3 * found["updates"] and updates_of_tokens(1, found) == 1


@pytest.mark.parametrize("more", [f"train.more-training-data={PREPARED / 'bin'}", "train.training-weights=2"])
def test_tokens_of_several_corpora_are_not_counted(more: str):
    with pytest.raises(UserError, match="tokens are counted of one corpus"):
        measure_epoch(load_recipe("arena/sentences", [more]), PREPARED)


def test_updates_of_other_sizes_are_no_measure(tmp_path: Path):
    """Where they are of one size what an update reads is measured, and no training waits for it."""
    sizes = "train.update-freq=1,2"
    with pytest.raises(UserError, match="update-freq"):
        measure_epoch(load_recipe("arena/sentences", [sizes]), PREPARED)
    found = arena(tmp_path, "--set", sizes)
    assert not any(name.startswith("epoch-") for name in found.pipeline.stages) and not found.has_epoch("lst")
    stages = arena(tmp_path, "--minutes", 5).pipeline.stages
    assert stages["epoch-lst"].after == ["prepare-prepared"] and stages["train-lst-1"].after == ["train-start"]


def test_tokens_become_updates_when_the_corpus_is_prepared(tmp_path: Path):
    stages = arena(tmp_path, "--tokens", 5000).pipeline.stages
    assert stages["train-lst-1"].after == ["train-start", "epoch-lst"]
    (tmp_path / "epochs").mkdir()
    for name, updates in (("sentences", 40), ("lst", 20)):
        text = json.dumps({"target_tokens": 1000, "updates": updates})
        (tmp_path / "epochs" / f"{name}.json").write_text(text)
        command = stages[f"train-{name}-1"].work.command()
        assert {f"train.max-update={5 * updates}", f"train.total-num-update={5 * updates}"} <= set(command)
    pretend(arena(tmp_path, "--tokens", 5000).pipeline)
    assert pretend(arena(tmp_path, "--tokens", 5000).pipeline) == []
    with pytest.raises(UserError, match="output directory"):
        arena(tmp_path, "--tokens", 5001).pipeline.check()


# Starts and corpora


def test_from_random_weights(tmp_path: Path):
    systems = ("document_transformer", "docflat")
    found = arena(tmp_path, "--from", "scratch", "--set", "train.dropout=0.2", systems=systems)
    stages = found.pipeline.stages
    assert "train-start" not in stages and found.common()["start"] is None
    for name in ("sentences", *systems):
        assert stages[f"train-{name}-1"].after == ["prepare-prepared"]
        given = changes(stages[f"train-{name}-1"])
        assert not any("finetune" in one for one in given)
        recipe = load_recipe(f"arena/{name}", given)
        options = recipe.options("train")
        assert recipe.pretrained_from is None and recipe.prepared_from == "arena/start"
        assert not {"load-partial", "freeze-sentence-parameters"} & options.keys()
        assert (options["warmup-updates"], options["dropout"], options["max-update"]) == (80, 0.2, 600)
    first = f"generate.first-pass={tmp_path}/runs/sentences-1/checkpoints/checkpoint_best.pt"
    assert first in changes(stages["translate-docflat-1"])
    assert stages["translate-docflat-1"].after == ["train-docflat-1", "train-sentences-1"]
    assert stages["translate-sentences-1"].after == ["train-sentences-1"]


def test_a_corpus_without_a_set(tmp_path: Path, corpus: Path):
    output = tmp_path / "out"
    found = arena(output, corpus=corpus)
    per_run = ["train", "translate", "score", "align", "cxmi"]
    runs = [f"{stage}-{run}" for run in ("sentences-1", "lst-1") for stage in per_run]
    assert list(found.pipeline.stages) == ["prepare-prepared", "train-start", "epoch-sentences", "epoch-lst", *runs]
    assert found.common()["corpus"]["name"] == "letters"
    pretend(found.pipeline)
    assert pretend(arena(output, corpus=corpus).pipeline) == []
    (corpus / "concatenated_en2de_dev_de.txt").write_text("<d>\nother\n")
    with pytest.raises(UserError, match="output directory"):
        arena(output, corpus=corpus).pipeline.check()
