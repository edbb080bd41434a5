"""Comparisons: what they need, in which order, with which budget, and what is said of every recipe.

Real runs: tests/lab/end_to_end/test_compare.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.lab.analysis.curves import Curve
from gtransformer.lab.cli import compare
from gtransformer.lab.cli.compare import build_parser
from gtransformer.lab.comparison import comparison as module
from gtransformer.lab.comparison.comparison import (
    Comparison,
    comparison_table,
    recipe_result,
    set_scores,
)
from gtransformer.lab.recipe_set import RecipeSet, outside_files
from gtransformer.run.recipe import load_recipe
from tests.pretended import changes, pretend

FOUR = ["cpu_small_finetune", "cpu_small_doc", "cpu_small_sent", "cpu_small"]
SIGNATURE = "nrefs:1|version:2"


def write_corpus(directory: Path, documents: dict[str, int]) -> Path:
    """Documents of two sentences that say which they are, by raw split."""
    directory.mkdir(parents=True)
    for split, count in documents.items():
        for lang in ("en", "de"):
            text = "".join(f"<d>\n{lang} {number} a\n{lang} {number} b\n" for number in range(count))
            (directory / f"concatenated_en2de_{split}_{lang}.txt").write_text(text)
    return directory


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "tech", {"train": 7, "dev": 2, "test": 2})


def comparison(corpus: Path, output: Path, *options: object, recipes: str = ",".join(FOUR)) -> Comparison:
    """A comparison about to start."""
    arguments = [str(corpus), str(output), "--recipes", recipes, "--minutes", "30", *map(str, options)]
    return Comparison(build_parser().parse_args(arguments))


def test_recipes_that_others_need_come_first():
    found = RecipeSet(FOUR, [])
    assert list(found.recipes) == ["cpu_small_sent", "cpu_small_finetune", "cpu_small_doc", "cpu_small"]
    assert list(found.corpora) == ["cpu_small"]
    assert [found.preparer(name) for name in found.recipes] == ["cpu_small"] * 4
    assert list(RecipeSet(["cpu_small_doc"], []).corpora) == ["cpu_small"], "prepared by a recipe that is not compared"


def test_what_all_start_from_is_trained_alone(corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "shares", lambda jobs: (jobs, 3))
    monkeypatch.setattr(module, "available_cores", lambda: 7)
    for recipes, alone, threads in (
        ("cpu_small_finetune,cpu_small_sent,from_sentence_model_small", "cpu_small_sent", 7),
        (",".join(FOUR), None, 3),  # two do not start from it,
        ("cpu_small_sent", None, 3),  # or nothing does
    ):
        plan = comparison(corpus, tmp_path / "out", "--jobs", 2, recipes=recipes)
        assert [name for name, run in plan.runs.items() if run.alone] == [alone] * (alone is not None)
        assert plan.start_threads == threads


def test_recipes_in_folders_and_what_was_done_is_found_again(corpus: Path, tmp_path: Path):
    """Their names hold a slash, names of stamps do not."""
    names = ["concatenation/sentences", "window/base", "lst/base"]
    plan = [comparison(corpus, tmp_path / "out", recipes=",".join(names)) for _ in range(2)]
    wanted = {f"{stage}-{name}" for stage in ("train", "translate", "score") for name in names}
    assert set(pretend(plan[0].pipeline)) == wanted | {"prepare-concatenation-sentences"}
    assert set(pretend(plan[1].pipeline)) == set()


def test_recipes_that_do_not_go_together(tmp_path: Path):
    for name, text in (
        ("a", "based-on: cpu_tiny\npretrained-from: b\n"),
        ("b", "based-on: cpu_tiny\npretrained-from: a\n"),
        ("fr", "based-on: cpu_tiny\ntask: {target-lang: fr, langs: 'en,fr'}\n"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
    a, b, fr = (str(tmp_path / f"{name}.yaml") for name in ("a", "b", "fr"))
    for names, word in (
        (["cpu_small", "cpu_small_finetune"], "cpu_small_sent"),
        (["cpu_small", "cpu_small"], "--recipes"),
        ([], "--recipes"),
        (["x"], "'x'"),
        ([a, b], "'a'"),
        (["cpu_tiny", fr], "en-fr"),
    ):
        with pytest.raises(UserError, match=word):
            RecipeSet(names, [])
    assert list(RecipeSet([a], ["train.finetune-from-model=x.pt"]).recipes) == ["a"]


def test_recipes_that_recipes_name_are_those_beside_them(tmp_path: Path):
    """As ``gtransformer run`` finds them: not the package's recipe of this name."""
    (tmp_path / "demo.yaml").write_text("based-on: cpu_tiny\nprepare: {vocabulary-size: 123}\n")
    (tmp_path / "mine.yaml").write_text("based-on: cpu_tiny\nprepared-from: demo\n")
    found = RecipeSet([str(tmp_path / "mine.yaml")], [])
    assert found.preparer("mine") == "demo" and found.arguments["demo"] == str(tmp_path / "demo.yaml")
    assert found.corpora["demo"].sections["prepare"]["vocabulary-size"] == 123
    with pytest.raises(UserError, match="same name"):
        RecipeSet([str(tmp_path / "mine.yaml"), "demo"], [])


def test_stages_and_what_they_wait_for(corpus: Path, tmp_path: Path):
    plan = comparison(corpus, tmp_path / "out", "--set", "train.autocast=bfloat16", "--start-minutes", 90)
    stages = plan.pipeline.stages
    assert len(stages) == 1 + 4 + 4 + 4 and "prepare-cpu_small" in stages
    for name in FOUR:
        stage, hours = stages[f"train-{name}"], 1.5 if name == "cpu_small_sent" else 0.5
        start = ["train-cpu_small_sent"] if name == "cpu_small_finetune" else []
        assert set(stage.waits_for) == {"prepare-cpu_small"} and stage.after[1:] == start and stage.budget == 60 * hours
        model = f"train.finetune-from-model={plan.folder('cpu_small_sent') / 'checkpoints' / 'checkpoint_best.pt'}"
        assert (model in changes(stage)) == bool(start)
        train = load_recipe(name, changes(stage)).sections["train"]
        assert train["stop-time-hours"] == hours and "patience" not in train and train["autocast"] == "bfloat16"
        translation = stages[f"translate-{name}"]
        assert translation.after == [f"train-{name}"]
        assert (model in changes(translation)) == bool(start)  # it may make a first pass


def test_what_is_done_is_kept_and_a_larger_budget_goes_on(corpus: Path, tmp_path: Path):
    out, name = tmp_path / "out", "cpu_small_doc"
    trained = {f"train-{name}", f"translate-{name}", f"score-{name}"}
    assert set(pretend(comparison(corpus, out, recipes=name).pipeline)) == {"prepare-cpu_small", *trained}
    best = out / "runs" / name / "checkpoints" / "checkpoint_best.pt"
    assert set(pretend(comparison(corpus, out, "--minutes", 40, recipes=name).pipeline)) == trained and best.is_file()
    for options in (["--minutes", 5], ["--set", "train.lr=1"], ["--jobs", 2]):
        before = {path: path.read_bytes() for path in out.rglob("*.*")}
        with pytest.raises(UserError, match="output directory"):
            pretend(comparison(corpus, out, *options, recipes=name).pipeline)
        assert {path: path.read_bytes() for path in out.rglob("*.*")} == before, "a refusal leaves everything in place"
    shutil.rmtree(best.parent)
    for path in best.parent.parent.glob("*test.*"):
        path.unlink()
    (best.parent.parent / "old.log").write_text("")
    assert set(pretend(comparison(corpus, out, "--set", "train.lr=1", recipes=name).pipeline)) == trained
    assert not (best.parent.parent / "old.log").exists(), "what is left of a run without a model does not stay"


def test_a_refused_comparison_keeps_its_result(corpus: Path, tmp_path: Path, capsys):
    """A model of an older version, too, since what it was trained with is not known."""
    folder = tmp_path / "out" / "runs" / "cpu_small"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "checkpoint_last.pt").write_text("")
    write_json(tmp_path / "out" / "stages" / "train-cpu_small.json", {"settings": "others", "done": True})
    result = tmp_path / "out" / "comparison.json"
    result.write_text("{}")
    assert compare.main([str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1"]) == 1
    assert "cpu_small" in capsys.readouterr().err
    assert result.read_text() == "{}" and (folder / "checkpoints" / "checkpoint_last.pt").exists()


def test_a_model_depends_on_devices_and_on_files_from_outside(corpus: Path, tmp_path: Path):
    model = tmp_path / "model.pt"
    model.write_text("one")
    changes = ["--set", f"train.finetune-from-model={model}"]

    def settings(*options: object) -> object:
        plan = comparison(corpus, tmp_path / "out", *options, recipes="cpu_small")
        assert plan.start_checkpoint("cpu_small") == (model if options else None)
        return plan.pipeline.stages["train-cpu_small"].settings

    first = settings(*changes)
    assert first == settings(*changes) != settings()
    model.write_text("two")
    assert settings(*changes) != first
    assert settings(*changes, "--set", "devices=4") != settings(*changes)
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text("{}")
    found = outside_files({"bert-checkpoint": str(tmp_path / "bert"), "dictionary": "nowhere", "lr": 1})
    assert found["dictionary nowhere"] is None and len(found["bert-checkpoint config.json"]) == 64 and len(found) == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--minutes", "1", "--start-minutes", "0"], "--start-minutes"),
        (["--start-minutes", "5"], "--start-minutes"),
        (["--jobs", "0"], "--jobs"),
        (["--recipes", ","], "--recipes"),
        (["--set", "trian.lr=1"], "trian"),
    ],
)
def test_errors_of_a_user(corpus: Path, tmp_path: Path, capsys, options: list[str], word: str):
    arguments = [str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1", *options]
    assert compare.main(arguments) == 1
    error = capsys.readouterr().err
    assert word in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("whole", "reference"), [(True, "both"), (False, "raw")])
def test_a_corpus_without_its_instances_is_scored_against_raw_text(
    corpus: Path, tmp_path: Path, monkeypatch, whole: bool, reference: str
):
    plan, asked = comparison(corpus, tmp_path / "out", recipes="cpu_small"), []
    prepared = plan.prepared("cpu_small")
    for name in ["text/test.de", "instances/test.de", "bin/dict.de.txt"] if whole else ["text/test.de"]:
        (prepared / name).parent.mkdir(parents=True)
        (prepared / name).write_text("")
    monkeypatch.setattr(module, "call_quietly", lambda name, corpus, options: asked.append(options))
    plan.pipeline.stages["score-cpu_small"].work()
    assert [options["reference"] for options in asked] == [reference]


# What came out


def test_results_say_what_the_fine_tuned_model_had_before():
    ended = {"seconds": 1800.04, "updates": 20}
    curve = Curve(train=[(10, 50.0)], valid=[(20, 40.0)], words=[(10, 39.0), (20, 41.0)], best=10, **ended)
    plain = recipe_result(load_recipe("cpu_small_sent"), curve, 7, 30, {})
    assert (plain["updates"], plain["validation_perplexity"], plain["minutes_with_pretraining"]) == (20, 40.0, 30)
    assert (plain["note"], plain["sentences_per_instance"], plain["doc_mode"]) == (None, 1, "full")
    assert (plain["best_update"], plain["word_perplexity"]) == (10, 39.0)
    curve = Curve(train=curve.train, valid=curve.valid, **ended)
    tuned = recipe_result(load_recipe("cpu_small_finetune"), curve, 7, 30, {"cpu_small_sent": 45})
    assert "45 of cpu_small_sent" in tuned["note"] and tuned["minutes_with_pretraining"] == 75
    assert tuned["sentences_per_instance"] == "as many as fit"
    curve.seconds = 120
    ended = recipe_result(load_recipe("cpu_small", ["train.max-update=5"]), curve, 7, 30, {})
    assert ended["note"] == "trained for 2.0 of 30 minutes: it ends by max-update"


@pytest.mark.parametrize("misaligned", [0, 3])
def test_table(misaligned: int):
    """Perplexity of words only where all have it; no s-BLEU of sentences that are not aligned."""
    recipe, curve = load_recipe("cpu_small_finetune"), Curve(valid=[(20, 40.0)], seconds=1800.04, updates=20)
    result = recipe_result(recipe, curve, 7, 30, {"cpu_small_sent": 45})
    bleu = {kind: {"score": 12.345, "signature": SIGNATURE} for kind in ("s_bleu", "d_bleu", "d_bleu_instance")}
    scores = set_scores({"counts": {"misaligned_instances": misaligned}, "scores": {"raw": bleu | {"ter": 1}}})
    assert scores["aligned"] == (misaligned == 0) and set(scores["raw"]) == set(bleu)
    result |= {"scores": {"x": scores}}
    lines = comparison_table({"tuned": result}).splitlines()
    assert lines[2].split() == ["tuned", "20", "30.0", "40.00", "-" if misaligned else "12.35", "12.35"]
    assert any(SIGNATURE in line for line in lines) and any("45 of cpu_small_sent" in line for line in lines)
    by_words = {name: result | {"word_perplexity": 41.5} for name in ("tuned", "other")}
    assert comparison_table(by_words).splitlines()[2].split()[3] == "41.50"
    averaged = comparison_table(by_words | {"mean": result | {"averaged": 4}}).splitlines()
    assert [line.split()[3] for line in averaged[2:5]] == ["41.50", "41.50", "-"]
    older = by_words | {"other": result}
    assert comparison_table(older).splitlines()[2].split()[3] == "40.00"
