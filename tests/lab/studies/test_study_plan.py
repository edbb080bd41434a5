"""Studies: the files of configs/studies/, the runs they make, what runs are called and what they need."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.studies.plan import load_study, study_names
from gtransformer.lab.studies.study import Data, StudyRun
from tests.core.run.locations import parse_training
from tests.lab.studies.conftest import FIGURE, TABLE

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
                checked.setdefault(json.dumps([run.recipe, run.model, run.training]), run.settings())
    for settings in checked.values():
        parse_training(settings)
    assert len(checked) > 40


@pytest.mark.parametrize("miniature", [False, True])
def test_figures_share_their_runs(miniature):
    """Figures 3, 4 and 8 need no run that Figure 7 does not have, but for longer ones; names are the same, too."""
    whole = {run.name("c") for run in load_study("figure7", miniature).runs()}
    for number in (3, 4, 8):
        assert {run.name("c") for run in load_study(f"figure{number}", miniature).runs() if not run.training} <= whole


# What files make


def test_grid(write):
    study = load_study(write(), miniature=True, changes=["train.lr=2e-3"])
    runs = study.runs()
    assert [(run.recipe, run.data.length, run.seed) for run in runs] == [
        (recipe, length, seed) for seed in (3, 1) for recipe in ("demo_full", "demo") for length in (64, 512)
    ]
    train = runs[0].settings().sections["train"]
    assert (train["max-update"], train["seed"], train["lr"]) == (5, 3, 2e-3)
    assert "patience" not in train and runs[0].settings().sections["generate"]["quiet"] is False
    assert study.panels[1].lines[0].runs == study.panels[0].lines[2].runs, "the curves are those of the scored runs"


def test_rows(table):
    """One start for all; a changed training is not its start's, nor other data."""
    plain, after, before = (line.runs[0] for line in table.panels[0].lines)
    assert {run.needed for run in (plain, before)} == {plain.needed}
    assert (plain.needed.recipe, plain.needed.seed, plain.seed, plain.needed.needed) == ("arena/start", 1, 2, None)
    assert before.settings().options("task", "generate")["context-sentences"] == 1
    assert before.needed.settings().sections["task"]["context-sentences"] == 0
    assert after.data.instances == 5 and after.needed.data.instances is None
    assert after.label == "arena-pseudo_documents-len512-5-after-len512-seed2"
    assert table.runs()[0] == plain.needed and not table.is_table


def test_a_start_on_the_same_data_is_the_same_run(write):
    same = TABLE.replace("instances: 5, start-instances: all", "start-instances: all")
    plain, line, *_ = load_study(write(same), miniature=True).panels[0].lines
    assert line.runs == plain.runs


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


DAMAGES = [
    (FIGURE, "axis: length", "axis: size", "size"),
    (FIGURE, "title: b", "titel: b", "titel"),
    (FIGURE, "system: ours", "system: theirs", "'theirs'"),
    (FIGURE, "  panels:\n", "  panels: 3\n  seeds:\n", "list"),
    (TABLE, "task.context-sentences: 1}", "train.seed: 2}", "train.seed"),
    (TABLE, "system: plain, label: plain}\n", "system: start, label: plain, start-instances: 5}\n", "arena/start"),
]


@pytest.mark.parametrize(("text", "old", "new", "word"), DAMAGES, ids=[word for *_, word in DAMAGES])
def test_damaged_files(write, text, old, new, word):
    """What cannot be is said in one line."""
    assert old in text
    with pytest.raises((UserError, TypeError)) as error:
        load_study(write(text.replace(old, new)), miniature=True).runs()
    assert word in str(error.value) and "\n" not in str(error.value)


def test_unknown_studies():
    for name in ("figure9", "common"):
        with pytest.raises(UserError, match=name):
            load_study(name)
