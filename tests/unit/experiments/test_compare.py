"""Comparisons: what they need, in which order, with which budget. Real runs: tests/end_to_end/test_compare.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.cli import compare
from gtransformer.cli.compare import build_parser
from gtransformer.errors import UserError
from gtransformer.experiments.comparison.comparison import check_arguments
from gtransformer.experiments.comparison.corpus import split_files, thin_corpus
from gtransformer.experiments.comparison.plan import Plan, check_budget, outside_files, parse_set, stop_hours
from gtransformer.experiments.comparison.run import Comparison
from gtransformer.experiments.pipeline import Stages
from gtransformer.experiments.recipe import load_recipe
from gtransformer.preprocess.corpus import find_splits

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
    """A comparison about to start, in a directory that it has locked."""
    arguments = [str(corpus), str(output), "--recipes", recipes, "--minutes", "30", *map(str, options)]
    args = build_parser().parse_args(arguments)
    return Comparison(args, Stages(output.absolute(), "comparison"), *check_arguments(args))


def planned(plan: Comparison) -> dict[str, object]:
    """The jobs of a comparison, by name."""
    try:
        return {job.name: job for job in (*plan.preparations(), *plan.trainings(), *plan.translations())}
    finally:
        plan.stages.close()


def changes(job) -> list[str]:
    """What ``--set`` gives a job."""
    return [value for flag, value in zip(job.command, job.command[1:], strict=False) if flag == "--set"]


def test_recipes_that_others_need_come_first():
    plan = Plan(FOUR, [])
    assert list(plan.recipes) == ["cpu_small_sent", "cpu_small_finetune", "cpu_small_doc", "cpu_small"]
    assert list(plan.corpora) == ["cpu_small", "cpu_small_sent"]
    assert plan.lender("cpu_small_sent") == "cpu_small" and plan.lender("cpu_small") is None
    assert [plan.preparer(name) for name in plan.recipes] == ["cpu_small_sent", *["cpu_small"] * 3]
    assert list(Plan(["cpu_small_doc"], []).corpora) == ["cpu_small"], "prepared by a recipe that is not compared"


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


def test_jobs_and_what_they_wait_for(corpus: Path, tmp_path: Path):
    other = write_corpus(tmp_path / "other", {"dev": 1, "train": 9})
    plan = comparison(corpus, tmp_path / "out", "--also", f"ted:dev={other}", "--set", "train.autocast=bfloat16")
    plan.write_corpora()
    assert {path.name for path in (tmp_path / "out" / "sets" / "ted_dev").iterdir()} == {
        "concatenated_en2de_dev_en.txt", "concatenated_en2de_dev_de.txt",
    }, "the split alone"  # fmt: skip
    jobs = planned(plan)
    prepared = {f"prepare-{name}{end}" for name in ("cpu_small", "cpu_small_sent") for end in ("", ".ted_dev")}
    assert len(jobs) == 4 + 4 + 8 and prepared <= set(jobs)
    assert jobs["prepare-cpu_small"].after == []
    assert jobs["prepare-cpu_small_sent"].after == jobs["prepare-cpu_small.ted_dev"].after == ["prepare-cpu_small"]
    vocabulary = f"prepare.vocabulary={tmp_path / 'out' / 'prepared'}"
    assert f"{vocabulary}/cpu_small" in changes(jobs["prepare-cpu_small_sent"])
    assert f"{vocabulary}/cpu_small_sent" in changes(jobs["prepare-cpu_small_sent.ted_dev"])
    for name in FOUR:
        job = jobs[f"train-{name}"]
        start = ["train-cpu_small_sent"] if name == "cpu_small_finetune" else []
        assert set(job.after) == {*prepared, *start}
        assert {"train.autocast=bfloat16", "train.stop-time-hours=0.500000", "train.patience="} <= set(changes(job))
        model = f"train.finetune-from-model={plan.folder('cpu_small_sent') / 'checkpoints' / 'checkpoint_best.pt'}"
        assert (model in changes(job)) == bool(start)
        recipe = load_recipe(name, changes(job))
        assert recipe.sections["train"]["stop-time-hours"] == 0.5 and "patience" not in recipe.sections["train"]
        translation = jobs[f"generate-{name}-ted_dev"]
        assert f"train-{name}" in translation.after
        assert translation.command[translation.command.index("--split") + 1] == "valid"


def test_what_is_done_is_kept_and_a_larger_budget_goes_on(corpus: Path, tmp_path: Path):
    out, name = tmp_path / "out", "cpu_small_doc"

    def pretend(plan: Comparison) -> None:
        """All jobs leave what they are to leave."""
        jobs = planned(plan)
        for path in (
            plan.prepared("cpu_small") / "manifest.json",
            plan.folder(name) / "checkpoints" / "checkpoint_best.pt",
            plan.folder(name) / "train.log",
            plan.translation(name, plan.sets[0]),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        for job in jobs.values():
            plan.finished(job, 1.0)

    pretend(comparison(corpus, out, recipes=name))
    assert planned(comparison(corpus, out, recipes=name)) == {}
    best = out / "runs" / name / "checkpoints" / "checkpoint_best.pt"
    longer = comparison(corpus, out, "--minutes", 40, recipes=name)
    assert set(planned(longer)) == {f"train-{name}", f"generate-{name}-tech_test"} and best.is_file()
    for options, message in (
        (["--minutes", 5], r"begun with 40 minutes of training, more than --minutes 5; choose another"),
        (["--set", "train.lr=1"], r"cpu_small_doc: was trained with other settings.*choose another output"),
        (["--every", 2], r"was trained with other settings, or on another corpus"),
    ):
        before = {path: path.read_bytes() for path in out.rglob("*.*")}
        plan = comparison(corpus, out, *options, recipes=name)
        with pytest.raises(UserError, match=message), plan.stages:
            plan.check_models()
        assert {path: path.read_bytes() for path in out.rglob("*.*")} == before, "a refusal leaves everything in place"
    best.unlink()
    changed = comparison(corpus, out, "--set", "train.lr=1", recipes=name)
    changed.check_models()
    assert set(planned(changed)) == {f"train-{name}", f"generate-{name}-tech_test"}
    assert not (best.parent.parent / "train.log").exists(), "what is left of a run without a model does not stay"


def test_a_refused_comparison_keeps_its_result(corpus: Path, tmp_path: Path, capsys):
    folder = tmp_path / "out" / "runs" / "cpu_small"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "checkpoint_last.pt").write_text("")
    (folder / "budget.json").write_text(json.dumps({"settings": "others", "minutes": 1}))
    result = tmp_path / "out" / "comparison.json"
    result.write_text("{}")
    assert compare.main([str(corpus), str(tmp_path / "out"), "--recipes", "cpu_small", "--minutes", "1"]) == 1
    assert "was trained with other settings" in capsys.readouterr().err
    assert result.read_text() == "{}" and (folder / "checkpoints" / "checkpoint_last.pt").exists()


def test_a_fine_tuned_model_is_trained_again_when_its_start_is_trained_on(corpus: Path, tmp_path: Path, capsys):
    two = "cpu_small_sent,cpu_small_finetune"
    planned(comparison(corpus, tmp_path / "out", recipes=two))
    best = [tmp_path / "out" / "runs" / name / "checkpoints" / "checkpoint_best.pt" for name in two.split(",")]
    for path in best:
        path.parent.mkdir()
        path.write_text("")
    planned(comparison(corpus, tmp_path / "out", recipes=two))
    assert all(path.exists() for path in best)
    longer = comparison(corpus, tmp_path / "out", "--minutes", 40, recipes=two)
    longer.check_models()
    planned(longer)
    assert [path.exists() for path in best] == [True, False]
    assert "cpu_small_finetune: trained again from the beginning" in capsys.readouterr().out


def test_a_model_depends_on_devices_and_on_files_from_outside(corpus: Path, tmp_path: Path):
    model = tmp_path / "model.pt"
    model.write_text("one")
    changes = ["--set", f"train.finetune-from-model={model}"]

    def settings(*options: object) -> object:
        plan = comparison(corpus, tmp_path / "out", *options, recipes="cpu_small")
        plan.stages.close()
        assert plan.start_checkpoint("cpu_small") == (model if options else None)
        return plan.model("cpu_small")

    first = settings(*changes)
    assert first == settings(*changes) != settings()
    model.write_text("two")
    assert settings(*changes) != first
    assert settings(*changes, "--set", "devices=4") != settings(*changes)
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text("{}")
    found = outside_files({"bert-checkpoint": str(tmp_path / "bert"), "dictionary": "nowhere", "lr": 1})
    assert found["dictionary nowhere"] is None and len(found["bert-checkpoint config.json"]) == 64 and len(found) == 2


def test_budget(tmp_path: Path):
    check_budget(tmp_path, "a", 5)
    (tmp_path / "budget.json").write_text(json.dumps({"settings": "a", "minutes": 5}))
    check_budget(tmp_path, "b", 4)  # nothing was trained yet
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "checkpoint_last.pt").write_text("")
    check_budget(tmp_path, "a", 5)
    check_budget(tmp_path, "a", 6)
    with pytest.raises(UserError, match="more than --minutes 4"):
        check_budget(tmp_path, "a", 4)
    with pytest.raises(UserError, match="other settings"):
        check_budget(tmp_path, "b", 5)
    assert float(stop_hours(30)) == 0.5 and float(stop_hours(0.01)) == pytest.approx(0.01 / 60, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "--minutes 0: give at least 0.01"),
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
    monkeypatch.setattr(plan, "score_one", lambda arguments, log: asked.append(arguments))
    with plan.stages:
        plan.score()
    assert asked[0][asked[0].index("--reference") + 1] == reference
