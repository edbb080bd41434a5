"""The tables of Wu et al. (2023) on the results page: as printed, recipes and studies of their rows, miniatures."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from gtransformer.lab.report.page import make_page
from gtransformer.lab.report.paper import PAPER, Table, read_paper
from gtransformer.lab.studies.plan import load_study
from gtransformer.run.recipe import recipes_of_rows
from tests.lab.report import report_logs
from tests.lab.report.report_logs import ROOT, scores, write_comparison

DOCFLAT = PAPER.with_name("docflat.yaml")
PRINTED = ROOT.parent / "shared" / "papers" / "docflat.md"
STUDIES = ("2", "3", "4", "5", "6", "7")
SIZES = ("train.max-tokens=", "task.context-sentences=")  # of miniatures, whose systems have recipes of other sizes
section, row = (partial(one, "Wu et al.") for one in (report_logs.section, report_logs.row))


def tables() -> dict[str, Table]:
    return {table.name.removeprefix("Table "): table for table in read_paper(DOCFLAT).tables}


@pytest.mark.skipif(not PRINTED.is_file(), reason="the paper is not at hand (../shared)")
def test_figures_are_those_of_the_paper():
    """Each row's figures stand side by side in the text of the table, as often as they do here."""
    text = re.sub(r"</?b>|</?su[bp]>", "", PRINTED.read_text(encoding="utf-8")).replace("—", "-")
    parts = re.split(r"^Table (\d):", text, flags=re.MULTILINE)
    above = dict(zip(parts[1::2], parts[::2], strict=False))  # a table stands above its caption
    checked = 0
    for number, table in tables().items():
        lines = ["\t".join(row.paper) for row in table.rows]
        found = above[number[0]].replace(" ", "")
        if number == "2, UPS":
            names = [row.method.replace("_", "") for row in table.rows]
            ends = {line.split("\t")[0]: line.split("\t")[-1] for line in found.splitlines()}
            assert [ends[name] for name in names] == lines
            continue
        for line in lines:
            assert found.count(line) >= lines.count(line) > 0, (number, line)
            checked += 1
    assert checked == 12 + 7 + 3 + 8 + 5 + 4


def test_recipes_claim_rows_by_their_names():
    rows = {
        (f"docflat {number}", row.method): row.recipe
        for number, table in tables().items()
        for row in table.rows
        if row.recipe and not row.changes
    }
    assert {place: name for place, name in recipes_of_rows().items() if place[0].startswith("docflat ")} == rows


@pytest.mark.parametrize("number", STUDIES)
def test_studies_are_the_rows_of_the_page(number: str):
    """All rows that can be run, in the paper's order, by the models whose scores would stand beside its figures."""
    rows = [row for row in tables()[number].rows if row.recipe]
    for miniature in (False, True):
        (panel,) = load_study(f"docflat_table{number}", miniature).panels
        assert [line.label for line in panel.lines] == [row.method for row in rows]
        for line, row in zip(panel.lines, rows, strict=True):
            assert row.miniature == line.label
            equal = SIZES if miniature else ()
            assert [one.replace("=", " ") for one in line.runs[0].training if not one.startswith(equal)] == [
                change.replace("=", " ") for change in row.changes
            ]
            assert miniature or line.runs[0].recipe == row.recipe
    assert {column.file for column in tables()[number].miniature.columns} == {f"studies/docflat_table{number}.json"}


def test_scores_on_the_paper_s_corpora_stand_beside_its_figures(logs: Path):
    """Of the recipe as it is; with a side switched off in the row that says so."""
    write_comparison(logs, "news", {"docflat/c": {"news_test": scores(26.5, 30.0)}})
    assert row(make_page(logs), "Table 2", "DOCFLAT_C")[5:7] == ["25.96†", "26.50 (5 min of training)"]
    shutil.rmtree(logs / "new")
    changes = ("train.batch-attention-in=encoder",)
    write_comparison(logs, "ted", {"docflat/c": {"ted_test": scores(25.5, 30.0)}}, changes=changes)
    page = make_page(logs)
    assert row(page, "Table 3", "DOCFLAT_C, -, ∅")[1:3] == ["25.58", "25.50 (5 min of training)"]
    assert row(page, "Table 3", "DOCFLAT_C, -, -")[1:3] == ["25.31", ""]


def test_miniatures_stand_beside_the_paper_s_figures(logs: Path):
    assert any("`studies/docflat_table2.json` (not run yet)" in line for line in section(make_page(logs), "Table 2"))
    for name in ("studies", "benchmark"):
        (logs / name).mkdir()
        (logs / name / "about.yaml").write_text("about: miniatures\n")
    score, accuracy = {"mean": 51.25, "standard_error": 0.5}, {"mean": 60.0, "standard_error": None}
    lines = [{"label": "MBE", "s_bleu": score, "accuracy": accuracy, "by": {"pronoun": score}}]
    for number in ("2", "6"):
        (logs / "studies" / f"docflat_table{number}.json").write_text(json.dumps({"panels": [{"lines": lines}]}))
    rows = [{"name": "docflat 3 local float32", "method": "train_step", "steps_per_second": 0.123}]
    (logs / "benchmark" / "docflat.json").write_text(json.dumps({"rows": rows}))
    page = make_page(logs)
    assert row(page, "Table 2", "MBE")[-2:] == ["51.25 ± 0.50", "60.00"]
    assert row(page, "Table 2", "ABD")[-2:] == ["", ""]
    assert row(page, "Table 6", "MBE")[-4:] == ["60.00", "51.25 ± 0.50", "", ""]
    assert row(page, "Table 2, UPS", "DOCFLAT_C")[1:] == ["0.84", "0.12"]
