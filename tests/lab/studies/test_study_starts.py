"""Rows of studies whose start is trained on other data, as those of what two steps of training are good for."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.lab.cli.study import build_parser
from gtransformer.lab.studies.data import sampled_documents
from gtransformer.lab.studies.plan import Data, load_study
from gtransformer.lab.studies.runner import Runner, make_study
from gtransformer.lab.studies.table import summary, table
from tests.support import ROOT

pytestmark = pytest.mark.slow

ROWS = """
description: a table
miniature:
  seeds: [1]
  systems: {first: {name: First, recipe: arena/start}, second: {name: Second, recipe: arena/document_transformer}}
  length: 512
  panels:
    - title: Table
      kind: table
      columns: system
      rows:
        - {system: first, label: all}
        - {system: second, label: few after all, instances: 5, start-instances: all}
        - {system: second, label: few, instances: 5, training: {task.context-sentences: 1}}
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes the table and returns its path."""
    (tmp_path / "common.yaml").write_text("description: settings\nminiature: {seeds: [1]}\n")

    def writer(rows: str = ROWS) -> str:
        (tmp_path / "mine.yaml").write_text(rows)
        return str(tmp_path / "mine.yaml")

    return writer


def test_two_steps_share_their_first(write):
    """Step 1 on all is a row of its own and trained once; the other second step has its first on its own data."""
    study = load_study(write(), miniature=True)
    whole, after, few = (line.runs[0] for line in study.panels[0].lines)
    assert after.needed == whole and whole.needed is None and after.data.instances == 5
    assert few.needed.data.instances == 5 and few.needed.recipe == "arena/start"
    assert study.runs() == [whole, after, few.needed, few]
    assert after.label == "arena-document_transformer-len512-5-after-len512-seed1"
    assert few.label == "arena-document_transformer-1-len512-5-seed1"


def test_context_is_changed_in_training_and_decoding_but_not_in_the_start(write):
    *_, line = load_study(write(), miniature=True).panels[0].lines
    (run,) = line.runs
    assert run.settings().options("task", "generate")["context-sentences"] == 1
    assert run.needed.settings().sections["task"]["context-sentences"] == 0


def test_a_start_on_the_same_data_is_the_same_run(write):
    same = ROWS.replace("instances: 5, start-instances: all", "start-instances: all")
    (_, line, _) = load_study(write(same), miniature=True).panels[0].lines
    assert line.runs[0].start_data is None and line.runs[0].label == "arena-document_transformer-len512-seed1"


def test_a_share_of_the_documents(write):
    """Drawn whole, the smaller share part of the larger; the start has all. Data without a share are called as ever."""
    rows = ROWS.replace("label: few after all, instances: 5", "label: few after all, share: 0.1")
    _, after, _ = (line.runs[0] for line in load_study(write(rows), miniature=True).panels[0].lines)
    assert after.data == Data(512, share=0.1) and after.needed.data == Data(512)
    assert after.label == "arena-document_transformer-len512-share0.1-after-len512-seed1"
    assert Data(512, 5).settings == {"length": 512, "instances": 5, "min_document_tokens": None}
    sidecar = Sidecar("train", "en", "de", 20, [(document, first, 2) for document in range(20) for first in (0, 2)])
    shares = [sampled_documents(sidecar, share) for share in (0.01, 0.1, 0.5)]
    assert [len(one) for one in shares] == [1, 2, 10] and set(shares[0]) < set(shares[1]) < set(shares[2])
    assert all(cut == [(0, None)] for cut in shares[2].values())


def test_a_start_larger_than_the_corpus_is_left_out(write):
    study = load_study(write(ROWS.replace("start-instances: all", "start-instances: 30")), miniature=True)
    assert study.limit(lambda data: 20) == ["Table: 30 instances left out, the corpus has 20"]
    assert [line.label for line in study.panels[0].lines] == ["all", "few"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: all}", "label: all, start-instances: 5}", "row 'all': recipe 'arena/start' starts from no other's"),
        ("instances: 5, start-instances: all", "share: 1.5, start-instances: all", "share is 1.5; give a share of the"),
        ("start-instances: all", "start-instances: 0", "start-instances is 0; give a whole number of at least 1, or"),
        ("{task.context-sentences: 1}", "{generate.beam: 1}", "'train.OPTION: value' or 'task.OPTION: value'"),
    ],
)  # fmt: skip
def test_damaged_rows(write, old, new, message):
    assert ROWS.count(old) == 1
    with pytest.raises(UserError) as error:
        load_study(write(ROWS.replace(old, new)), miniature=True)
    assert message in str(error.value) and "mine.yaml" in str(error.value)


@pytest.mark.parametrize("name", ["warm", *(f"document_table{number}" for number in (1, 2, 7, 8, 9))])
def test_studies_can_be_made(name):
    """One corpus serves all of their recipes, and fairseq takes their options."""
    for options in ([], ["--miniature"]):
        args = build_parser().parse_args([name, "demo", "out", *options])
        assert make_study(args).is_table


@pytest.mark.parametrize("miniature", [False, True])
def test_trainings_of_the_table_of_two_steps(miniature):
    """Five a seed: both kinds of step 1, documents alone, and step 2 from each of the former.

    In the miniature, two more: one step with as many updates as two.
    """
    study = load_study("document_table7", miniature)
    assert len(study.runs()) == (7 * 3 if miniature else 5)
    lines = {line.label: line.runs[0] for line in study.panels[0].lines}
    longer = [lines.pop(label) for label in list(lines) if label.endswith("updates")]
    few, whole, alone, twice, after = lines.values()
    if miniature:
        assert [replace(run, training=()) for run in longer] == [whole, alone]
        both = [run.settings().sections["train"]["max-update"] for run in (whole, after)]
        assert [run.settings().sections["train"]["max-update"] for run in longer] == [sum(both)] * 2
    assert (twice.needed, after.needed, alone.needed) == (few, whole, None)
    assert few.data == alone.data == twice.data == after.data and whole.data.instances is None
    options = [run.settings().sections["train"] for run in (alone, twice, after)]
    assert ["freeze-sentence-parameters" in one for one in options] == [False, True, True]
    assert len({one.get("max-tokens") for one in options}) == len({one.get("update-freq") for one in options}) == 1


@pytest.mark.parametrize("miniature", [False, True])
def test_trainings_of_the_study_of_few_documents(miniature):
    """The first row is what all others start from; each has a sentence model that was trained on at its rate."""
    study = load_study("warm", miniature)
    lines = {line.label: line.runs[0] for line in study.panels[0].lines}
    (start,) = {run.needed for run in lines.values() if not run.decoding} - {None}
    assert lines.pop("the start, sentence model") == start and start.data.share is None
    decoded = {label: lines.pop(label) for label in list(lines) if lines[label].decoding}
    assert len(study.runs()) == len(study.seeds) * (1 + len(lines) + len(decoded))
    assert 1 + len(lines) == (27 if miniature else 23) and len(decoded) == (0 if miniature else 3)
    text = (ROOT / "configs" / "studies" / "warm.yaml").read_text()
    assert f"{1 + len(lines)} in {'miniature' if miniature else 'full'}" in text
    for label, run in decoded.items():
        assert run.needed == lines[label.removesuffix(", sentence by sentence")]
        assert run.decoding == ("generate.strategy=sequential",)
    options = {label: run.settings().sections["train"] for label, run in lines.items()}
    rates = {
        label: float(train["lr"]) * (train.get("lr-scale-pretrained", 0.2) if train.get("doc-double-lr") else 1)
        for label, train in options.items()
    }
    for share in ("1 %", "10 %", "100 %"):
        assert {run.data.share for label, run in lines.items() if label.startswith(f"{share},")} == {
            None if share == "100 %" else int(share[:-2]) / 100
        }
        for scale in ("0.2", "1"):
            rate = rates[f"{share}, sentence model, {scale}"]
            if miniature or (share, scale) != ("1 %", "1"):
                assert rates[f"{share}, all, {scale}"] == pytest.approx(rate)
            assert rate == pytest.approx(float(scale) * 1.5e-3)
    biases = {label: train["gate-bias"] for label, train in options.items() if "gate-bias" in train}
    assert len(biases) == (20 if miniature else 12)
    for label, bias in biases.items():
        said = re.search(r"gates from (\d)", label)
        neutral = "neutral" in label or not (miniature or said)
        assert bias == (int(said[1]) if said else 0 if neutral else 3)
        assert bool(options[label].get("neutral-gates")) == neutral
    assert set(biases.values()) == ({0, 2, 3, 5} if miniature else {0})
    masked = {label for label, train in options.items() if "doc-noise-mask" in train}
    assert masked == {"1 %, all, 0.2, word dropout" if miniature else "100 %, as in the paper, 0.2"}
    longer = {label for label, train in options.items() if train["max-update"] != (300 if miniature else 500)}
    assert longer == {label for label in options if "updates" in label} and len(longer) == (0 if miniature else 2)
    for label in longer:
        usual = options[label.removesuffix(", 2,000 updates")]
        changed = {name for name, value in options[label].items() if value != usual[name]}
        assert options[label]["max-update"] == options[label]["total-num-update"] == 2000
        assert changed == {"max-update", "total-num-update", "validate-interval-updates", "save-interval-updates"}
    assert start.settings().sections["train"]["max-update"] == (1500 if miniature else 6000)


def test_an_update_has_as_many_sentences_whatever_the_context():
    for miniature, option in ((False, "update-freq"), (True, "max-tokens")):
        runs = [line.runs[0].settings() for line in load_study("document_table1", miniature).panels[0].lines]
        sizes = [run.sections["train"][option] / (1 + run.sections["task"]["context-sentences"]) for run in runs]
        assert len(runs) == 3 and len(set(sizes)) == 1


def test_batches_grow_with_the_context_that_fills_them():
    """Of the miniature of Figure 5; and as many entries as values, or none."""
    for panel in load_study("docflat_figure5", True).panels:
        runs = [run.settings().sections for line in panel.lines for run in line.runs]
        sizes = [run["train"]["max-tokens"] / (1 + run["task"]["context-sentences"]) for run in runs]
        assert len(runs) == 9 and set(sizes) == {950}


def test_what_recipes_ask_for_is_scored():
    """Lower-cased BLEU beside the usual one, where the recipe has it among its metrics."""
    for name, lower in (("document_table9", ["bleu-lc"]), ("table3", [])):
        for miniature in (False, True):
            study = load_study(name, miniature)
            runner = Runner(study, None, jobs=1)
            assert all(runner.metrics(run.settings()) == ["bleu", *lower, "ter"] for run in study.runs())


def test_lower_cased_scores_in_the_table():
    def result(value: float) -> dict:
        keys = {"d_bleu": 1, "s_bleu": 2, "s_bleu_lc": 3, "ter": 4}
        scores = {key: {"score": value + more, "signature": f"of {key}"} for key, more in keys.items()}
        return {"scores": scores, "curves": {}}

    lines = [{"system": "a", "label": "row", "runs": ["x", "y"]}]
    panels = summary(
        [{"kind": "table", "title": "T", "axis": "name", "lines": lines}], {"x": result(1), "y": result(3)}
    )
    (line,) = json.loads(json.dumps(panels))[0]["lines"]
    assert line["s_bleu_lc"] | {"values": None} == {
        "values": None, "mean": 5.0, "std": pytest.approx(2**0.5), "standard_error": pytest.approx(1.0), "min": 4,
        "max": 6,
    }  # fmt: skip
    _, head, row, _, *foot = table({"panels": panels, "systems": {"a": "A"}}).splitlines()
    assert cells(head) == ["name", "d-BLEU", "s-BLEU", "s-BLEU lower-cased", "TER"]
    assert cells(row)[3] == "5.00 (4.00 to 6.00)"
    assert foot[1:] == ["BLEU: of d_bleu", "TER: of ter", "s-BLEU lower-cased: of s_bleu_lc"]


def test_how_long_the_best_model_took_and_what_words_cost_it_in_the_table():
    """Means over seeds of the update with the lowest validation loss; none where a seed has no curve."""
    curves = [[(10, 1.0), (20, 1.0), (30, 3.0)], [(10, 1.0), (20, 1.5)]]  # of equals fairseq keeps the last
    runs = {
        f"r{seed}": {
            "scores": {},
            "curves": {"valid_loss": curve, "valid_word_nll_loss": [(n, v * 2) for n, v in curve]},
        }
        for seed, curve in enumerate(curves)
    }
    runs["r0"]["curves"]["valid_word_nll_loss"][::2] = [(10, 0.5), (30, 1.0)]  # lower, but of other models
    runs["bare"] = {"scores": {}, "curves": {}}
    rows = [("both", ["r0", "r1"]), ("bare", ["bare"])]
    lines = [{"system": "a", "label": label, "runs": names, "x": None} for label, names in rows]
    panels = summary([{"kind": "table", "title": "T", "axis": "row", "lines": lines}], runs)
    assert panels[0]["lines"][0]["best_update"]["values"] == [20, 10] and "best_update" not in panels[0]["lines"][1]
    _, head, row, bare, *_ = table({"panels": panels, "systems": {"a": "A"}}).splitlines()
    assert cells(head) == ["row", "d-BLEU", "s-BLEU", "perplexity of words", "updates"]
    assert cells(row)[-2:] == ["4.000 (4.000 to 4.000)", "15 (10 to 20)"] and cells(bare)[-2:] == ["-", "-"]


def cells(line: str) -> list[str]:
    """The cells of an aligned row."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]
