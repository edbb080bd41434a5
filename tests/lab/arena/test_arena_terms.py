"""Budgets other than updates, other corpora, systems from random weights; real: tests/lab/end_to_end/test_arena.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread

from gtransformer.errors import UserError
from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.arena.budget import budget_words, measure_epoch, updates_of_tokens
from gtransformer.lab.arena.outcome import _draw_curves, peaks_of, seconds_of
from gtransformer.lab.arena.plan import check_terms
from gtransformer.lab.cli.arena import build_parser
from gtransformer.run.pipeline import Stage
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_recipe
from tests.pretended import changes, pretend
from tests.support import ROOT

pytestmark = pytest.mark.slow
PREPARED = ROOT / "tests" / "prepared" / "len90"  # 26 sentences in 5 documents, 378 target tokens


def arena(output: Path, *options: object, corpus: object = "demo") -> Arena:
    args = build_parser().parse_args([str(corpus), str(output), "--seeds", "1", *map(str, options)])
    return Arena(args, check_terms(args))


def training(stages: dict[str, Stage], run: str) -> list[str]:
    return changes(stages[f"train-{run}"])


# Budgets


def test_minutes_are_each_systems_own_and_no_schedule_ends(tmp_path: Path):
    found = arena(tmp_path, "--systems", "lst", "--minutes", 30)
    stages = found.pipeline.stages
    for run in ("sentences-1", "lst-1"):
        given = training(stages, run)
        assert stages[f"train-{run}"].budget == 30 and given[-2] == "train.stop-time-hours=0.500000"
        recipe = load_recipe("arena/lst", given[:-1])
        check_recipe(recipe, ["train"])
        options = recipe.options("train")
        assert options["lr-scheduler"] == "inverse_sqrt" and not {"max-update", "total-num-update"} & options.keys()
    assert stages["train-start"].budget is None, "updates, as without minutes"
    assert not any("stop-time" in one or "scheduler" in one for one in training(stages, "start"))
    terms = found.common()
    assert (terms["updates"], terms["minutes"]) == (None, 30) and budget_words(terms) == "30 minutes"


def test_more_minutes_go_on_and_fewer_are_refused(tmp_path: Path):
    pretend(arena(tmp_path, "--systems", "lst", "--minutes", 1).pipeline)
    for run in ("start", "sentences-1", "lst-1"):
        (tmp_path / "runs" / run / "checkpoints" / "checkpoint_last.pt").touch()
    done = pretend(arena(tmp_path, "--systems", "lst", "--minutes", 2).pipeline)
    assert {"train-lst-1", "translate-lst-1", "cxmi-lst-1"} <= set(done) and "train-start" not in done
    assert (tmp_path / "runs" / "lst-1" / "checkpoints" / "checkpoint_last.pt").is_file(), "gone on with"
    with pytest.raises(UserError, match="was begun with 2 minutes of training, more than --minutes 1"):
        arena(tmp_path, "--systems", "lst", "--minutes", 1).pipeline.check()
    with pytest.raises(UserError, match="sentences-1: was trained with other settings"):
        arena(tmp_path, "--systems", "lst", "--updates", 5).pipeline.check()


@pytest.mark.parametrize(
    ("system", "updates"),
    [
        ("sentences", 4),  # 26 sentences, four a batch: seven batches, two an update
        ("concatenation", 4),  # as many instances, though they overlap
        ("documents", 1),  # five documents: two batches
    ],
)
def test_an_epoch_is_all_target_tokens_once(system: str, updates: int):
    options = ["train.max-tokens=", "train.batch-size=4", "train.update-freq=2"]
    found = measure_epoch(load_recipe(f"arena/{system}", options), PREPARED)
    assert found == {"target_tokens": 378, "updates": updates}
    assert updates_of_tokens(3 * 378, found) == 3 * updates and updates_of_tokens(1, found) == 1


@pytest.mark.parametrize(("shuffled", "times"), [("global", 1), ("everything", 1), ("added", 2)])
def test_an_epoch_of_shuffled_context(shuffled: str, times: int):
    options = ["train.max-tokens=", "train.batch-size=4", f"train.shuffled-context={shuffled}"]
    found, plain = (
        measure_epoch(load_recipe("arena/pseudo_documents", some), PREPARED) for some in (options, options[:2])
    )
    assert found["target_tokens"] == times * 378 and found["updates"] >= times * plain["updates"]


def test_updates_of_other_sizes_are_no_measure():
    with pytest.raises(UserError, match="'sentences': with an update-freq for each epoch .* or --updates"):
        measure_epoch(load_recipe("arena/sentences", ["train.update-freq=1,2"]), PREPARED)


def test_what_an_update_reads_is_measured_for_every_budget(tmp_path: Path):
    """But where updates are of several sizes; no training waits for it."""
    for budget in ("--updates", "--minutes"):
        found = arena(tmp_path, "--systems", "lst", budget, 5).pipeline.stages
        assert found["epoch-lst"].after == ["prepare-prepared"] and found["train-lst-1"].after == ["train-start"]
    found = arena(tmp_path, "--systems", "lst", "--set", "train.update-freq=1,2")
    assert not any(name.startswith("epoch-") for name in found.pipeline.stages) and not found.has_epoch("lst")


def test_tokens_become_updates_when_the_corpus_is_prepared(tmp_path: Path):
    stages = arena(tmp_path, "--systems", "lst", "--tokens", 5000).pipeline.stages
    assert stages["train-lst-1"].after == ["train-start", "epoch-lst"]
    (tmp_path / "epochs").mkdir()
    for name, updates in (("sentences", 40), ("lst", 20)):
        text = json.dumps({"target_tokens": 1000, "updates": updates})
        (tmp_path / "epochs" / f"{name}.json").write_text(text)
        command = stages[f"train-{name}-1"].work.command()
        assert {f"train.max-update={5 * updates}", f"train.total-num-update={5 * updates}"} <= set(command)
    pretend(arena(tmp_path, "--systems", "lst", "--tokens", 5000).pipeline)
    assert pretend(arena(tmp_path, "--systems", "lst", "--tokens", 5000).pipeline) == []
    with pytest.raises(UserError, match="sentences-1: was trained with other settings"):
        arena(tmp_path, "--systems", "lst", "--tokens", 5001).pipeline.check()


# What there is to start from


def test_from_random_weights(tmp_path: Path):
    systems = ("--systems", "document_transformer", "docflat")
    found = arena(tmp_path, "--from", "scratch", *systems, "--set", "train.dropout=0.2")
    stages = found.pipeline.stages
    assert "train-start" not in stages and found.common()["start"] is None
    for name in ("sentences", "document_transformer", "docflat"):
        assert stages[f"train-{name}-1"].after == ["prepare-prepared"]
        given = training(stages, f"{name}-1")
        assert not any("finetune" in one for one in given)
        recipe = load_recipe(f"arena/{name}", given)
        options = recipe.options("train")
        assert recipe.pretrained_from is None and recipe.prepared_from == "start"
        assert not {"load-partial", "freeze-sentence-parameters"} & options.keys()
        assert (options["warmup-updates"], options["dropout"], options["max-update"]) == (80, 0.2, 600)
    first = f"generate.first-pass={tmp_path}/runs/sentences-1/checkpoints/checkpoint_best.pt"
    assert first in changes(stages["translate-docflat-1"])
    assert stages["translate-docflat-1"].after == ["train-docflat-1", "train-sentences-1"]
    assert stages["translate-sentences-1"].after == ["train-sentences-1"]


def test_seconds_are_a_systems_own(tmp_path: Path):
    """fairseq goes on counting from what the model had that it starts from: its best checkpoint, not its last."""
    for run, file, seconds in (("start", "best", 100.0), ("start", "last", 130.0), ("lst-1", "last", 160.5)):
        path = tmp_path / "runs" / run / "checkpoints" / f"checkpoint_{file}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": {}, "extra_state": {"previous_training_time": seconds}}, path)
    for name in ("generate.test", "contrastive"):
        (tmp_path / "runs" / "lst-1" / f"{name}.json").write_text('{"seconds": 3.0}')
    for options, expected in (([], 60.5), (["--from", "scratch"], 160.5)):
        one = arena(tmp_path, "--systems", "lst", *options)
        assert seconds_of(one, one.folder("lst", 1)) == {"training": expected, "translation": 3.0, "contrastive": 3.0}


# Other corpora


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        for lang in ("en", "de"):
            (folder / f"concatenated_en2de_{split}_{lang}.txt").write_text("<d>\none\n")
    return folder


def test_a_corpus_without_a_set(tmp_path: Path, corpus: Path):
    output = tmp_path / "out"
    found = arena(output, "--systems", "lst", corpus=corpus)
    stages = found.pipeline.stages
    per_run = ["train", "translate", "score", "align", "cxmi"]
    runs = [f"{stage}-{run}" for run in ("sentences-1", "lst-1") for stage in per_run]
    assert list(stages) == ["prepare-prepared", "train-start", "epoch-sentences", "epoch-lst", *runs]
    assert str(corpus) in stages["prepare-prepared"].work.command and found.common()["corpus"]["name"] == "letters"
    pretend(found.pipeline)
    assert pretend(arena(output, "--systems", "lst", corpus=corpus).pipeline) == []
    (corpus / "concatenated_en2de_dev_de.txt").write_text("<d>\nother\n")
    (output / "runs" / "start" / "checkpoints" / "checkpoint_best.pt").touch()
    with pytest.raises(UserError, match="start: was trained with other settings, on another corpus"):
        arena(output, "--systems", "lst", corpus=corpus).pipeline.check()


def test_its_picture_has_learning_curves(tmp_path: Path, corpus: Path):
    one = arena(tmp_path / "out", "--systems", "lst", "--tokens", 9, corpus=corpus)
    for name in ("sentences", "lst"):
        log = one.folder(name, 1) / "train.log"
        log.parent.mkdir(parents=True)
        log.write_text('{"valid_ppl": "4.0", "valid_num_updates": "3"}\n{"valid_ppl": "2.0", "valid_num_updates": "6"}')
    _draw_curves(one, one.common())
    assert imread(one.results["png"]).ndim == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--updates", 5, "--minutes", 3], "--updates and --minutes are different budgets; give one of --updates, --m"),
        (["--minutes", 0], "--minutes 0: give at least 0.01"),
        (["--minutes", "nan"], "--minutes nan: give at least 0.01"),
        (["--tokens", -3], "--tokens -3: give at least 1"),
        (["--from", "scratch", "--start-updates", 3], "--start-updates 3: with --from scratch there is no start"),
        (["--set", "train.stop-time-hours=3"], "an arena sets train.stop-time-hours itself; it comes from --minutes"),
    ],
)
def test_bad_terms(options, message):
    with pytest.raises(UserError, match=message):
        arena(Path("out"), *options)


def test_bad_corpora(tmp_path: Path, corpus: Path):
    with pytest.raises(UserError, match="--items 4 is a size of the generated corpus, demo; leave it out with"):
        arena(tmp_path, "--systems", "lst", "--items", 4, corpus=corpus)
    for path in corpus.glob("*dev*"):
        path.unlink()
    with pytest.raises(UserError, match="letters: no dev set; it has train, test"):
        arena(tmp_path, "--systems", "lst", corpus=corpus)


# Memory


def test_peaks_over_seeds(tmp_path: Path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, peak in zip(folders, (2**20, 3 * 2**20), strict=True):
        folder.mkdir()
        (folder / "train.json").write_text(json.dumps({"peak_bytes": peak}))
        (folder / "generate.test.json").write_text("{}")  # of an earlier version
        entries = [{"gpu_peak_gib": peak / 2**20 - less, "num_updates": 5 + less} for less in (0, 1)]
        (folder / "train.log").write_text("\n".join(map(json.dumps, entries)))
    found = peaks_of(folders)
    assert found["training"]["mean"] == 2 * 2**20 and found["translation"] is None
    assert found["training_gpu"]["by_seed"] == [2**30, 3 * 2**30], "the most of all, not the last"
    (folders[1] / "train.log").write_text("{}")
    assert peaks_of(folders)["training_gpu"] is None


def test_an_unknown_system_is_told_the_arenas(tmp_path: Path):
    with pytest.raises(UserError, match="--systems windo: no system of an arena; give window") as caught:
        check_terms(build_parser().parse_args(["demo", str(tmp_path), "--systems", "windo"]))
    assert "base" not in str(caught.value)
