"""Studies with contrastive items and attention across batches, as those of Document Flattening are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.cli import contrastive
from gtransformer.errors import UserError
from gtransformer.lab.analysis.study_figures import draw_study
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ask, ordered_run
from gtransformer.lab.studies.plan import load_study, study_names
from gtransformer.lab.studies.runner import Runner
from gtransformer.lab.studies.table import summary, table
from gtransformer.run.pipeline import Pipeline
from gtransformer.run.recipe import load_recipe
from gtransformer.run.recipe_check import check_recipe

pytestmark = pytest.mark.slow

NAMES = [name for name in study_names() if name.startswith("docflat_")]
PANELS = """
    - {title: by kind, kind: accuracy, columns: system, by: distance, baseline: plain, rows: [
        {system: plain, label: plain}, {system: flat, label: flat}]}
    - {title: look, kind: attention, system: flat, side: encoder}
    - {title: size, kind: scores, quantity: accuracy, systems: [flat], axis: task.context-sentences, values: [1, 3]}
"""
FILE = """
description: choices
miniature:
  seeds: [2, 3]
  start-seed: 1
  entropy: false
  corpus: {documents: 2, items: 3}
  systems: {plain: {name: Plain, recipe: arena/pseudo_documents}, flat: {name: Flat, recipe: arena/docflat}}
  length: 512
  panels:
"""


@pytest.fixture
def write(tmp_path: Path):
    """A function that writes a study and returns its path."""
    (tmp_path / "common.yaml").write_text("description: settings\nminiature: {seeds: [1]}\n")

    def writer(panels: str = PANELS) -> str:
        (tmp_path / "choices.yaml").write_text(FILE + panels)
        return str(tmp_path / "choices.yaml")

    return writer


def test_the_paper_s_studies_are_there():
    assert {f"docflat_table{number}" for number in range(2, 8)} <= set(NAMES)
    assert {f"docflat_figure{number}" for number in (4, 5, 6, 8)} <= set(NAMES)


def test_fairseq_takes_what_their_rows_train_with():
    """Every training of all of them, once."""
    runs = {
        run for name in NAMES for size in (False, True) for run in load_study(name, size).runs() if not run.decoding
    }
    checked = {}
    for run in runs:
        settings = run.settings()
        checked.setdefault(json.dumps([run.recipe, run.training]), settings)
    for settings in checked.values():
        check_recipe(settings, ["train"])
    assert len(checked) > 30


def test_one_sentence_model_for_all_seeds():
    study = load_study("docflat_table2", miniature=True)
    starts = {run.needed for line in study.panels[0].lines for run in line.runs}
    assert [(start.recipe, start.seed) for start in starts] == [("arena/start", 1)]
    assert len(study.runs()) == 1 + 7 * 3 and study.runs()[0] in starts and study.corpus["items"]
    full = load_study("docflat_table2")
    assert all(run.needed.seed == run.seed for line in full.panels[0].lines[1:] for run in line.runs)


def test_in_the_miniature_of_table_2_all_have_as_much_context():
    """FLATTRANS, too, whose recipe has less; batches of two rows are other ones, those of the start are not."""
    lines = load_study("docflat_table2", miniature=True).panels[0].lines
    runs = {line.system: line.runs[0] for line in lines}
    assert {name: run.settings().sections["task"]["context-sentences"] for name, run in runs.items()} == {
        name: 3 * (name != "sentences") for name in runs
    }
    sizes = {name: run.settings().sections["train"]["max-tokens"] for name, run in runs.items()}
    assert len(set(sizes.values())) == 3 and {sizes[name] for name in runs.keys() - {"sentences", "flat"}} == {3800}
    assert {run.needed.settings().sections["train"]["max-tokens"] for run in runs.values()} == {1500}


def test_rows_of_several_tables_are_the_same_runs():
    """The recipe as it is, wherever it stands; a size of the local context that is the recipe's own."""
    four, five = (load_study(name).panels[0].lines for name in ("docflat_table4", "docflat_figure5"))
    (flat,) = four[0].runs
    assert [line.runs[0] == flat for line in five if line.system == "c"] == [False, False, True, False, False]
    sizes = [line.runs[0].settings().sections["task"]["context-sentences"] for line in five if line.system == "d"]
    assert sizes == [line.x for line in five if line.system == "d"] == [1, 2, 3, 4, 5]
    assert all(line.runs[0].needed.settings().max_sentences == 1 for line in five)


def test_the_corpus_with_items_is_the_one_that_shows_reach(tmp_path: Path):
    recipe = load_recipe("arena/start")
    corpora = Corpora(Pipeline(tmp_path, "study"), "demo", {"documents": 2, "items": 3}, recipe)
    (items,) = corpora.items
    assert items == corpora.generated / "set" / "contrastive_reach.json"
    assert corpora.pipeline.stages[corpora.generated.name].work.args[0] == "reach_corpus"
    assert not Corpora(Pipeline(tmp_path, "study"), "demo", {"documents": 2}, recipe).items
    given = Corpora(Pipeline(tmp_path, "study"), str(tmp_path), {"items": 3}, recipe, [tmp_path / "a.json"])
    assert given.items == [tmp_path / "a.json"]


class Prepared(Corpora):
    """Nothing is made: all of it is said to be somewhere."""

    raw, fingerprint = Path("raw"), "f"

    def prepared(self, data):
        return self.directory / "prepared"

    def asked(self):
        return self.directory / "set"


def test_runs_are_asked_and_looked_at(write, tmp_path: Path):
    """Every run about the items; the first seed of the panel's system at a document."""
    study = load_study(write(), miniature=True)
    corpora = Prepared(Pipeline(tmp_path, "study"), "demo", study.corpus, load_recipe("arena/start"))
    runner = Runner(study, corpora, jobs=1)
    (looked,) = study.looked_at()
    assert looked.seed == 2 and looked.recipe == "arena/docflat"
    for run in study.runs():
        folder = runner.folder(run)
        folder.mkdir(parents=True)
        runner.order(run)
        order = json.loads((folder / "run.json").read_text())
        assert order["contrastive"] == {"prepared": "../../set", "items": [str(corpora.items[0])]}
        assert order["attention"] == (run == looked)
        names = [path.name for path in runner.outputs(run)]
        assert names[:2] == ["result.json", "contrastive.json"] and ("batch_attention.json" in names) == (run == looked)


def test_the_items_are_the_command_s(tmp_path: Path, monkeypatch):
    given = []
    monkeypatch.setattr(contrastive, "main", lambda arguments: given.extend(arguments))
    order = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "p"}
    run = ordered_run(tmp_path / "runs" / "a", order)
    ask(run, "../../set", ["x.json", "y.json"], 4, documents="d", context=0)
    assert given[0] == str(tmp_path / "set") and given[given.index("--items") + 1 :][:2] == ["x.json", "y.json"]
    assert given[given.index("--batch-sentences") + 1] == "4"
    assert given[given.index("--documents") + 1] == "d" and given[given.index("--context") + 1] == "0"
    assert given[given.index("--output") + 1] == str(tmp_path / "runs" / "a" / "contrastive.json")


def test_sizes_of_batches_share_a_model_and_are_those_of_the_items(tmp_path: Path):
    """16 is the recipe's own; all others translate with its model, behind the start's translations."""
    study = load_study("docflat_figure6", miniature=True)
    runner = Runner(
        study, Prepared(Pipeline(tmp_path, "study"), "demo", study.corpus, load_recipe("arena/start")), jobs=1
    )
    runs = {line.x: line.runs[0] for line in study.panels[0].lines if line.system == "c"}
    assert [run.needed == runs[16] for run in runs.values()] == [True, True, False, True] and not runs[16].decoding
    assert {run.first for run in runs.values()} == {runs[16].needed}
    sizes = [runner.items(run, tmp_path).get("batch_sentences") for run in runs.values()]
    assert sizes == [1, 4, None, 64] and len(study.runs()) == 1 + 2 * 4


def result(accuracy: float, near: float) -> dict:
    """Of a run: scores, choices, a map of three sentences."""
    groups = {"1": {"accuracy": near}, "2-3": {"accuracy": accuracy}}
    scores = {key: {"score": 50.0, "signature": "s"} for key in ("d_bleu", "s_bleu")}
    maps = [{"part": "encoder_batch", "mean": [[0.2, 0.3, 0.5]] * 3}]
    choices = {"total": {"accuracy": accuracy}, "by_distance": groups}
    return {"scores": scores, "curves": {}, "contrastive": choices, "batch_attention": {"maps": maps}}


def shown_panels(study, results: dict) -> dict:
    """A study's result over made-up results, two seeds of each system."""
    panels = []
    for panel in study.panels:
        lines = []
        for line in panel.lines:
            names = [f"{line.system}{number}" for number in range(len(line.runs))]
            lines.append({"system": line.system, "label": line.label, "x": line.x, "runs": names})
        own = {key: getattr(panel, key) for key in ("kind", "title", "axis", "quantity", "by", "baseline")}
        panels.append(own | {"lines": lines})
    found = json.loads(json.dumps(summary(panels, results)))
    return {
        "panels": found, "runs": results, "systems": study.systems, "description": "D", "miniature": True,
        "corpus": "demo",
    }  # fmt: skip


def test_accuracies_their_differences_and_pictures(write, tmp_path: Path):
    """Means over seeds of differences seed by seed; a table, a picture of each panel."""
    results = {
        "plain0": result(50, 60), "plain1": result(54, 70), "flat0": result(60, 64), "flat1": result(70, 66),
    }  # fmt: skip
    shown = shown_panels(load_study(write(), miniature=True), results)
    plain, flat = shown["panels"][0]["lines"]
    assert flat["accuracy"]["mean"] == 65 and flat["by"]["1"]["values"] == [64, 66]
    assert flat["difference"]["1"]["values"] == [4, -4] and flat["difference"]["2-3"]["mean"] == 13
    assert plain["difference"]["1"]["mean"] == 0
    assert shown["panels"][2]["lines"][0]["accuracy"]["values"] == [60, 70]
    text = table(shown)
    assert "system  all items" in text and "65.00 (64.00 to 66.00)" in text and "look" not in text
    assert "accuracy" in text.split("size\n")[1].splitlines()[0]
    draw_study(shown, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_runs_without_choices_leave_cells_empty(write):
    results = {name: result(50, 60) for name in ("plain0", "plain1", "flat0", "flat1")}
    del results["flat1"]["contrastive"]
    shown = shown_panels(load_study(write(), miniature=True), results)
    plain, flat = shown["panels"][0]["lines"]
    assert flat["accuracy"] is flat["by"] is flat["difference"] is None and plain["by"]["1"]["mean"] == 60
    assert table(shown).splitlines()[3].split()[:2] == ["flat", "-"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline: plain", "baseline: none", "baseline is 'none'; give the label of a row"),
        ("side: encoder", "side: top", "side is 'top'; give one of encoder, decoder"),
        ("axis: task.context-sentences", "axis: score.metrics", "give one of length, instances, model, or an option"),
        ("quantity: accuracy", "quantity: comet", "give one of d_bleu, s_bleu, accuracy"),
    ],
)
def test_damaged_panels(write, old: str, new: str, message: str):
    assert PANELS.count(old) == 1
    with pytest.raises(UserError) as error:
        load_study(write(PANELS.replace(old, new)), miniature=True)
    assert message in str(error.value) and "choices.yaml" in str(error.value)
