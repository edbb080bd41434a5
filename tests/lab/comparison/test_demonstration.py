"""The demonstration's plan: which stages there are, and what becomes of them on another budget. Real: test_demo.py."""

from __future__ import annotations

import pytest

from gtransformer.files import write_json
from gtransformer.lab.comparison import demonstration
from gtransformer.lab.comparison.demonstration import RECIPES, Demo
from gtransformer.run import pipeline as pipeline_module

STEPS = ("train", "translate", "score", "contrastive")
ALL = ["corpus", "prepare", *(f"{step}-{system}" for step in STEPS for system in RECIPES)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that does a demonstration whose stages only leave what they are to leave; returns those done."""
    did: list[str] = []
    splits = {"train": {"sentences": 3, "documents": 2, "instances": 1}}

    def leave(name: str, demo: Demo) -> None:
        did.append(name)
        for path in demo.pipeline.stages[name].outputs:
            write_json(path / "manifest.json" if name in ("corpus", "prepare") else path, {"splits": splits})

    def run(max_update: int, systems: list[str]) -> list[str]:
        demo = Demo(tmp_path / "out", 20, 4, max_update, systems)

        def jobs_run(label, jobs, at_once, threads, lock, finished, failed) -> None:
            for job in jobs:
                assert str(tmp_path / "out") in " ".join(job.command())
                leave(job.name, demo)
                finished(job, 1.0)

        def call(command: str, *parts) -> None:
            system = "" if command == "lab.cli.demo_corpus" else f"-{parts[1]['hypotheses'].parent.name}"
            leave("corpus" if command == "lab.cli.demo_corpus" else f"{command}{system}", demo)

        monkeypatch.setattr(pipeline_module, "run_jobs", jobs_run)
        monkeypatch.setattr(demonstration, "call_command", call)
        monkeypatch.setattr(Demo, "result", lambda self, system: system)
        did.clear()
        with demo.pipeline:
            assert demo.run() == {system: system for system in systems}
        return list(did)

    return run


def test_every_step_of_both_systems_before_the_next(run, capsys):
    assert run(6, list(RECIPES)) == ALL
    output = capsys.readouterr().out
    assert "|   train: 3 sentences, 2 documents, 1 instances" in output and "| score-transformer: done in 0 s" in output
    assert run(6, list(RECIPES)) == []
    assert capsys.readouterr().out.count("done before, kept") == len(ALL)


def test_another_budget_keeps_the_corpus_and_a_system_more_keeps_the_first(run, tmp_path):
    run(6, ["gtransformer"])
    (tmp_path / "out" / "gtransformer" / "checkpoints" / "checkpoint_last.pt").write_text("of six updates")
    assert run(6, list(RECIPES)) == [name for name in ALL if name.endswith("-transformer")]
    assert run(7, list(RECIPES)) == ALL[2:]
    assert not (tmp_path / "out" / "gtransformer" / "checkpoints" / "checkpoint_last.pt").exists()
