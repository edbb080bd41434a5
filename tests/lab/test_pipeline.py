"""Stages of an experiment: which are kept, resumed, restarted or refused; programs beside each other."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_record
from gtransformer.lab import pipeline as pipeline_module
from gtransformer.lab.pipeline import Pipeline, Program, Stage


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
            trained("tuned", ["corpus"]),
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
        self.pipeline(**changed).run("trial")
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


def test_other_settings_undo_a_stage(plan):
    found = plan.pipeline(**{"text-first": 2})
    assert [found.is_done(name) for name in ALL] == [True, True, True, False, True]
    assert plan.run(**{"text-first": 2}) == ["text-first"], "what the other settings wrote is gone"


def test_a_model_of_other_settings_is_refused_and_nothing_is_touched(plan):
    before = plan.files()
    for changed in ({"first": 2}, {"corpus": 2}, {"minutes": 5}):
        with pytest.raises(UserError, match="first: was trained with other settings"):
            plan.run(**changed)
    assert plan.did == [] and plan.files() == before


def test_what_never_became_a_model_is_removed(plan):
    for path in ("checkpoints/best.pt", "text"):
        (plan.directory / "tuned" / path).unlink()
    (plan.directory / "tuned" / "log").write_text("of other settings")
    assert plan.run(tuned=2) == ["tuned", "text-tuned"]
    assert not (plan.directory / "tuned" / "log").exists()


def test_a_larger_budget_goes_on(plan):
    assert plan.run(minutes=20) == ["first over x", "tuned over x", "text-first", "text-tuned"]
    assert plan.run(minutes=20) == []


def test_what_reads_a_stage_that_was_done_again_is_done_again(plan):
    (plan.directory / "first" / "checkpoints" / "best.pt").unlink()
    assert plan.run() == ["first", "text-first over x"]
    (plan.directory / "corpus").unlink()
    assert plan.run() == ["corpus"], "models are kept"


def test_an_interrupted_stage_is_resumed(plan):
    folder = plan.directory / "more"

    def run(work) -> None:
        pipeline = Pipeline(plan.directory, "trial")
        pipeline.add(Stage("more", 1, [folder], work))
        pipeline.run("trial")

    def half() -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(half)
    seen = []
    run(lambda: seen.append(folder.exists()))
    assert seen == [True]


def program(folder: Path, name: str, code: str = "", after=(), waits_for=(), **more) -> Stage:
    """A stage whose program notes its name in ``order``, then runs some Python."""
    note = f"open({str(folder / 'order')!r}, 'a').write({name!r} + ' '); print({name!r}, flush=True)"
    command = [sys.executable, "-c", f"{note}\n{code or 'pass'}"]
    work = Program(command, folder / f"{name}.log", **{"keeps_log": True, **more})
    return Stage(name, code, [folder / f"{name}.log"], work, after, waits_for)


def run(folder: Path, *stages: Stage, at_once: int = 2, threads: int | None = 1, **options) -> str:
    """Run stages, two at a time; the order in which they began."""
    pipeline = Pipeline(folder, "trial")
    pipeline.add(*stages)
    pipeline.run("trial", at_once, threads, **options)
    return (folder / "order").read_text().strip()


@pytest.mark.slow
def test_programs_and_functions_in_order(tmp_path):
    def note() -> None:
        with open(tmp_path / "order", "a") as stream:
            stream.write("function ")

    stages = [
        program(tmp_path, "a", "import time; time.sleep(1)"),
        program(tmp_path, "b", after=["a"]),
        Stage("function", 1, [], note, after=["b"]),
        program(tmp_path, "c", waits_for=["function"]),
        program(tmp_path, "free"),
    ]
    order = run(tmp_path, *stages).split()
    assert set(order[:2]) == {"a", "free"} and order[2:] == ["b", "function", "c"]
    record = read_record(tmp_path / "stages" / "a.json")
    assert record["done"] is True and 1 <= record["seconds"] < 30


@pytest.mark.slow
def test_one_alone_has_all_cores_and_nothing_runs_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_module, "available_cores", lambda: 7)  # two with three threads leave one
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    marks = tmp_path / "marks"
    code = (
        "import os, time\n"
        f"def mark(what): open({str(marks)!r}, 'a').write({{name!r}} + what + ' ')\n"
        "mark('+' + os.environ['OMP_NUM_THREADS'] + os.environ.get('OMP_WAIT_POLICY', '')[:1])\n"
        "time.sleep(0.4); mark('-')"
    )
    stages = [program(tmp_path, name, code.format(name=name), alone=name == "b") for name in "abc"]
    run(tmp_path, *stages, threads=3)  # P: threads of programs that share the cores wait passively
    assert marks.read_text().split() == ["a+3P", "a-", "b+7", "b-", "c+3P", "c-"]


@pytest.mark.slow
def test_failures_end_all_unless_they_may_be_and_nothing_reads_them(tmp_path):
    bad = program(tmp_path, "bad", "raise SystemExit('error: no memory')")
    slow = program(tmp_path, "slow", "import time; time.sleep(60)")
    with pytest.raises(UserError, match=r"trial: bad stopped with exit status 1: no memory"):
        run(tmp_path, slow, bad)
    failures, did = [], []
    more = {
        "failed": lambda stage, why: failures.append((stage.name, why)),
        "finished": lambda stage, _: did.append(stage),
    }
    other = program(tmp_path, "other", waits_for=["bad"])
    quiet = replace(program(tmp_path, "quiet"), outputs=[tmp_path / "never"])
    run(tmp_path, bad, other, quiet, **more)
    reasons = [("bad", "stopped with exit status 1: no memory"), ("quiet", f"did not write {tmp_path / 'never'}")]
    assert sorted(failures) == reasons and did == [other]
    with pytest.raises(UserError, match="bad stopped with exit status 1"):
        run(tmp_path, bad, program(tmp_path, "reader", after=["bad"]), **more)
