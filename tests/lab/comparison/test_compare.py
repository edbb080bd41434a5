"""Comparisons: what they need, in which order, with which budget. Real runs: tests/lab/end_to_end/test_compare.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.lab.cli import compare
from gtransformer.lab.cli.compare import build_parser
from gtransformer.lab.comparison import comparison as module
from gtransformer.lab.comparison.comparison import Comparison
from gtransformer.lab.comparison.corpus import split_files, thin_corpus
from gtransformer.lab.comparison.plan import Plan, check_arguments, outside_files, parse_set, stop_hours
from gtransformer.preprocess.corpus import find_splits
from gtransformer.run.recipe import load_recipe
from tests.pretended import changes, pretend

FOUR = ["cpu_small_finetune", "cpu_small_doc", "cpu_small_sent", "cpu_small"]


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
    args = build_parser().parse_args(arguments)
    return Comparison(args, *check_arguments(args))


def test_recipes_that_others_need_come_first():
    plan = Plan(FOUR, [])
    assert list(plan.recipes) == ["cpu_small_sent", "cpu_small_finetune", "cpu_small_doc", "cpu_small"]
    assert list(plan.corpora) == ["cpu_small"] and plan.lender("cpu_small") is None
    assert [plan.preparer(name) for name in plan.recipes] == ["cpu_small"] * 4
    assert list(Plan(["cpu_small_doc"], []).corpora) == ["cpu_small"], "prepared by a recipe that is not compared"


def test_what_all_start_from_is_trained_alone(corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(module, "shares", lambda jobs: (jobs, 3))
    monkeypatch.setattr(module, "available_cores", lambda: 7)
    for recipes, alone, threads in (
        ("cpu_small_finetune,cpu_small_sent,proof/sentences", "cpu_small_sent", 7),
        (",".join(FOUR), None, 3),  # two do not start from it,
        ("cpu_small_sent", None, 3),  # or nothing does
    ):
        plan = comparison(corpus, tmp_path / "out", "--jobs", 2, recipes=recipes)
        programs = {name: stage.work for name, stage in plan.pipeline.stages.items() if name.startswith("train-")}
        assert [name for name, program in programs.items() if program.alone] == [f"train-{alone}"] * (alone is not None)
        assert plan.plan.common_start == alone and plan.start_threads == threads


def test_a_recipe_that_borrows_a_vocabulary(corpus: Path, tmp_path: Path):
    """It has a corpus of its own, prepared behind its lender's, and further sets by it."""
    path = tmp_path / "own.yaml"
    path.write_text("based-on: cpu_small\nvocabulary-from: cpu_small\nprepare: {max-sents: 1}\n")
    other = write_corpus(tmp_path / "other", {"dev": 1})
    plan = comparison(corpus, tmp_path / "out", "--also", f"ted:dev={other}", recipes=f"{path},cpu_small_sent")
    assert list(plan.plan.corpora) == ["cpu_small", "own"] and plan.plan.lender("own") == "cpu_small"
    assert [plan.plan.preparer(name) for name in plan.plan.recipes] == ["own", "cpu_small"]
    stages = plan.pipeline.stages
    assert stages["prepare-own"].after == ["prepare-cpu_small"]
    assert stages["prepare-own.ted_dev"].after == ["prepare-own", "set-ted_dev"]
    for name, lender in (("own", "cpu_small"), ("own.ted_dev", "own"), ("cpu_small.ted_dev", "cpu_small")):
        assert f"prepare.vocabulary={plan.prepared(lender)}" in changes(stages[f"prepare-{name}"])


def test_recipes_in_folders(corpus: Path, tmp_path: Path):
    """Their names hold a slash, names of stamps do not: what was done is found again."""
    names = ["concatenation/small_sentences", "window/small", "lst/small"]
    plan = [comparison(corpus, tmp_path / "out", recipes=",".join(names)) for _ in range(2)]
    ends = {"train": "", "generate": "-tech_test", "score": "-tech_test"}
    wanted = {f"{stage}-{name}{end}" for stage, end in ends.items() for name in names}
    assert set(pretend(plan[0].pipeline)) == wanted | {"prepare-concatenation-small_sentences"}
    assert set(pretend(plan[1].pipeline)) == set()
    assert plan[0].pipeline.stages["train-lst/small"].after == ["prepare-concatenation-small_sentences"]


def test_recipes_that_do_not_go_together(tmp_path: Path):
    with pytest.raises(UserError, match="'cpu_small_finetune' starts from 'cpu_small_sent'; add 'cpu_small_sent'"):
        Plan(["cpu_small", "cpu_small_finetune"], [])
    with pytest.raises(UserError, match="name every recipe once"):
        Plan(["cpu_small", "cpu_small"], [])
    with pytest.raises(UserError, match="unknown recipe 'x'"):
        Plan(["x"], [])
    (tmp_path / "a.yaml").write_text("based-on: cpu_tiny\npretrained-from: b\n")
    (tmp_path / "b.yaml").write_text("based-on: cpu_tiny\npretrained-from: a\n")
    with pytest.raises(UserError, match="'a' starts from itself"):
        Plan([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], [])
    (tmp_path / "fr.yaml").write_text("based-on: cpu_tiny\ntask: {target-lang: fr, langs: 'en,fr'}\n")
    with pytest.raises(UserError, match=r"different language pairs \(en-de, en-fr\)"):
        Plan(["cpu_tiny", str(tmp_path / "fr.yaml")], [])
    assert list(Plan([str(tmp_path / "a.yaml")], ["train.finetune-from-model=x.pt"]).recipes) == ["a"]
    with pytest.raises(UserError, match="'mbart' cuts text by a pretrained model .sentencepiece.*leave out --also"):
        Plan(["mbart"], []).check_sets()


def test_sets():
    one = parse_set("ted:dev=some/where")
    assert (one.name, one.split, one.directory) == ("ted_dev", "dev", Path("some/where"))
    for text in ("ted=x", "ted:dev", "t d:dev=x"):
        with pytest.raises(UserError, match="write NAME:SPLIT=DIRECTORY"):
            parse_set(text)
    with pytest.raises(UserError, match="no split is called 'valid'; choose one of train, dev, test"):
        parse_set("ted:valid=x")


def test_every_nth_training_document(corpus: Path, tmp_path: Path):
    thin_corpus(corpus, tmp_path / "thin", ("en", "de"), 3)
    assert set(find_splits(tmp_path / "thin", "en", "de")) == {"train", "valid", "test"}
    for lang in ("en", "de"):
        text = (tmp_path / "thin" / f"concatenated_en2de_train_{lang}.txt").read_text()
        assert text == "".join(f"<d>\n{lang} {number} a\n{lang} {number} b\n" for number in (0, 3, 6))
        for split in ("dev", "test"):
            name = f"concatenated_en2de_{split}_{lang}.txt"
            assert (tmp_path / "thin" / name).read_text() == (corpus / name).read_text()
    with pytest.raises(UserError, match="no test set; it has dev"):
        split_files(write_corpus(tmp_path / "other", {"dev": 1}), ("en", "de"), "test")


def test_stages_and_what_they_wait_for(corpus: Path, tmp_path: Path):
    other = write_corpus(tmp_path / "other", {"dev": 1, "train": 9})
    plan = comparison(corpus, tmp_path / "out", "--also", f"ted:dev={other}", "--set", "train.autocast=bfloat16")
    stages = plan.pipeline.stages
    stages["set-ted_dev"].work()
    assert {path.name for path in (tmp_path / "out" / "sets" / "ted_dev").iterdir()} == {
        "concatenated_en2de_dev_en.txt", "concatenated_en2de_dev_de.txt",
    }, "the split alone"  # fmt: skip
    prepared = {"prepare-cpu_small", "prepare-cpu_small.ted_dev"}
    assert len(stages) == 1 + 2 + 4 + 8 + 8 and prepared <= set(stages)
    assert stages["prepare-cpu_small"].after == []
    assert stages["prepare-cpu_small.ted_dev"].after == ["prepare-cpu_small", "set-ted_dev"]
    vocabulary = f"prepare.vocabulary={tmp_path / 'out' / 'prepared'}"
    assert f"{vocabulary}/cpu_small" in changes(stages["prepare-cpu_small.ted_dev"])
    for name in FOUR:
        stage = stages[f"train-{name}"]
        start = ["train-cpu_small_sent"] if name == "cpu_small_finetune" else []
        assert set(stage.waits_for) == prepared and stage.after[1:] == start
        assert {"train.autocast=bfloat16", "train.stop-time-hours=0.500000", "train.patience="} <= set(changes(stage))
        model = f"train.finetune-from-model={plan.folder('cpu_small_sent') / 'checkpoints' / 'checkpoint_best.pt'}"
        assert (model in changes(stage)) == bool(start)
        recipe = load_recipe(name, changes(stage))
        assert recipe.sections["train"]["stop-time-hours"] == 0.5 and "patience" not in recipe.sections["train"]
        translation = stages[f"generate-{name}-ted_dev"]
        assert translation.after == [f"train-{name}", "prepare-cpu_small.ted_dev"]
        command = translation.work.command
        assert command[command.index("--split") + 1] == "valid"


def test_what_others_start_from_may_have_more_minutes(corpus: Path, tmp_path: Path):
    plan = comparison(corpus, tmp_path / "out", "--start-minutes", 90)
    for name in FOUR:
        hours = 1.5 if name == "cpu_small_sent" else 0.5
        assert f"train.stop-time-hours={hours:.6f}" in changes(plan.pipeline.stages[f"train-{name}"])
        assert plan.pipeline.stages[f"train-{name}"].budget == 60 * hours


def test_what_is_done_is_kept_and_a_larger_budget_goes_on(corpus: Path, tmp_path: Path):
    out, name = tmp_path / "out", "cpu_small_doc"
    trained = {
        f"{stage}-{name}{end}" for stage, end in (("train", ""), ("generate", "-tech_test"), ("score", "-tech_test"))
    }
    assert set(pretend(comparison(corpus, out, recipes=name).pipeline)) == {"prepare-cpu_small", *trained}
    assert set(pretend(comparison(corpus, out, recipes=name).pipeline)) == set()
    best = out / "runs" / name / "checkpoints" / "checkpoint_best.pt"
    assert set(pretend(comparison(corpus, out, "--minutes", 40, recipes=name).pipeline)) == trained and best.is_file()
    for options, message in (
        (["--minutes", 5], r"begun with 40 minutes of training, more than --minutes 5; choose another"),
        (["--set", "train.lr=1"], r"cpu_small_doc: was trained with other settings.*choose another output"),
        (["--every", 2], r"was trained with other settings, on another corpus"),
    ):
        before = {path: path.read_bytes() for path in out.rglob("*.*")}
        with pytest.raises(UserError, match=message):
            pretend(comparison(corpus, out, *options, recipes=name).pipeline)
        assert {path: path.read_bytes() for path in out.rglob("*.*")} == before, "a refusal leaves everything in place"
    best.unlink()
    (best.parent.parent / "old.log").write_text("")
    assert set(pretend(comparison(corpus, out, "--set", "train.lr=1", recipes=name).pipeline)) == trained
    assert not (best.parent.parent / "old.log").exists(), "what is left of a run without a model does not stay"


def test_a_refused_comparison_keeps_its_result(corpus: Path, tmp_path: Path, capsys):
    """A model of an older version, too, since what it was trained with is not known."""
    folder = tmp_path / "out" / "runs" / "cpu_small"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "checkpoint_last.pt").write_text("")
    write_json(folder / "budget.json", {"settings": "others", "minutes": 1})
    write_json(tmp_path / "out" / "stages" / "train-cpu_small.json", {"settings": "others", "done": True})
    result = tmp_path / "out" / "comparison.json"
    result.write_text("{}")
    assert compare.main([str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1"]) == 1
    assert "was trained with other settings" in capsys.readouterr().err
    assert result.read_text() == "{}" and (folder / "checkpoints" / "checkpoint_last.pt").exists()


def test_a_fine_tuned_model_is_trained_again_when_its_start_is_trained_on(corpus: Path, tmp_path: Path, capsys):
    two = "cpu_small_sent,cpu_small_finetune"
    pretend(comparison(corpus, tmp_path / "out", recipes=two).pipeline)
    old = [tmp_path / "out" / "runs" / name / "old.log" for name in two.split(",")]
    for path in old:
        path.write_text("")
    pretend(comparison(corpus, tmp_path / "out", "--minutes", 40, recipes=two).pipeline)
    assert [path.exists() for path in old] == [True, False]
    assert "train-cpu_small_finetune: begun anew, since train-cpu_small_sent went on" in capsys.readouterr().out


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


def test_minutes_as_hours():
    assert float(stop_hours(30)) == 0.5 and float(stop_hours(0.01)) == pytest.approx(0.01 / 60, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "--minutes 0: give at least 0.01"),
        (["--minutes", "1", "--start-minutes", "0"], "--start-minutes 0: give at least 0.01"),
        (["--start-minutes", "5"], "--start-minutes: none of cpu_small starts from another one of them"),
        (["--jobs", "0"], "--jobs 0: give at least 1"),
        (["--every", "0"], "--every 0: give at least 1"),
        (["--recipes", ","], "--recipes: name at least one recipe"),
        (["--also", "ted:dev=nowhere"], "nowhere: no such directory"),
        (["--also", "tech:test=nowhere"], "give every set a name of its own"),
        (["--set", "trian.lr=1"], "--set trian.lr=1: write SECTION.OPTION=VALUE"),
    ],
)
def test_errors_of_a_user(corpus: Path, tmp_path: Path, capsys, options: list[str], message: str):
    arguments = [str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1", *options]
    assert compare.main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_corpus_without_a_test_set(tmp_path: Path, capsys):
    corpus = write_corpus(tmp_path / "tech", {"train": 2, "dev": 1})
    assert compare.main([str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1"]) == 1
    assert "no test set; it has train, dev" in capsys.readouterr().err


@pytest.mark.parametrize(("whole", "reference"), [(True, "both"), (False, "raw")])
def test_a_corpus_without_its_instances_is_scored_against_raw_text(
    corpus: Path, tmp_path: Path, monkeypatch, whole: bool, reference: str
):
    plan = comparison(corpus, tmp_path / "out", recipes="cpu_small")
    hypotheses, prepared = plan.translation("cpu_small", plan.sets[0]), plan.prepared("cpu_small")
    hypotheses.parent.mkdir(parents=True)
    hypotheses.write_text("")
    for name in ["text/test.de", "instances/test.de", "bin/dict.de.txt"] if whole else ["text/test.de"]:
        (prepared / name).parent.mkdir(parents=True)
        (prepared / name).write_text("")
    asked = []
    monkeypatch.setattr(module, "call_command", lambda name, corpus, options: asked.append(options))
    plan.pipeline.stages["score-cpu_small-tech_test"].work()
    assert [options["reference"] for options in asked] == [reference]
