"""Which runs a study does and which it keeps, what it makes of their results, and which data they get."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.image import imread

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.lab.analysis.study_figures import draw_study
from gtransformer.lab.studies.data import long_documents, sampled, write_part
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner, check_complete
from gtransformer.lab.studies.table import spread, summary, table
from gtransformer.run.pipeline import Pipeline, Stage
from tests.lab.studies.test_study_plan import COMMON, FIGURE

pytestmark = pytest.mark.slow


def result(score: float, curve: list[float], aligned: bool = True) -> dict:
    """A run's result, as far as a study reads it."""
    bleu = {"score": score, "signature": "nrefs:1"}
    points = [[10 * number, value] for number, value in enumerate(curve, 1)]
    curves = {"valid_loss": points, "valid_loss_flat": [[update, 9.0] for update, _ in points]}
    return {"scores": {"d_bleu": bleu, "s_bleu": bleu if aligned else None}, "curves": curves}


# Stands in for a training: fails if the file "fail" names the run, else writes the result with the seed as its score.
PROGRAM = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
order = json.loads((folder / "run.json").read_text())
with open(folder / "calls", "a") as calls:
    calls.write("x")
fail = folder.parent.parent / "fail"
if fail.is_file() and folder.name in fail.read_text():
    sys.exit("error: out of memory")
score = {"score": float(order["seed"]), "signature": "nrefs:1"}
curves = {"valid_loss": [[10, 8.0], [20, 3.0]]}
(folder / "result.json").write_text(json.dumps({"scores": {"d_bleu": score, "s_bleu": None}, "curves": curves}))
"""


class QuickRunner(Runner):
    """The runner with a quick program in place of each run's."""

    def stage(self, run) -> Stage:
        stage = super().stage(run)
        work = replace(stage.work, command=[sys.executable, "-c", PROGRAM, str(self.folder(run))])
        return replace(stage, work=work)


@pytest.fixture
def runner(tmp_path):
    """Eight runs, of two systems, lengths and seeds, over data that is not read."""
    (tmp_path / "common.yaml").write_text(COMMON)
    (tmp_path / "figure.yaml").write_text(FIGURE)
    study = load_study(str(tmp_path / "figure.yaml"), miniature=True)
    directory = tmp_path / "out"
    with Pipeline(directory, "study") as pipeline:
        corpora = SimpleNamespace(
            items=[],
            pipeline=pipeline,
            directory=directory,
            fingerprint="f",
            raw=tmp_path,
            corpus="demo",
            instances=lambda data: 77,
            prepared=lambda data: tmp_path / "prepared",
            read=lambda data: (tmp_path / "shared", [f"task.instance-tokens={data.length}"]),
        )
        yield QuickRunner(study, corpora, jobs=2)


def calls(runner) -> list[int]:
    """How often each run's program was started."""
    paths = [runner.folder(run) / "calls" for run in runner.study.runs()]
    return [len(path.read_text()) if path.is_file() else 0 for path in paths]


def test_what_is_missing_is_run_and_what_is_done_is_kept(runner, capsys):
    runs = runner.study.runs()
    runner.run(runs[:3])
    assert calls(runner) == [1, 1, 1, 0, 0, 0, 0, 0]
    assert "3 runs, 0 done before; 2 at a time" in capsys.readouterr().out
    runner.run(runs)
    assert calls(runner) == [1] * 8
    output = capsys.readouterr().out
    assert "8 runs, 3 done before" in output and "d-BLEU 1.00" in output and "; 0 to go" in output


def test_a_failure_does_not_end_the_others_and_the_same_command_goes_on(runner, capsys):
    runs = runner.study.runs()
    name, fail = runner.folder(runs[0]).name, runner.corpora.directory / "fail"
    fail.write_text(name)
    failures = runner.run(runs)
    assert failures == {name: "stopped with exit status 1: out of memory"}
    log = runner.folder(runs[0]) / "study.log"
    output = capsys.readouterr().out
    assert f"{name} {failures[name]} (its output: {log})" in output and "; 0 to go" in output
    assert [runner.is_done(run) for run in runs] == [False] + [True] * 7
    with pytest.raises(UserError, match=f"figure: 1 of 8 runs failed, see {log}; the same command goes on.*--allow-m"):
        check_complete(runner.study, runner, failures, allowed=False)
    fail.unlink()
    assert runner.run(runs) == {} and all(runner.is_done(run) for run in runs)
    assert calls(runner) == [2] + [1] * 7, "only the one that failed was run again"


def test_a_figure_without_the_runs_that_fail(runner, tmp_path, monkeypatch):
    """One seed of the first point, both of the second; the figure, its table and its file say so."""
    from matplotlib.figure import Figure

    drawn = []
    original = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), original(self, *a, **k))[1])
    first, second, *_ = runner.study.panels[0].lines
    names = [runner.folder(run).name for run in (first.runs[0], *second.runs)]
    (runner.corpora.directory / "fail").write_text(" ".join(names))
    failures = runner.run(runner.study.runs())
    check_complete(runner.study, runner, failures, allowed=True)
    found = json.loads(json.dumps(runner.collect(failures)))
    assert found["missing"] == dict.fromkeys(names, "stopped with exit status 1: out of memory")
    assert len(found["runs"]) == 5 and found["runs"].keys().isdisjoint(names)
    scores, _ = found["panels"]
    assert [(line["system"], line["x"]) for line in scores["lines"]] == [("plain", 64), ("ours", 64), ("ours", 512)]
    assert scores["lines"][0]["d_bleu"] == spread([1.0])
    assert f"missing: {names[2]} stopped with exit status 1: out of memory" in table(found)
    draw_study(found, tmp_path / "figure.png")
    assert "3 run(s) missing" in drawn[0].get_suptitle()


def test_no_figure_where_all_runs_fail(runner):
    runs = runner.study.runs()
    (runner.corpora.directory / "fail").write_text(" ".join(runner.folder(run).name for run in runs))
    with pytest.raises(UserError, match="8 of 8 runs failed"):
        check_complete(runner.study, runner, runner.run(runs), allowed=True)


def test_checkpoints_left_behind_are_removed_unless_they_are_to_be_kept(runner):
    """Ended between the result and its last act, a run leaves them; with --keep-checkpoints they are meant to stay."""
    runs = runner.study.runs()
    runner.run(runs[:1])
    runner.keep_checkpoints = True
    runner.run(runs[1:2])
    left, kept = (runner.folder(run) / "checkpoints" for run in runs[:2])
    for folder in (left, kept):
        folder.mkdir()
    runner.keep_checkpoints = False
    runner.run(runs[:2])
    assert not left.exists() and kept.is_dir()


def test_orders_say_all_that_a_run_needs(runner):
    run = runner.study.runs()[0]
    runner.order(run)
    order = json.loads((runner.folder(run) / "run.json").read_text())
    assert order["name"] == runner.folder(run).name and (order["recipe"], order["seed"]) == ("demo_full", 3)
    assert order["changes"] == ["train.max-update=5", "train.patience=", "generate.quiet=false", "train.seed=3"]
    assert order["keep_checkpoints"] is False and order["metrics"] == ["bleu"]
    assert order["data"] == {"length": 64, "instances": None, "min_document_tokens": None}
    assert Path(order["prepared"]).name == "shared" and order["loading"] == ["task.instance-tokens=64"]


def test_a_recipe_that_groups_by_itself_has_a_corpus_of_its_own(runner):
    run = replace(runner.study.runs()[0], changes=("task.instances=sliding", "task.context-sentences=1"))
    runner.order(run)
    order = json.loads((runner.folder(run) / "run.json").read_text())
    assert Path(order["prepared"]).name == "prepared" and order["loading"] == []


def test_collected_result_and_its_picture(runner, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    original = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), original(self, *a, **k))[1])
    runner.run(runner.study.runs())
    found = json.loads(json.dumps(runner.collect({})))
    assert len(found["runs"]) == 8
    scores, curves = found["panels"]
    assert [(line["system"], line["x"]) for line in scores["lines"]] == [
        ("plain", 64), ("plain", 512), ("ours", 64), ("ours", 512)
    ]  # fmt: skip
    assert scores["lines"][0]["d_bleu"] == spread([3.0, 1.0])
    assert curves["lines"][0]["last"]["mean"] == 3 and set(curves["lines"][0]["runs"]) <= set(found["runs"])
    text = table(found)
    assert "Plain" in text and "2.00 (1.00 to 3.00)" in text and "BLEU: nrefs:1" in text and "2 seed(s)" in text
    draw_study(found, tmp_path / "figure.png")
    first, second = drawn[0].axes
    assert imread(tmp_path / "figure.png").ndim == 3
    assert first.get_ylim()[0] == 0 and [label.get_text() for label in first.get_xticklabels()] == ["64", "512"]
    strokes = [line.get_xydata().tolist() for line in second.get_lines()]
    assert strokes == [[[10, 8], [20, 3]]] * 2, "every seed is drawn, and nothing is smoothed"


def test_all_instances_stand_where_their_number_is(runner, tmp_path):
    figure = FIGURE.replace("axis: length, values: [64, 512]", "axis: instances, length: 64, values: [10, all]")
    (tmp_path / "figure.yaml").write_text(figure)
    runner.study = load_study(str(tmp_path / "figure.yaml"), miniature=True)
    runner.run(runner.study.runs())
    assert [line["x"] for line in runner.collect({})["panels"][0]["lines"]] == [10, 77, 10, 77]


def test_mean_and_spread():
    error = {"std": pytest.approx(4.5**0.5), "standard_error": pytest.approx(1.5)}
    assert spread([1.0, 4.0]) == {"values": [1, 4], "mean": 2.5, **error, "min": 1, "max": 4}
    assert spread([2.0])["std"] is None


def test_s_bleu_only_where_sentences_are_aligned():
    panel = {"kind": "scores", "title": "t", "axis": "length", "lines": [{"system": "s", "x": 1, "runs": ["a", "b"]}]}
    results = {"a": result(10, [1.0]), "b": result(20, [1.0])}
    assert summary([panel], results)[0]["lines"][0]["s_bleu"]["mean"] == 15
    results["b"] = result(20, [1.0], aligned=False)
    assert summary([panel], results)[0]["lines"][0]["s_bleu"] is None


def test_a_curve_that_a_run_does_not_have_is_said_to_be_missing(tmp_path):
    line = {"system": "s", "curve": "valid_entropy_cross_group", "label": "local", "flat": True, "runs": ["a"]}
    panel = {"kind": "curves", "title": "t", "axis": "entropy", "lines": [line, line | {"curve": "valid_loss"}]}
    results = {"a": result(10, [5.0, 2.0])}
    found = {"panels": summary([panel], results), "systems": {"s": "System"}, "runs": results}
    lacking, there = found["panels"][0]["lines"]
    assert lacking["last"] is None and there["lowest"]["mean"] == 2
    assert "System, local  -" in table(found)
    draw_study(found | {"miniature": True, "description": "d", "corpus": "demo"}, tmp_path / "figure.png")


# Two documents; instances of at most 9 tokens: two and one sentence, then one.
TEXT = {
    "en": ["<d>", "a b", "c", "d e f", "<d>", "g"],
    "de": ["<d>", "A B C", "D", "E F", "<d>", "G H"],
}
INSTANCES = {
    "en": ["<s> a b </s> <s> c </s>", "<s> d e f </s>", "<s> g </s>"],
    "de": ["<s> A B C </s> <s> D </s>", "<s> E F </s>", "<s> G H </s>"],
}
SIDECAR = Sidecar("train", "en", "de", documents=2, instances=[(0, 0, 2), (0, 2, 1), (1, 0, 1)])


@pytest.fixture
def prepared(tmp_path):
    """As much of a prepared directory as is read."""
    for folder, texts in (("text", TEXT), ("instances", INSTANCES)):
        (tmp_path / folder).mkdir()
        for lang, lines in texts.items():
            (tmp_path / folder / f"train.{lang}").write_text("\n".join(lines) + "\n")
    return tmp_path


def written(folder) -> dict[str, list[str]]:
    return {lang: (folder / f"concatenated_en2de_train_{lang}.txt").read_text().splitlines() for lang in ("en", "de")}


def test_documents_by_length(prepared):
    """Costs: max(2, 3) + 2, 1 + 2 and 3 + 2 tokens in the first document, 2 + 2 in the second."""
    for tokens, documents in ((4, {0, 1}), (5, {0}), (13, {0}), (14, set())):
        cuts = long_documents(SIDECAR, prepared, ("en", "de"), tokens)
        assert set(cuts) == documents
    write_part(prepared, prepared / "part", ("en", "de"), {0: [(0, None)]})
    assert written(prepared / "part") == {lang: lines[:4] for lang, lines in TEXT.items()}


def test_sampled_instances_become_documents(prepared):
    cuts = sampled(SIDECAR, 3)
    assert cuts == {0: [(0, 2), (2, 1)], 1: [(0, 1)]}
    write_part(prepared, prepared / "part", ("en", "de"), cuts)
    assert written(prepared / "part") == {
        "en": ["<d>", "a b", "c", "<d>", "d e f", "<d>", "g"],
        "de": ["<d>", "A B C", "D", "<d>", "E F", "<d>", "G H"],
    }
    assert sampled(SIDECAR, 1) == sampled(SIDECAR, 1), "the draw can be repeated"
    draws = [sampled(Sidecar("train", "en", "de", 100, [(i, 0, 1) for i in range(100)]), n) for n in (10, 50)]
    assert [len(draw) for draw in draws] == [10, 50] and list(draws[1]) != list(range(50))
    with pytest.raises(UserError, match="4 training instances were asked for, but the corpus has 3"):
        sampled(SIDECAR, 4)
