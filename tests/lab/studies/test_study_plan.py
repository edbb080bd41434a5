"""Studies: the files of configs/studies/, the runs they make, what runs are called and what they need."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.report.paper import PAPER, read_paper
from gtransformer.lab.studies.plan import load_study, study_names
from gtransformer.lab.studies.study import Data, StudyRun
from gtransformer.run.recipe_check import check_recipe
from tests.lab.studies.conftest import COMMON, FIGURE, TABLE

CURVES = {
    *(f"{split}_{kind}" for split in ("train", "valid") for kind in ("loss", "nll_loss")),
    *(f"valid_entropy_{part}_{reach}" for part in ("encoder", "decoder", "cross") for reach in ("group", "global")),
}


# The package's studies


@pytest.mark.slow
def test_every_study_can_be_made():
    """One corpus serves all of a study's recipes, and fairseq takes the options of every training, once."""
    checked = {}
    for name in study_names():
        for miniature in (False, True):
            study = load_study(name, miniature)
            assert study.panels and all(panel.lines for panel in study.panels)
            assert all(line.curve in CURVES for panel in study.panels if panel.kind == "curves" for line in panel.lines)
            assert len({json.dumps(run.settings().preparing(), sort_keys=True) for run in study.runs()}) == 1
            for run in study.runs():
                assert run.settings().sections["train"]["seed"] == run.seed
                if not run.decoding:
                    checked.setdefault(json.dumps([run.recipe, run.model, run.training]), run.settings())
    for settings in checked.values():
        check_recipe(settings, ["train"])
    assert len(checked) > 80


@pytest.mark.parametrize("miniature", [False, True])
def test_figures_share_their_runs(miniature):
    """Figures 3 to 5 and 8 need no run that Figure 7 does not have, but for longer ones; names are the same, too."""
    whole = {run.name("c") for run in load_study("figure7", miniature).runs()}
    for number in (3, 4, 5, 8):
        assert {run.name("c") for run in load_study(f"figure{number}", miniature).runs() if not run.training} <= whole


def test_tables_are_the_paper_s_rows_in_its_order():
    """But for the one that did not converge there; the full ones are those whose scores stand beside the paper's."""
    papers = {table.name: table.rows for table in read_paper(PAPER.with_name("window_attention.yaml")).tables}
    for name, wanted in (("table3", papers["Table 3"]), ("table4", papers["Table 4"])):
        rows = [row for row in wanted if row.paper[0] != "N/A"]
        for miniature in (False, True):
            (panel,) = load_study(name, miniature).panels
            assert [line.label for line in panel.lines] == [row.method for row in rows]
            for line, row in zip(panel.lines if not miniature else (), rows, strict=False):
                (run,) = line.runs
                assert run.recipe == row.recipe and sorted((*run.training, *run.decoding)) == sorted(row.changes)


@pytest.mark.parametrize("miniature", [False, True])
def test_a_training_serves_all_searches(miniature):
    starts = 1 if miniature else 0  # the sentence model that all start from
    three, four = (load_study(name, miniature).runs() for name in ("table3", "table4"))
    for runs, rows, trainings in ((three, 9, 5), (four, 11, 7)):
        assert len(runs) == rows + starts
        assert sum(not run.decoding for run in runs) == trainings + starts
        assert all(run.needed is None or runs.index(run.needed) < runs.index(run) for run in runs)
    shared = {run.name("c") for run in three} & {run.name("c") for run in four}
    assert len(shared) == 2 + starts, "documents, and windows of 20 with relative positions"


def test_an_update_has_as_many_sentences_whatever_the_context():
    for name, miniature, option in (
        ("document_table1", False, "update-freq"),
        ("document_table1", True, "max-tokens"),
        ("docflat_figure5", True, "max-tokens"),
    ):
        runs = [run.settings().sections for line in load_study(name, miniature).panels[0].lines for run in line.runs]
        assert len({run["train"][option] / (1 + run["task"]["context-sentences"]) for run in runs}) == 1


def test_models_that_read_what_is_to_be_predicted_do_not_translate():
    """Attention between datapoints in the decoder; what they start from translates."""
    for miniature in (False, True):
        for line in load_study("docflat_table7", miniature).panels[0].lines:
            sides = line.runs[0].settings().sections["train"].get("batch-attention-in", "none")
            assert line.runs[0].translate == (sides in ("none", "encoder")) and line.runs[0].needed.translate


# What files make


def test_grid(write):
    study = load_study(write(), miniature=True, changes=["train.lr=2e-3"])
    runs = study.runs()
    assert [(run.recipe, run.data.length, run.seed) for run in runs] == [
        (recipe, length, seed) for seed in (3, 1) for recipe in ("demo_full", "demo") for length in (64, 512)
    ]
    train = runs[0].settings().sections["train"]
    assert (train["max-update"], train["seed"], train["lr"]) == (5, 3, "2e-3")
    assert "patience" not in train and runs[0].settings().sections["generate"]["quiet"] is False
    assert study.panels[1].lines[0].runs == study.panels[0].lines[2].runs, "the curves are those of the scored runs"


def test_rows(table):
    """One start for all; searches share a model; a changed training is not its start's, nor other data."""
    plain, beam, after, before, mute = (line.runs[0] for line in table.panels[0].lines)
    assert {run.needed for run in (plain, after, before, mute)} == {plain.needed}
    assert (plain.needed.recipe, plain.needed.seed, plain.seed, plain.needed.needed) == ("arena/start", 1, 2, None)
    assert beam.needed == plain and beam.first == plain.first == plain.needed
    assert before.settings().options("task", "generate")["context-sentences"] == 1
    assert before.needed.settings().sections["task"]["context-sentences"] == 0
    assert after.data.instances == 5 and after.needed.data.instances is None
    assert after.label == "arena-pseudo_documents-len512-5-after-len512-seed2"
    assert not mute.translate and mute.needed.translate and mute.name("c") != replace(mute, translate=True).name("c")
    one, three = (line.runs[0] for line in table.panels[3].lines)
    assert (one, three) == (before, table.panels[1].lines[1].runs[0]), "the recipe's own value is the recipe as it is"
    assert [run.seed for run in table.looked_at()] == [2] and not table.is_table
    assert table.runs()[0] == plain.needed and len(table.runs()) == 1 + 2 * 6


def test_a_start_on_the_same_data_is_the_same_run(write):
    same = TABLE.replace("instances: 5, start-instances: all", "start-instances: all")
    plain, _, line, *_ = load_study(write(same), miniature=True).panels[0].lines
    assert line.runs == plain.runs


def test_what_the_recipe_does_anyway_is_no_other_translation(write):
    lines = load_study(write(), miniature=True).panels[0].lines
    beam = lines[0].runs[0].settings().sections["generate"]["beam"]
    rows = "[{system: plain, label: a}, {system: plain, label: b, decoding: {generate.beam: %s}}]"
    panel = "    - {title: t, kind: table, columns: c, rows: %s}\n"
    for number, same in ((beam, True), (beam + 1, False)):
        study = load_study(write(FIGURE + panel % rows % number), miniature=True)
        first, second = study.panels[2].lines
        assert (first.runs == second.runs) == same


def test_names_say_what_a_run_is_and_change_with_its_settings():
    run = StudyRun("demo", ("train.max-update=5",), Data(64, 100, 768), 2)
    assert run.name("corpus").startswith("demo-len64-from768-100-seed2-")
    assert Data(512, 5).settings == {"length": 512, "instances": 5, "min_document_tokens": None}
    others = [
        replace(run, changes=("train.max-update=6",)),
        replace(run, data=Data(64, 101, 768)),
        replace(run, seed=3),
        replace(run, recipe="demo_full"),
        replace(run, model="gtransformer_compact"),
        replace(run, changes=("train.max-update=5", "devices=4")),
    ]
    assert len({run.name("corpus"), run.name("another"), *(other.name("corpus") for other in others)}) == 8


def test_points_larger_than_the_corpus_are_left_out(write):
    """A start, too."""
    figure = FIGURE.replace("axis: length, values: [64, 512]", "axis: instances, values: [10, 20, all]")
    study = load_study(write(figure), miniature=True)
    assert len(study.limit(lambda data: 15)) == 1
    assert [line.x for line in study.panels[0].lines] == [10, "all"] * 2
    assert {run.data.instances for run in study.runs()} == {10, None}
    study = load_study(write(TABLE.replace("start-instances: all", "start-instances: 30")), miniature=True)
    assert len(study.limit(lambda data: 20)) == 1
    assert "few after all" not in [line.label for line in study.panels[0].lines]


# Mistakes


DAMAGES = {
    "figure.yaml": (
        FIGURE,
        [
            ("kind: scores", "kind: score", "score"),
            ("axis: length", "axis: size", "size"),
            ("title: b", "titel: b", "titel"),
            ("title: b", "title: b\n      by: distance", "'by'"),
            ("system: ours", "system: theirs", "'theirs'"),
            ("miniature:", "full:", "'miniature'"),
            ("curve: valid_loss, ", "", "entry 1 of lines"),
            (", values: [64, 512]", "", "values"),
            ("values: [64, 512]", "values: [64, x]", "'x'"),
            ("  panels:\n", "  panels:\n    - x\n", "panel 1"),
            ("  panels:\n", "  panels: 3\n  seeds:\n", "panels"),
        ],
    ),
    "table": (
        TABLE,
        [
            ("generate.beam: 7", "train.lr: 5", "train.lr"),
            ("task.context-sentences: 1}", "train.seed: 2}", "train.seed"),
            ("system: plain, label: plain}\n", "system: start, label: plain, start-instances: 5}\n", "arena/start"),
            ("start-instances: all", "start-instances: 0", "start-instances"),
            ("translate: false", "translate: false, decoding: {generate.batch-sentences: 2}", "translate"),
            ("baseline: plain", "baseline: none", "baseline"),
            ("side: encoder", "side: top", "side"),
            ("axis: task.context-sentences", "axis: score.metrics", "axis"),
            ("quantity: accuracy", "quantity: comet", "quantity"),
        ],
    ),
    "common.yaml": (
        COMMON,
        [
            ("[3, 1]", "[1, 1]", "seeds"),
            ("{name: Ours, recipe: demo}", "demo", "system ours"),
            ("length: 512", "corpus: {documents: 3}", "length"),
            ("{train.max-update: 5", "{train.seed: 5", "train.seed"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("file", "old", "new", "word"), [(file, *damage) for file, (_, damages) in DAMAGES.items() for damage in damages]
)
def test_damaged_files(write, file, old, new, word):
    """What cannot be is said in one line, with the file."""
    text = DAMAGES[file][0]
    assert old in text
    text = text.replace(old, new)
    path = write(common=text) if file == "common.yaml" else write(text)
    with pytest.raises(UserError, match="common.yaml" if file == "common.yaml" else "figure.yaml") as error:
        load_study(path, miniature=True).runs()
    assert word in str(error.value) and "\n" not in str(error.value)


def test_unknown_studies(write, tmp_path):
    for name in ("figure9", "common"):
        with pytest.raises(UserError, match=name):
            load_study(name)
    path = write()
    (tmp_path / "common.yaml").unlink()
    with pytest.raises(UserError, match="common.yaml"):
        load_study(path, miniature=True)
