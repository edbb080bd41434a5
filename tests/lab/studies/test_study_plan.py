"""Studies: the files of configs/studies/, the grid of runs they make, and what runs are called."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.studies.plan import Data, StudyRun, load_study, study_names

pytestmark = pytest.mark.slow

FIGURES = ["figure2", "figure3", "figure4", "figure5", "figure7", "figure8"]
CURVES = {
    *(f"{split}_{kind}" for split in ("train", "valid") for kind in ("loss", "nll_loss")),
    *(f"valid_entropy_{part}_{reach}" for part in ("encoder", "decoder", "cross") for reach in ("group", "global")),
}
COMMON = """
description: settings
miniature:
  seeds: [3, 1]
  systems: {plain: {name: Plain, recipe: demo_full}, ours: {name: Ours, recipe: demo}}
  length: 512
  changes: {train.max-update: 5, train.patience: null, generate.quiet: false}
"""
FIGURE = """
description: a figure
miniature:
  panels:
    - {title: a, kind: scores, systems: [plain, ours], axis: length, values: [64, 512]}
    - title: b
      kind: curves
      quantity: loss
      lines: [{system: ours, length: 64, curve: valid_loss, label: validation}]
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes a study and its common.yaml, and returns its path."""

    def writer(figure: str = FIGURE, common: str = COMMON) -> str:
        (tmp_path / "common.yaml").write_text(common)
        (tmp_path / "figure.yaml").write_text(figure)
        return str(tmp_path / "figure.yaml")

    return writer


DOCFLAT = [name for name in study_names() if name.startswith("docflat_")]  # test_docflat_studies says which there are
DRAWN = [*FIGURES, *(name for name in DOCFLAT if "figure" in name), "docflat_table6"]  # accuracies are drawn, too
THREE = ["document_table7", "docflat_table2", "docflat_table6", "docflat_figure4"]  # seeds, as miniatures


def test_the_papers_figures_are_there():
    assert study_names() == [
        *DOCFLAT,
        *(f"document_table{number}" for number in (1, 2, 7, 8, 9)),
        *FIGURES,
        "scratch",
        "table3",
        "table4",
        "warm",
        "warm_longer",
    ]


@pytest.mark.parametrize("miniature", [False, True])
@pytest.mark.parametrize("name", study_names())
def test_every_study_can_be_made(name, miniature):
    study = load_study(name, miniature)
    several = 3 if miniature and name in THREE else 1
    assert len(study.seeds) == (several if name not in FIGURES else 2 if miniature else 5)
    assert study.is_table == (name not in DRAWN)
    assert study.panels and all(panel.lines for panel in study.panels)
    for run in study.runs():
        assert run.settings().sections["train"]["seed"] == run.seed
    for panel in study.panels:
        for line in panel.lines:
            assert len(line.runs) == len(study.seeds)
            assert panel.kind != "curves" or line.curve in CURVES


@pytest.mark.parametrize("miniature", [False, True])
def test_figures_share_their_runs(miniature):
    """Figures 2 to 5 and 8 need no run that Figure 7 does not have; names are the same, too."""
    runs = {name: {run.name("c") for run in load_study(name, miniature).runs()} for name in FIGURES}
    assert all(names <= runs["figure7"] for names in runs.values())
    assert len(runs["figure7"]) == len(load_study("figure7", miniature).runs())


def test_full_sizes_are_the_papers():
    """Section 3.1: lengths 64 to 1024 with training documents of 768 tokens or more; 1.25K to 160K instances of 512."""
    for name, systems in (("figure2", ["transformer"]), ("figure7", ["transformer", "gtransformer"])):
        length, scale, size = load_study(name).panels
        assert [(line.system, line.x) for line in length.lines] == [
            (system, tokens) for system in systems for tokens in (64, 128, 256, 512, 1024)
        ]
        assert {line.runs[0].data.min_document_tokens for line in length.lines} == {768}
        scales = [1250 * 2**n for n in range(8)]
        assert [(line.system, line.x) for line in scale.lines] == [(s, n) for s in systems for n in scales]
        assert {line.runs[0].data.length for line in scale.lines} == {512}
        assert [line.x for line in size.lines[:3]] == [f"gtransformer_{x}" for x in ("base", "big", "large")]
        assert [line.runs[0].model for line in size.lines[:3]] == [None, "gtransformer_big", "gtransformer_large"]
    study = load_study("figure7")
    modes = {system: study.recipes[system] for system in study.systems}
    assert modes == {"transformer": "doc_base", "gtransformer": "base"}
    assert [[line.runs[0].data.instances for line in p.lines] for p in load_study("figure3").panels] == [
        [20000, 20000], [40000, 40000]
    ]  # fmt: skip


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


def test_names_say_what_a_run_is_and_change_with_its_settings():
    run = StudyRun("demo", ("train.max-update=5",), Data(64, 100, 768), 2)
    name = run.name("corpus")
    assert name.startswith("demo-len64-from768-100-seed2-")
    others = [
        StudyRun("demo", ("train.max-update=6",), run.data, 2),
        StudyRun("demo", run.changes, Data(64, 101, 768), 2),
        StudyRun("demo", run.changes, run.data, 3),
        StudyRun("demo_full", run.changes, run.data, 2),
        StudyRun("demo", run.changes, run.data, 2, "gtransformer_compact"),
    ]
    names = {name, run.name("another"), *(other.name("corpus") for other in others)}
    assert len(names) == 7
    assert StudyRun("demo", run.changes, Data(64, 100, 768), 2).name("corpus") == name


def test_points_larger_than_the_corpus_are_left_out(write):
    figure = FIGURE.replace("axis: length, values: [64, 512]", "axis: instances, values: [10, 20, all]")
    study = load_study(write(figure), miniature=True)
    assert study.limit(lambda data: 15) == ["a: 20 instances left out, the corpus has 15"]
    assert [line.x for line in study.panels[0].lines] == [10, "all"] * 2
    assert {run.data.instances for run in study.runs()} == {10, None}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: scores", "kind: score", "panel 1: kind is 'score'; give one of scores, curves"),
        ("axis: length", "axis: size", "panel 1: axis is 'size'; give one of length, instances, model"),
        ("title: b", "titel: b", "panel 2: unknown key 'titel'"),
        ("system: ours", "system: theirs", "panel 2: unknown system 'theirs'; known are plain, ours"),
        ("curve: valid_loss", "curves: valid_loss", "unknown key 'curves'"),
        ("miniature:", "full:", "has no section 'miniature'"),
        ("description: a figure", "descripton: a figure", "unknown key 'descripton'"),
        ("description: a figure", "description: [", "not valid YAML"),
        ("curve: valid_loss, ", "", "panel 2, entry 1 of lines: lacks curve"),
        ("{system: ours, length", "{length", "panel 2, entry 1 of lines: lacks system"),
        ("label: validation}", "label: validation, flat: 3}", "panel 2, entry 1 of lines: flat is 3; give bool"),
        ("{title: a, ", "{", "panel 1: lacks title"),
        (", values: [64, 512]", "", "panel 1: lacks values"),
        ("values: [64, 512]", "values: 64", "panel 1: values is 64; give a list"),
        ("values: [64, 512]", "values: [64, x]", "panel 1, values: length is 'x'; give a whole number of at least 1"),
        ("values: [64, 512]", "values: [64, null]", "panel 1: values is [64, None]; give a list of what"),
        ("systems: [plain, ours]", "systems: plain", "panel 1: systems is 'plain'; give a list"),
        ("quantity: loss", "quantity:", "figure.yaml, line 6, miniature, panel 2: lacks quantity"),
        ("quantity: loss", "kind: curves", "figure.yaml, line 8: 'kind' stands twice"),
        ("lines: [", "lines: [3, ", "panel 2, entry 1 of lines: is 3; give lines of the form 'key: value'"),
        ("length: 64", "length: all", "panel 2, entry 1 of lines: length is 'all'; give a whole number of at least 1"),
        ("  panels:\n", "  panels:\n    - x\n", "panel 1: is 'x'"),
        ("  panels:\n", "  panels: 3\n  seeds:\n", "panels is 3; give a list of panels"),
    ],
)
def test_damaged_studies(write, old, new, message):
    assert old in FIGURE
    with pytest.raises(UserError) as error:
        load_study(write(FIGURE.replace(old, new)), miniature=True).runs()
    assert message in str(error.value) and "figure.yaml" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[3, 1]", "1", "seeds is 1; give a list of different whole numbers, such as [1, 2]"),
        ("[3, 1]", "[1, 1]", "seeds is [1, 1]; give a list of different whole numbers"),
        ("{name: Ours, recipe: demo}", "{recipe: demo}", "system ours: lacks name"),
        ("{name: Ours, recipe: demo}", "{name: Ours}", "system ours: lacks recipe"),
        ("{name: Ours, recipe: demo}", "demo", "system ours: is 'demo'; give lines of the form 'key: value'"),
        ("length: 512", "corpus: {documents: 3}", "lacks length"),
        ("length: 512", "length: 512\n  corpus: {documents: x}", "corpus is {'documents': 'x'}; give whole numbers of"),
        ("{train.max-update: 5", "{train.seed: 5", "changes: train.seed: a study trains with several seeds"),
        ("{train.max-update: 5, train.patience: null, generate.quiet: false}", "[a]", "changes is ['a']; give lines"),
    ],
)
def test_damaged_common_settings(write, old, new, message):
    assert old in COMMON
    with pytest.raises(UserError) as error:
        load_study(write(common=COMMON.replace(old, new)), miniature=True)
    assert message in str(error.value) and "common.yaml" in str(error.value) and "\n" not in str(error.value)


def test_other_errors(write, tmp_path):
    with pytest.raises(UserError, match="unknown study 'figure9': known are docflat_figure4, .*, figure2, "):
        load_study("figure9")
    with pytest.raises(UserError, match="unknown study 'common'"):
        load_study("common")
    path = write()
    (tmp_path / "common.yaml").unlink()
    with pytest.raises(UserError, match="common.yaml: no such file; a study needs it"):
        load_study(path, miniature=True)
