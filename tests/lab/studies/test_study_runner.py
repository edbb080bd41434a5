"""Which runs a study does and which it keeps, what they are ordered to do, and what one run does."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.pipeline import Pipeline
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ordered_run, result_of
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner, make_figure
from tests.lab.studies.conftest import FIGURE, prepared

ORDER = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "prepared", "contrastive": None}


def test_what_is_missing_is_run_and_what_is_done_is_kept(runner, capsys):
    runs = runner.study.runs()
    runner.run(runs[:3])
    assert len(runner.calls) == 3
    runner.run(runs)
    assert sorted(runner.calls) == sorted(runner.folder(run).name for run in runs)
    output = capsys.readouterr().out
    assert "8 runs, 3 done before" in output and "d-BLEU 1.00" in output and "; 0 to go" in output


def test_a_failure_does_not_end_the_others_and_the_same_command_goes_on(runner, monkeypatch):
    runs = runner.study.runs()
    name, fail = runner.folder(runs[0]).name, runner.corpora.directory / "fail"
    fail.write_text(name)
    monkeypatch.setattr(Corpora, "begin", lambda self: None)
    runner.corpora.corpus = "theirs"  # whose reference is not passed on
    with pytest.raises(UserError, match=str(runner.folder(runs[0]) / "study.log")):
        make_figure(runner, [], allow_missing=False)
    assert [runner.is_done(run) for run in runs] == [False] + [True] * 7
    make_figure(runner, [], allow_missing=True)
    found = json.loads((runner.corpora.directory / "figure.json").read_text())
    assert list(found["missing"]) == [name] and name not in found["runs"] and len(found["runs"]) == 7
    assert (runner.corpora.directory / "figure.png").is_file()
    with tarfile.open(runner.corpora.directory / "figure.tar.xz") as packed:
        assert set(packed.getnames()) == {f"{one}.txt" for one in found["runs"]}
    fail.unlink()
    assert runner.run(runs) == {} and all(map(runner.is_done, runs))
    assert runner.calls.count(name) == 3 and len(runner.calls) == 3 + 7, "only the one that failed was run again"


def test_no_figure_where_all_runs_fail(runner, monkeypatch):
    names = " ".join(runner.folder(run).name for run in runner.study.runs())
    (runner.corpora.directory / "fail").write_text(names)
    monkeypatch.setattr(Corpora, "begin", lambda self: None)
    with pytest.raises(UserError, match="8 of 8"):
        make_figure(runner, [], allow_missing=True)


def test_checkpoints_left_behind_are_removed_unless_they_are_to_be_kept(runner):
    """Ended between the result and its last act, a run leaves them; with --keep-checkpoints they are meant to stay."""
    runs = runner.study.runs()
    runner.run(runs[:1])
    runner.keep_checkpoints = True
    runner.run(runs[1:2])
    runner.keep_checkpoints = False
    runner.run(runs[:2])
    assert [(runner.folder(run) / "checkpoints").exists() for run in runs[:2]] == [False, True]


# Orders


def test_data_that_a_run_reads(runner, monkeypatch):
    """A recipe that groups by itself has a corpus of its own."""
    monkeypatch.setattr(Corpora, "read", lambda self, data: (self.directory / "shared", [f"x={data.length}"]))
    run = runner.study.runs()[0]
    assert runner.data(run) == (runner.corpora.directory / "shared", ["x=64"])
    run = replace(run, changes=("task.instances=sliding", "task.context-sentences=1"))
    assert runner.data(run) == (runner.corpora.directory / "prepared", [])


def test_all_instances_stand_where_their_number_is(runner, write):
    figure = FIGURE.replace("axis: length, values: [64, 512]", "axis: instances, length: 64, values: [10, all]")
    runner.study = load_study(write(figure), miniature=True)
    runner.run(runner.study.runs())
    assert [line["x"] for line in runner.collect({})["panels"][0]["lines"]] == [10, 77, 10, 77]


# One run


def test_models_are_there_before_they_are_used_and_stay(table_runner):
    """A model that is gone is trained again only for who wants it."""
    runner, runs = table_runner, table_runner.study.runs()
    assert runner.run(runs) == {} and len(runner.calls) == len(runs)
    plain = runner.study.panels[0].lines[0].runs[0]
    model = runner.folder(plain.needed) / "checkpoints" / "checkpoint_best.pt"
    assert model.is_file(), "others may want it"
    model.unlink()
    assert all(map(runner.is_done, runs)), "nothing is missing"
    (runner.folder(plain) / "result.json").unlink()
    assert not any(map(runner.is_done, (plain.needed, plain)))
    runner.corpora.pipeline = Pipeline(runner.corpora.directory, "study")
    runner.run(runs)
    assert runner.calls[len(runs) :] == [runner.folder(run).name for run in (plain.needed, plain)]


def test_orders_say_all_that_a_run_needs(table, tmp_path: Path):
    """Every run is asked about the items."""
    runner = Runner(table, prepared(table, tmp_path), jobs=1)
    for run in table.runs():
        order = runner.order(run)
        assert order["name"] == runner.folder(run).name
        assert order["contrastive"] == {"prepared": "../../set", "items": str(runner.corpora.items)}
        assert order["keep_checkpoints"] == bool(runner.users(run)) and order["metrics"] == ["bleu"]
        assert [path.name for path in runner.outputs(run)][:2] == ["result.json", "contrastive.json"]
    plain = table.panels[0].lines[0].runs[0]
    assert runner.order(plain)["pretrained"] == f"../{runner.folder(plain.needed).name}"
    fine = ordered_run(tmp_path / "a", ORDER | {"pretrained": "../b"})
    assert fine.recipe.train["finetune-from-model"] == tmp_path / "b" / "checkpoints" / "checkpoint_best.pt"
    assert fine.checkpoint == tmp_path / "a" / "checkpoints" / "checkpoint_best.pt"


def leave(folder: Path, scores: dict) -> None:
    """What the stages of a run leave."""
    (folder / "test.scores.json").write_text(json.dumps({"scores": scores, "counts": {"misaligned_instances": 0}}))
    (folder / "train.log").write_text('{"ppl": "4", "loss": "2", "num_updates": "10", "wall": "3"}\n')
    (folder / "generate.test.json").write_text('{"seconds": 1}')


@pytest.mark.parametrize("references", [["raw"], ["release"], ["raw", "release"]])
def test_the_reference_that_was_scored_against(tmp_path, references):
    leave(tmp_path, {name: {"d_bleu": {"score": len(name)}} for name in references})
    result = result_of(ordered_run(tmp_path, ORDER), ORDER, [])
    assert result["reference"] == references[0] and result["scores"]["d_bleu"]["score"] == len(references[0])
