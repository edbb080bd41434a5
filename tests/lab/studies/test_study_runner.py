"""Which runs a study does and which it keeps, what they are ordered to do, and what one run does."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.cli import contrastive, score
from gtransformer.errors import UserError
from gtransformer.lab.pipeline import Pipeline
from gtransformer.lab.studies import one_run
from gtransformer.lab.studies import runner as study_runner
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import add_scores, ordered_run, result_of, score_contrastive, score_test
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner, make_figure
from gtransformer.run.run import Run
from tests.lab.studies.conftest import FIGURE, QuickRunner, prepared

ORDER = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "prepared"}


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
    before = runner.corpora.directory / "figure.json"
    before.parent.mkdir(parents=True, exist_ok=True)
    before.write_text("{}")
    with pytest.raises(UserError, match=str(runner.folder(runs[0]) / "study.log")):
        make_figure(runner, [], allow_missing=False)
    assert not before.exists(), "it would be taken for this one's result"
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


def test_only_finished_runs_are_shown(runner, monkeypatch):
    runs = runner.study.runs()
    monkeypatch.setattr(Corpora, "begin", lambda self: None)
    runner.corpora.corpus = "theirs"
    before = runner.corpora.directory / "figure.json"
    before.parent.mkdir(parents=True, exist_ok=True)
    before.write_text("{}")
    with pytest.raises(UserError, match="no run in .* is finished"):
        make_figure(runner, [], only_finished=True)
    assert before.exists(), "nothing has begun"
    runner.run(runs[:3])
    make_figure(runner, [], only_finished=True)
    found = json.loads((runner.corpora.directory / "figure.json").read_text())
    assert len(runner.calls) == len(found["runs"]) == 3 and set(found["missing"].values()) == {"not run"}


def test_finished_runs_of_another_machine_are_taken(table, tmp_path, monkeypatch):
    monkeypatch.setattr(Corpora, "begin", lambda self: None)
    monkeypatch.setattr(Runner, "reference", lambda self: tmp_path / "reference.txt")
    monkeypatch.setattr(study_runner, "draw_study", lambda *_: None)
    (tmp_path / "reference.txt").write_text("<d>\nr\n")

    def runner_in(name: str) -> QuickRunner:
        return QuickRunner(table, prepared(table, tmp_path / name), jobs=2)

    there, runs = runner_in("there"), table.runs()
    with there.corpora.pipeline:
        there.run([run for run in runs if run.seed != 3])
        make_figure(there, [], only_finished=True)
    path = tmp_path / "there" / "figure.json"
    here = runner_in("here")
    with here.corpora.pipeline:
        make_figure(here, [], earlier=[path])
        assert here.take(path) == 0, "they are here"
    found, theirs = (json.loads((tmp_path / name / "figure.json").read_text()) for name in ("here", "there"))
    again = [name for name in here.calls if name in theirs["runs"]]
    assert not found["missing"] and theirs["missing"].keys() == set(here.calls) - set(again)
    start = next(run for run in runs if run.needed is None)
    assert again == [here.folder(start).name], "its model is needed"
    assert all(found["runs"][name] == one for name, one in theirs["runs"].items() if name not in again)
    with tarfile.open(tmp_path / "here" / "figure.tar.xz") as packed:
        for run in filter(lambda run: run.translate, runs):
            assert here.folder(run).name in packed.extractfile(f"{here.folder(run).name}.txt").read().decode()


def test_results_that_cannot_be_taken(runner, tmp_path):
    path, name = tmp_path / "other.json", runner.folder(runner.study.runs()[0]).name
    wrong = {"{}": "not a study's result", '{"panels": [], "runs": {"x": {}}}': "none of its runs"}
    wrong[json.dumps({"panels": [], "runs": {name: {"run": {}}}})] = "other.tar.xz: must hold the translations"
    for text, message in wrong.items():
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            runner.take(path)
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz"):
        pass
    with pytest.raises(UserError, match=f"{name}.txt"):
        runner.take(path)
    assert not runner.has_result(runner.study.runs()[0])


def test_checkpoints_left_behind_are_removed_unless_they_are_to_be_kept(runner):
    """Ended between the result and its last act, a run leaves them; with --keep-checkpoints they are meant to stay."""
    runs = runner.study.runs()
    runner.run(runs[:1])
    runner.keep_checkpoints = True
    runner.run(runs[1:2])
    runner.keep_checkpoints = False
    runner.run(runs[:2])
    assert [(runner.folder(run) / "checkpoints").exists() for run in runs[:2]] == [False, True]


def test_models_are_there_before_they_are_used_and_stay(table_runner):
    """A model that is gone is trained again only for who wants it."""
    runner, runs = table_runner, table_runner.study.runs()
    assert runner.run(runs) == {} and len(runner.calls) == len(runs)
    plain, beam, *_ = (line.runs[0] for line in runner.study.panels[0].lines)
    models = [runner.folder(run) / "checkpoints" / "checkpoint_best.pt" for run in (plain.needed, plain)]
    assert all(path.is_file() for path in models), "others may want them"
    for path in models:
        path.unlink()
    assert all(map(runner.is_done, runs)), "nothing is missing"
    (runner.folder(beam) / "result.json").unlink()
    assert not any(map(runner.is_done, (plain.needed, plain, beam)))
    runner.corpora.pipeline.__exit__()
    runner.corpora.pipeline = Pipeline(runner.corpora.directory, "study")
    with runner.corpora.pipeline:
        runner.run(runs)
    assert runner.calls[len(runs) :] == [runner.folder(run).name for run in (plain.needed, plain, beam)]


# Orders


def test_orders_say_all_that_a_run_needs(table, tmp_path: Path):
    """Every run is asked about the items; the first seed of the panel's system is looked at."""
    runner = Runner(table, prepared(table, tmp_path), jobs=1)
    (looked,) = table.looked_at()
    for run in table.runs():
        order = runner.order(run)
        assert order["name"] == runner.folder(run).name and order["translate"] == run.translate
        assert order["contrastive"] == {"prepared": "../../set", "items": [str(runner.corpora.items[0])]}
        assert order["attention"] == (run == looked)
        assert order["keep_checkpoints"] == bool(runner.users(run)) and order["metrics"] == ["bleu"]
        names = [path.name for path in runner.outputs(run)]
        assert names[:2] == ["result.json", "contrastive.json"] and ("batch_attention.json" in names) == (run == looked)
    plain, beam, *_ = (line.runs[0] for line in table.panels[0].lines)
    orders = [runner.order(run) for run in (plain.needed, plain, beam)]
    start, trained = (f"../{runner.folder(run).name}" for run in (plain.needed, plain))
    assert [(one["model_of"], one["pretrained"]) for one in orders] == [(None, None), (None, start), (trained, start)]
    assert orders[2]["changes"] == ["generate.beam=7", "train.seed=2"] and orders[2]["recipe"] == plain.recipe


def test_what_recipes_ask_for_is_scored():
    """Tables have TER."""
    study = load_study("table3", miniature=True)
    assert all(Runner(study, None, 1).metrics(run) == ["bleu", "ter"] for run in study.runs())


def test_sizes_of_batches_share_a_model_and_are_those_of_the_items(tmp_path: Path):
    """16 is the recipe's own; all others translate with its model, behind the start's translations."""
    study = load_study("docflat_figure6", miniature=True)
    runner = Runner(study, prepared(study, tmp_path), jobs=1)
    runs = {line.x: line.runs[0] for line in study.panels[0].lines if line.system == "c"}
    assert [run.needed == runs[16] for run in runs.values()] == [True, True, False, True] and not runs[16].decoding
    assert {run.first for run in runs.values()} == {runs[16].needed}
    assert [runner.items(run, tmp_path).get("batch_sentences") for run in runs.values()] == [1, 4, None, 64]


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


def test_a_run_is_told_whose_model_and_which_data_it_uses(tmp_path):
    own = ordered_run(tmp_path / "a", ORDER)
    assert own.checkpoint == tmp_path / "a" / "checkpoints" / "checkpoint_best.pt" and own.pretrained is None
    other = ordered_run(tmp_path / "a", ORDER | {"model_of": "../b", "pretrained": None})
    assert other.checkpoint == tmp_path / "b" / "checkpoints" / "checkpoint_best.pt"
    fine = ordered_run(tmp_path / "a", ORDER | {"model_of": None, "pretrained": "../b"})
    assert fine.pretrained == other.checkpoint and fine.checkpoint == own.checkpoint
    loaded = ordered_run(tmp_path, ORDER | {"loading": ["task.instances=greedy", "task.instance-tokens=64"]})
    assert loaded.recipe.sections["task"]["instance-tokens"] == 64 and "instances" not in own.recipe.sections["task"]


@pytest.mark.parametrize("translate", [True, False])
def test_a_run(tmp_path: Path, monkeypatch, translate: bool):
    """Its training, the items; where it translates, that and its scores, too."""
    did = []
    monkeypatch.setattr(Run, "execute", lambda self, stage: did.append(stage))
    monkeypatch.setattr(one_run, "score_test", lambda *_: did.append("score"))
    monkeypatch.setattr(one_run, "score_contrastive", lambda run, **asked: did.append(asked))
    order = ORDER | {"contrastive": {"items": ["x"]}, "translate": translate}
    (tmp_path / "run.json").write_text(json.dumps(order))
    leave(tmp_path, {"raw": {"d_bleu": {"score": 3.0}}})
    one_run.do_run(tmp_path, [])
    found = json.loads((tmp_path / "result.json").read_text())
    assert did == ["train", *(["generate", "score"] if translate else []), {"items": ["x"]}]
    assert found["scores"] == ({"d_bleu": {"score": 3.0}} if translate else {})
    assert found["seconds"] == {"train": 3, "generate": 1 if translate else None}


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


def test_a_study_that_needs_more_scores_has_them_taken_again(tmp_path, monkeypatch):
    """Of the translations of a run that another study finished; its model is not needed."""
    asked = []

    def score(directory, prepared, recipe, metrics):
        asked.append(metrics)
        leave(tmp_path, {"raw": {"d_bleu": {"score": 3.0}, "ter": {"score": 4.0}}})

    leave(tmp_path, {"raw": {"d_bleu": {"score": 3.0}}})
    order = ORDER | {"metrics": ["bleu"]}
    (tmp_path / "test.jsonl").touch()
    (tmp_path / "result.json").write_text(json.dumps(result_of(ordered_run(tmp_path, order), order, [])))
    monkeypatch.setattr(one_run, "score_test", score)
    for wanted in (["bleu"], ["bleu", "ter"], ["bleu"], ["ter", "bleu"]):
        add_scores(tmp_path, wanted)
    found = json.loads((tmp_path / "result.json").read_text())
    assert asked == [["bleu", "ter"]] and found["scores"]["ter"]["score"] == 4.0 and found["seconds"]["train"] == 3


def test_what_commands_are_given(tmp_path: Path, monkeypatch):
    """A recipe chooses the reference but not what a study needs."""
    given = []
    for module in (score, contrastive):
        monkeypatch.setattr(module, "main", lambda arguments: given.append(arguments))
    changes = ["score.reference=release", "score.metrics=chrf", "score.output=elsewhere.json"]
    run = ordered_run(tmp_path / "runs" / "a", ORDER | {"changes": changes})
    score_test(run.directory, run.prepared, run.recipe, ["bleu"])
    score_contrastive(run, "../../set", ["x.json", "y.json"], batch_sentences=4, documents="d", context=0)
    scoring, asking = (" ".join(one) for one in given)
    assert "--reference release" in scoring and "--metrics bleu" in scoring and f"--output {run.directory}" in scoring
    assert asking.startswith(str(tmp_path / "set")) and "--items x.json y.json" in asking
    assert "--batch-sentences 4" in asking and "--documents d --context 0" in asking
