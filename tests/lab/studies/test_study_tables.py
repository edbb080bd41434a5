"""Studies of tables: one training for all rows that differ in decoding alone, and what their results become."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.report.paper import PAPER, read_paper
from gtransformer.lab.studies.one_run import ordered_run
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner
from gtransformer.lab.studies.table import table
from gtransformer.run.pipeline import Pipeline, Stage

pytestmark = pytest.mark.slow

COMMON = """
description: settings
miniature:
  seeds: [1]
  systems: {plain: {name: Plain, recipe: START/fine.yaml}}
  length: 512
"""
ROWS = """
description: a table
miniature:
  panels:
    - title: Table
      kind: table
      columns: system, search
      rows:
        - {system: plain, label: "plain, full"}
        - {system: plain, label: "plain, sequential", decoding: {generate.strategy: sequential}}
        - {system: plain, label: "plain, beam", decoding: {generate.beam: 7}}
        - {system: plain, label: "wide, full", training: {train.dropout: 0.2}}
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes the table, with what it needs, and returns its path. All start from another model."""
    (tmp_path / "start.yaml").write_text("based-on: demo_full\nprepared-from: null\ntask: {instances: greedy}\n")
    (tmp_path / "fine.yaml").write_text("based-on: start\npretrained-from: start\n")

    def writer(rows: str = ROWS) -> str:
        (tmp_path / "common.yaml").write_text(COMMON.replace("START", str(tmp_path)))
        (tmp_path / "mine.yaml").write_text(rows)
        return str(tmp_path / "mine.yaml")

    return writer


@pytest.mark.parametrize("miniature", [False, True])
def test_rows_are_the_paper_s(miniature):
    """All rows of the paper, in its order, but for the one that did not converge there."""
    papers = {table.name: table for table in read_paper(PAPER.with_name("window_attention.yaml")).tables}
    for name, wanted in (("table3", papers["Table 3"]), ("table4", papers["Table 4"])):
        (panel,) = load_study(name, miniature).panels
        assert [line.label for line in panel.lines] == [row.method for row in wanted.rows if row.paper[0] != "N/A"]


def test_full_tables_are_the_rows_of_the_results_page():
    """The model and the search of each row are those whose scores would stand beside the paper's figure."""
    for name, table_name in (("table3", "Table 3"), ("table4", "Table 4")):
        (panel,), rows = load_study(name).panels, read_paper(PAPER.with_name("window_attention.yaml")).tables
        rows = {row.method: row for table in rows if table.name == table_name for row in table.rows}
        for line in panel.lines:
            (run,) = line.runs
            assert run.recipe == rows[line.label].recipe
            assert sorted((*run.training, *run.decoding)) == sorted(rows[line.label].changes)


@pytest.mark.parametrize("miniature", [False, True])
def test_searches_and_windows_of_every_row(miniature):
    for line in load_study("table3", miniature).panels[0].lines:
        options = line.runs[0].settings().options("task", "train", "generate")
        assert options.get("strategy", "full") == ("sequential" if line.label.endswith(" SD") else "full")
        if "2 sent." in line.label:
            assert options["instances"] == ("sliding" if line.label.endswith(" SD") else "disjoint")
    names = {"1-1": "one-to-one", "train avg.": "linear", "sent-align": "sentence"}
    for line in load_study("table4", miniature).panels[0].lines[1:]:
        _, positions, alignment, window = line.label.split(", ")
        options = line.runs[0].settings().options("task", "train", "generate")
        assert options["window-positions"] == {"abs.": "absolute", "rel.": "relative"}[positions]
        assert options["window"] == int(window) and options["train-alignment"] == "linear"
        decoding = options.get("model-overrides", {}).get("decode_alignment", options["decode-alignment"])
        assert decoding == names[alignment] and options["strategy"] == "sequential"


@pytest.mark.parametrize("miniature", [False, True])
def test_a_training_serves_all_searches(miniature):
    starts = 1 if miniature else 0  # the sentence model that all start from
    three, four = (load_study(name, miniature).runs() for name in ("table3", "table4"))
    for runs, rows, trainings in ((three, 9, 5), (four, 11, 7)):
        assert len(runs) == rows + starts
        assert sum(not run.decoding for run in runs) == trainings + starts
        for run in runs:
            assert run.needed is None or runs.index(run.needed) < runs.index(run)
    shared = {run.name("c") for run in three} & {run.name("c") for run in four}
    assert len(shared) == 2 + starts, "documents, and windows of 20 with relative positions"


def test_what_the_recipe_does_anyway_is_no_other_translation(write):
    runs = load_study(write(), miniature=True).panels[0].lines
    beam = runs[0].runs[0].settings().sections["generate"]["beam"]
    same = load_study(write(ROWS.replace("generate.beam: 7", f"generate.beam: {beam}")), miniature=True).panels[0].lines
    assert runs[2].runs != runs[0].runs and same[2].runs == same[0].runs


def test_names_tell_what_a_run_starts_from(write):
    *_, row = load_study(write(), miniature=True).panels[0].lines
    (run,) = row.runs
    assert run.name("c").startswith("fine-0.2-len512-seed1-") and run.needed.label == "start-len512-seed1"
    assert run.name("c") != replace(run, recipe=run.needed.recipe).name("c")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('label: "plain, full"', "name: x", "panel 1, entry 1 of rows: unknown key 'name'"),
        ("kind: table", "kind: tables", "kind is 'tables'; give one of scores, curves, table"),
        ("system: plain, label: \"wide", "system: wide, label: \"wide", "panel 1: unknown system 'wide'; known are"),
        ("generate.beam: 7", "train.lr: 5", "decoding is {'train.lr': 5}; give lines of the form 'generate.OPTION"),
        ("train.dropout: 0.2", "generate.beam: 2", "give lines of the form 'train.OPTION: value'"),
        ("train.dropout: 0.2", "train.seed: 2", "row 'wide, full': train.seed: a study trains with several seeds"),
    ],
)  # fmt: skip
def test_damaged_tables(write, old, new, message):
    assert ROWS.count(old) == 1
    with pytest.raises(UserError) as error:
        load_study(write(ROWS.replace(old, new)), miniature=True)
    assert message in str(error.value) and "mine.yaml" in str(error.value)


# Stands in for a run: a training writes its model, a translation fails without the one that it is ordered to use.
PROGRAM = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
order = json.loads((folder / "run.json").read_text())
with open(folder.parent / "calls", "a") as calls:
    calls.write(folder.name + chr(10))
model = "checkpoints/checkpoint_best.pt"
for needed in filter(None, (order["model_of"], order["pretrained"])):
    assert (folder / needed / model).is_file()
if not order["model_of"]:
    (folder / model).parent.mkdir(exist_ok=True)
    (folder / model).write_text("model")
score = lambda value: {"score": value, "signature": "s"}
scores = {"d_bleu": score(50.0 + len(order["changes"])), "s_bleu": score(40.0), "ter": score(30.0)}
(folder / "result.json").write_text(json.dumps({"scores": scores, "curves": {}}))
"""


class QuickRunner(Runner):
    """The runner with a quick program in place of each run's."""

    def stage(self, run) -> Stage:
        stage = super().stage(run)
        command = [sys.executable, "-c", PROGRAM, str(self.folder(run))]
        return replace(stage, work=replace(stage.work, command=command))


@pytest.fixture
def runner(write, tmp_path):
    """Of the table, over data that is not read."""
    directory = tmp_path / "out"
    with Pipeline(directory, "study") as pipeline:
        corpora = SimpleNamespace(
            items=[],
            pipeline=pipeline,
            directory=directory,
            fingerprint="f",
            corpus="demo",
            prepared=lambda data: tmp_path / "prepared",
        )
        yield QuickRunner(load_study(write(), miniature=True), corpora, jobs=2)


def calls(runner) -> list[str]:
    """The runs' names in the order in which their programs were started."""
    return (runner.corpora.directory / "runs" / "calls").read_text().split()


def test_models_are_there_before_they_are_used_and_stay(runner):
    runs = runner.study.runs()
    assert runner.run(runs) == {}
    assert sorted(calls(runner)) == sorted(runner.folder(run).name for run in runs) and len(runs) == 5
    start, trained, sequential, beam, other = runs
    for run in (start, trained):
        assert (runner.folder(run) / "checkpoints" / "checkpoint_best.pt").is_file(), "others may want it"
    order = json.loads((runner.folder(sequential) / "run.json").read_text())
    assert order["model_of"] == f"../{runner.folder(trained).name}" and order["pretrained"] is None
    assert order["changes"] == ["generate.strategy=sequential", "train.seed=1"] and order["metrics"] == ["bleu", "ter"]
    order = json.loads((runner.folder(other) / "run.json").read_text())
    assert order["pretrained"] == f"../{runner.folder(start).name}" and order["model_of"] is None
    assert runner.folder(beam).name.startswith("fine-7-len512-seed1-")


def test_a_model_that_is_gone_is_trained_again_only_for_who_wants_it(runner):
    start, trained, sequential, *_ = runner.study.runs()
    runner.run(runner.study.runs())
    before = len(calls(runner))
    for run in (start, trained):
        (runner.folder(run) / "checkpoints" / "checkpoint_best.pt").unlink()
    assert all(map(runner.is_done, runner.study.runs())), "nothing is missing"
    (runner.folder(sequential) / "result.json").unlink()
    assert [runner.is_done(run) for run in (start, trained, sequential)] == [False, False, False]
    fresh = Pipeline(runner.corpora.directory, "study")
    runner.corpora.pipeline.__exit__()
    with fresh:
        runner.corpora.pipeline = fresh
        runner.run(runner.study.runs())
    again = calls(runner)[before:]
    assert again == [runner.folder(run).name for run in (start, trained, sequential)]


def test_what_a_table_prints_and_leaves(runner):
    runner.run(runner.study.runs())
    result = json.loads(json.dumps(runner.collect({})))
    first, second, *_ = result["panels"][0]["lines"]
    assert first["label"] == "plain, full" and first["d_bleu"]["mean"] == 51 and second["d_bleu"]["mean"] == 52
    assert first["ter"]["mean"] == 30 and first["s_bleu"]["values"] == [40]
    lines = table(result).splitlines()
    assert lines[1].split("  ")[0] == "system, search" and "TER" in lines[1]
    assert lines[3].startswith("plain, sequential  52.00 (52.00 to 52.00)  40.00")
    assert lines[-2:] == ["BLEU: s", "TER: s"]


def test_a_run_is_told_whose_model_it_uses(tmp_path):
    order = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "p"}
    own = ordered_run(tmp_path / "a", order)
    assert own.checkpoint == tmp_path / "a" / "checkpoints" / "checkpoint_best.pt" and own.pretrained is None
    other = ordered_run(tmp_path / "a", order | {"model_of": "../b", "pretrained": None})
    assert other.checkpoint == tmp_path / "b" / "checkpoints" / "checkpoint_best.pt"
    fine = ordered_run(tmp_path / "a", order | {"model_of": None, "pretrained": "../b"})
    assert fine.pretrained == other.checkpoint and fine.checkpoint == own.checkpoint
