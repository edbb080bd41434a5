"""Stages of an experiment: which are kept, gone on with, begun again or refused."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.pipeline import Pipeline, Program, Stage
from gtransformer.work import read_record


class Plan:
    """A small experiment: a corpus, a model trained on it, one fine-tuned from that, and a translation by each."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.did: list[str] = []  # the stages that were done, in order, with what they found of their outputs

    def pipeline(self, **changed) -> Pipeline:
        """The pipeline with other settings of some stages, or minutes."""
        minutes = changed.pop("minutes", 10)
        pipeline = Pipeline(self.directory, "trial")

        def stage(name: str, output: str, after=(), **more) -> Stage:
            path = self.directory / output
            return Stage(name, changed.get(name, 1), [path], lambda: self.work(name, path), after, **more)

        def trained(name: str, after: list[str]) -> Stage:
            more = {"budget": minutes, "folder": self.directory / name, "precious": True}
            return stage(name, f"{name}/checkpoints/best.pt", after, **more)

        pipeline.add(
            stage("corpus", "corpus"),
            trained("first", ["corpus"]),
            trained("tuned", ["corpus", "first"]),
            stage("text-first", "first/text", ["first"]),
            stage("text-tuned", "tuned/text", ["tuned"]),
        )
        return pipeline

    def work(self, name: str, path: Path) -> None:
        """What a stage does: write its output, once more if it is there."""
        self.did.append(name + (f" over {path.read_text()}" if path.exists() else ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + "x")

    def run(self, **changed) -> list[str]:
        """Run it; what was done."""
        self.did = []
        with self.pipeline(**changed) as pipeline:
            pipeline.run("trial")
        return self.did

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}


ALL = ["corpus", "first", "tuned", "text-first", "text-tuned"]


@pytest.fixture
def plan(tmp_path) -> Plan:
    """The experiment, done once."""
    plan = Plan(tmp_path / "out")
    assert plan.run() == ALL
    return plan


def test_what_was_done_with_the_same_settings_is_kept(plan, capsys):
    before = plan.files()
    assert plan.run() == [] and plan.files() == before
    assert capsys.readouterr().out.splitlines()[-5:] == [f"| {name}: done before, kept" for name in ALL]
    assert all(map(plan.pipeline().is_done, ALL)), "this can be asked without the lock"


def test_other_settings_of_a_stage_undo_it_and_what_reads_it(plan):
    found = plan.pipeline(**{"text-first": 2})
    assert [found.is_done(name) for name in ALL] == [True, True, True, False, True]
    assert plan.run(**{"text-first": 2}) == ["text-first"], "what the other settings wrote is gone"
    assert plan.run() == ["text-first"]
    for name in ("first", "tuned"):
        shutil.rmtree(plan.directory / name)
    assert plan.run(corpus=2) == ALL


def test_a_model_of_other_settings_is_refused_and_nothing_is_touched(plan):
    before = plan.files()
    for changed in ({"first": 2}, {"corpus": 2}):
        message = "first: was trained with other settings.* than this trial has; choose another output directory"
        with pytest.raises(UserError, match=message):
            plan.run(**changed)
    assert plan.did == [] and plan.files() == before
    (plan.directory / "stages" / "first.json").unlink()  # or an older version's
    with pytest.raises(UserError, match="by an older version"):
        plan.run()


def test_what_never_became_a_model_is_removed(plan, capsys):
    for path in ("checkpoints/best.pt", "text"):
        (plan.directory / "tuned" / path).unlink()
    (plan.directory / "tuned" / "log").write_text("of other settings")
    assert plan.run(tuned=2) == ["tuned", "text-tuned"]
    assert not (plan.directory / "tuned" / "log").exists()
    assert "| tuned: restarted, since its results have other settings" in capsys.readouterr().out


def test_nothing_is_begun_anew_in_a_folder_of_what_came_before(tmp_path, capsys):
    (tmp_path / "out" / "first" / "stages").mkdir(parents=True)
    assert Plan(tmp_path / "out").run() == ALL
    assert "begun again" not in capsys.readouterr().out


def test_a_larger_budget_goes_on_and_begins_anew_what_started_from_it(plan, capsys):
    (plan.directory / "tuned" / "log").write_text("")
    assert plan.run(minutes=20) == ["first over x", "tuned", "text-first", "text-tuned"]
    assert "| tuned: restarted, since first was resumed" in capsys.readouterr().out
    assert not (plan.directory / "tuned" / "log").exists()
    assert plan.run(minutes=20) == []
    before = plan.files()
    with pytest.raises(UserError, match="started with 20 minutes of training, more than --minutes 10; choose another"):
        plan.run()
    assert plan.files() == before
    for name in ("first", "tuned"):
        shutil.rmtree(plan.directory / name)
    assert plan.run() == ["first", "tuned", "text-first", "text-tuned"], "without a model nothing is trained back"


def test_what_reads_a_stage_that_was_done_again_is_done_again(plan):
    (plan.directory / "first" / "text").unlink()
    assert plan.run() == ["text-first"]
    (plan.directory / "corpus").unlink()
    assert not plan.pipeline().is_done("text-tuned")
    assert plan.run() == ["corpus"], "models are precious"
    (plan.directory / "first" / "checkpoints" / "best.pt").unlink()
    assert plan.run() == ["first", "text-first over x"], "over what is there, since it is of the same settings"
    assert plan.run() == []


def test_a_model_whose_results_are_there_may_be_removed(plan):
    """Not one that another training started from; nor where a result is missing, nor with more minutes."""
    model = plan.directory / "tuned" / "checkpoints" / "best.pt"
    shutil.rmtree(model.parent)
    assert plan.pipeline().is_done("text-tuned") and plan.run() == [] and not model.exists()
    (plan.directory / "tuned" / "text").unlink()
    assert not plan.pipeline().is_done("tuned") and plan.run() == ["tuned", "text-tuned"] and model.exists()
    model.unlink()
    before = plan.files()
    for changed in ({"tuned": 2}, {"minutes": 5}):
        with pytest.raises(UserError, match="choose another output directory"):
            plan.run(**changed)
    assert plan.files() == before, "results of a removed model are not thrown away"
    assert plan.run(minutes=20) == ["first over x", "tuned", "text-first", "text-tuned"]


def test_a_removed_model_is_trained_again_if_a_result_of_it_must_be_made_again(tmp_path):
    """Also where two models that have been removed have one result, which depends on something else, too."""
    did = []

    def work(name: str, *paths: Path) -> None:
        did.append(name)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")

    def run() -> list[str]:
        did.clear()
        pipeline = Pipeline(tmp_path, "trial")
        for name, after in (("set", ()), ("a", ()), ("b", ()), ("scores", ("set", "a", "b"))):
            trained = name in "ab"
            paths = [tmp_path / name / ("checkpoints/best.pt" if trained else name)]
            more = {"folder": tmp_path / name, "precious": True} if trained else {}
            pipeline.add(Stage(name, 1, paths, partial(work, name, *paths), after, **more))
        with pipeline:
            pipeline.run("trial")
        return list(did)

    assert run() == ["set", "a", "b", "scores"]
    for name in "ab":
        shutil.rmtree(tmp_path / name)
    assert run() == []
    (tmp_path / "set" / "set").unlink()
    assert run() == ["set", "a", "b", "scores"]


def test_a_training_that_starts_anew_has_a_new_log(tmp_path):
    """One that resumes keeps it."""
    model, log, text = (tmp_path / "run" / name for name in ("checkpoints/best.pt", "log", "text"))
    train = ["sh", "-c", f"echo update; mkdir -p {model.parent}; touch {model}"]

    def run() -> str:
        pipeline = Pipeline(tmp_path, "trial")
        work, folder = Program(train, log, keeps_log=True), tmp_path / "run"
        pipeline.add(Stage("train", 1, [model, log], work, folder=folder, precious=True))
        pipeline.add(Stage("text", 1, [text], partial(text.write_text, "x"), ["train"]))
        with pipeline:
            pipeline.run("trial")
        return log.read_text()

    assert run() == "update\n"
    text.unlink()
    model.with_name("last.pt").touch()
    model.unlink()
    assert run() == "update\nupdate\n"
    shutil.rmtree(model.parent)
    assert run() == "update\nupdate\n", "nothing is left to do"
    text.unlink()
    assert run() == "update\n"


def test_a_removal_that_was_interrupted_is_finished(plan, monkeypatch):
    def killed(*_) -> None:
        raise KeyboardInterrupt

    (plan.directory / "tuned" / "log").write_text("")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", killed)
        plan.run(minutes=20)
    assert (plan.directory / "tuned" / "log").exists()
    assert plan.run(minutes=20) == ["tuned", "text-first", "text-tuned"]
    assert not (plan.directory / "tuned" / "log").exists()


def test_what_was_cut_short_is_done_again(plan):
    """What reads it, too; nothing that is half there passes for whole."""
    (plan.directory / "tuned" / "text").write_text("")
    assert not plan.pipeline().is_done("text-tuned") and plan.pipeline().is_done("text-first")
    assert plan.run() == ["text-tuned over "]
    (plan.directory / "tuned" / "text").write_text("longer than it was")
    assert plan.run() == []


def test_every_file_of_a_folder_counts_for_itself(tmp_path, monkeypatch):
    """However the directory is spelled, and whatever has grown; logs, locks and half-written files do not count."""
    folder, log, did = tmp_path / "corpus", tmp_path / "train.log", []

    def run(directory: Path) -> None:
        with Pipeline(directory, "trial") as pipeline:
            pipeline.add(Stage("corpus", 1, [directory / "corpus", directory / "train.log"], write))
            pipeline.run("trial")

    def write() -> None:
        did.append("corpus")
        folder.mkdir(exist_ok=True)
        for name in ("a", "b", "lock", "x.1.tmp"):
            (folder / name).write_text("text")
        log.write_text("line\n" * 3)

    run(tmp_path)
    (folder / "later").write_text("of another stage")
    (folder / "lock").unlink(), (folder / "x.1.tmp").unlink()
    log.write_text("line\n")
    monkeypatch.chdir(tmp_path)
    run(Path())
    assert did == ["corpus"]
    for harm in (lambda: (folder / "a").write_text("te"), (folder / "b").unlink):
        harm()
        (folder / "later").write_text("longer than it was, by far")
        run(Path())
    assert did == ["corpus"] * 3


def test_what_earlier_versions_noted_stays_done(plan):
    """They noted no sizes, or those of whole folders."""
    for path in (plan.directory / "stages").glob("*.json"):
        stamp = read_record(path)
        del stamp["sizes"]
        path.write_text(json.dumps(stamp | {"left": {str(plan.directory / "corpus"): 99}}))
    assert plan.run() == []


def test_a_model_that_was_cut_short_is_refused(plan):
    """It is dear; nobody but the user throws it away."""
    model = plan.directory / "first" / "checkpoints" / "best.pt"
    whole = model.read_bytes()
    model.write_bytes(b"")
    message = f"{model}: shorter than first left it; put it back, or remove {plan.directory / 'first'}"
    with pytest.raises(UserError, match=re.escape(message)):
        plan.run()
    model.write_bytes(whole)
    assert plan.run() == []


def test_an_interrupted_stage_is_gone_on_with(plan):
    def half() -> None:
        folder.mkdir()
        (folder / "half").write_text("")
        raise KeyboardInterrupt

    folder, seen = plan.directory / "more", []

    def stages(work, settings) -> Pipeline:
        pipeline = Pipeline(plan.directory, "trial")
        pipeline.add(Stage("more", settings, [folder], work))
        return pipeline

    with pytest.raises(KeyboardInterrupt), stages(half, 1) as pipeline:
        pipeline.run("trial")
    assert not stages(half, 1).is_done("more")

    def rest() -> None:
        seen.append(folder.exists())
        folder.mkdir(exist_ok=True)

    for settings in (1, 2):
        with stages(rest, settings) as pipeline:
            pipeline.run("trial")
    assert seen == [True, False], "with other settings nothing is left to go on with"


def test_stages_come_behind_those_that_they_need(tmp_path):
    pipeline = Pipeline(tmp_path, "trial")
    with pytest.raises(ValueError, match="b comes after a, which is not there yet"):
        pipeline.add(Stage("b", 1, [], print, waits_for=["a"]))
    pipeline.add(Stage("a", 1, [], print))
    with pytest.raises(ValueError, match="a is there already"):
        pipeline.add(Stage("a", 2, [], print))


def test_one_experiment_per_directory(tmp_path):
    with Pipeline(tmp_path, "trial"), pytest.raises(UserError, match="another trial.*is running"):
        Pipeline(tmp_path, "trial").__enter__()
    with Pipeline(tmp_path, "trial"):
        pass


def test_a_stage_that_leaves_nothing_is_not_done(tmp_path: Path):
    with Pipeline(tmp_path, "trial") as pipeline:
        pipeline.add(Stage("quiet", 1, [tmp_path / "text"], lambda: None))
        with pytest.raises(UserError, match="quiet ended without an error but did not write .*text"):
            pipeline.run("trial")
    assert read_record(tmp_path / "stages" / "quiet.json")["done"] is False


def test_a_model_of_an_older_version_is_not_thrown_away(tmp_path: Path):
    """Whose stamps say less: it may be of the same settings, which nobody can tell any more."""
    model = tmp_path / "model" / "checkpoints" / "best.pt"
    model.parent.mkdir(parents=True)
    model.touch()
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "train.json").write_text('{"settings": "0123", "done": true, "seconds": 3}')
    with Pipeline(tmp_path, "trial") as pipeline:
        pipeline.add(Stage("train", 1, [model], lambda: None, folder=tmp_path / "model"))
        with pytest.raises(UserError, match="or by an older version.*remove that folder to train"):
            pipeline.run("trial")
    assert model.is_file()
