"""The tables of Zhang et al. (2018) on the results page: as printed, lower-cased scores, miniatures."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from gtransformer.lab.report.page import make_page
from gtransformer.lab.report.paper import PAPER, Table, read_paper
from gtransformer.lab.studies.plan import load_study
from gtransformer.run.recipe import recipes_of_rows
from tests.lab.report import report_logs
from tests.lab.report.report_logs import ROOT, arena_of, scores, write_comparison

DOCUMENT = PAPER.with_name("document_transformer.yaml")
PRINTED = ROOT.parent / "shared" / "papers" / "document-transformer.txt"
FIGURE = re.compile(r"\d\d\.\d\d|\d\dK|\d{3}|-")
FRENCH = ("task.source-lang=fr", "task.target-lang=en", "task.langs=fr,en")
STUDIES = ("1", "2", "7", "8", "9")
section, row = (partial(one, "Zhang et al.") for one in (report_logs.section, report_logs.row))


def tables() -> dict[str, Table]:
    return {table.name.removeprefix("Table "): table for table in read_paper(DOCUMENT).tables}


def printed_rows(number: str, columns: int) -> list[tuple[str, list[str]]]:
    """Of a table, which stands above its caption: names of the rows and their figures, ``columns`` of them."""
    parts = re.split(r"^Table (\d+):", PRINTED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    captions = parts[1::2]
    cells = [line.split() for line in parts[2 * captions.index(number)].splitlines()]
    return [
        (" ".join(line[:-columns]), line[-columns:])
        for line in cells
        if len(line) > columns and all(map(FIGURE.fullmatch, line[-columns:]))
    ]


@pytest.mark.skipif(not PRINTED.is_file(), reason="the paper is not at hand (../shared)")
def test_figures_are_those_of_the_paper():
    found = {}
    for number, table in tables().items():
        rows = [(" ".join(row.method.rsplit(", ", 1)), row.paper) for row in table.rows if set(row.paper) != {"-"}]
        if number == "1":  # printed as columns
            assert [("MT06", [figure for _, (figure,) in rows])] == printed_rows(number, 3)
        else:
            assert rows == printed_rows(number, len(table.columns)), number
        found[number] = len(rows)
    assert found == {"1": 3, "2": 6, "3": 5, "4": 2, "6": 2, "7": 5, "8": 4, "9": 2}


def test_recipes_claim_rows_by_their_names():
    rows = {
        (f"document-transformer {number}", row.method): row.recipe
        for number, table in tables().items()
        for row in table.rows
        if row.recipe and not row.changes
    }
    claimed = {place: name for place, name in recipes_of_rows().items() if place[0].startswith("document-transformer ")}
    assert claimed == rows


@pytest.mark.parametrize("number", STUDIES)
def test_studies_are_the_rows_of_the_page(number: str):
    """All rows in the paper's order, by the models whose scores would stand beside its figures; miniatures of them."""
    rows = tables()[number].rows
    paper = [row for row in rows if "not in the paper" not in row.method]
    (full,), (small,) = (load_study(f"document_table{number}", miniature).panels for miniature in (False, True))
    assert [line.label for line in full.lines] == [row.method for row in paper]
    assert [line.label for line in small.lines] == [row.miniature for row in rows]
    for line, row in zip(full.lines, paper, strict=True):
        assert row.recipe in (line.runs[0].recipe, None)
        assert sorted(line.runs[0].training) == sorted(row.changes)
    title = tables()[number].miniature.columns[0].file
    assert title == f"studies/document_table{number}.json"


def test_lower_cased_scores_stand_beside_the_paper_s(logs: Path):
    """And cased ones, which the paper has not, do not."""
    values = scores(30.0, 35.0)
    write_comparison(logs, "iwslt_fr_en", {"document/base": {"iwslt_fr_en_test": values}}, changes=FRENCH)
    assert row(make_page(logs), "Table 4", "this work")[1:4] == ["30.40", "36.04", ""]
    values["raw"]["s_bleu_lc"] = {"score": 31.5, "signature": "case:lc"}
    path = logs / "new" / "comparison.json"
    content = json.loads(path.read_text())
    content["recipes"]["document/base"]["scores"]["iwslt_fr_en_test"] = values
    path.write_text(json.dumps(content))
    page = make_page(logs)
    assert row(page, "Table 4", "this work")[1:4] == ["30.40", "36.04", "31.50 (5 min of training)"]
    assert "BLEU: `case:lc`." in section(page, "Table 4")


def test_miniatures_stand_beside_the_paper_s_figures(logs: Path):
    assert any("`studies/document_table7.json` (not run yet)" in line for line in section(make_page(logs), "Table 7"))
    (logs / "studies").mkdir()
    (logs / "studies" / "about.yaml").write_text("about: miniatures\n")
    score = {"mean": 51.25, "standard_error": 0.5}
    lines = [{"label": "all, few", "s_bleu": score, "d_bleu": {"mean": 60.0, "standard_error": None}}]
    lines.append({"label": "all, -, 1200 updates", "s_bleu_lc": score})
    (logs / "studies" / "document_table7.json").write_text(json.dumps({"panels": [{"lines": lines}]}))
    (logs / "benchmark").mkdir()
    (logs / "benchmark" / "about.yaml").write_text("about: speed\n")
    kinds = {"train_step": 10.25, "decode": 4.5}
    rows = [
        {"name": "document_transformer 2 beside float32", "method": method, "cpu_seconds": seconds}
        for method, seconds in kinds.items()
    ]
    (logs / "benchmark" / "document_transformer.json").write_text(json.dumps({"rows": rows}))
    accuracy = {"by_distance_source": {"2": {"mean": {"accuracy": 61.25, "standard_error": 1.5}}}}
    (logs / "arena").mkdir()
    (logs / "arena" / "about.yaml").write_text("about: an arena\n")
    arena = arena_of({"document_transformer": {"scores": {"s_bleu": score}, "accuracy": accuracy}})
    (logs / "arena" / "arena.json").write_text(json.dumps(arena))
    page = make_page(logs)
    assert row(page, "Table 4", "this work")[4:] == ["51.25 ± 0.50", "", "", "61.2 ± 1.5", "", ""]
    assert row(page, "Table 7", "2M, 940K")[-4:] == ["47.93", "51.25 ± 0.50", "60.00", ""]
    assert row(page, "Table 7", "940K, 940K")[-4:] == ["40.22", "", "", ""]
    longer = "2M, - (as many updates as two steps, not in the paper)"
    assert row(page, "Table 7", longer) == [*[""] * 10, "51.25 ± 0.50"]
    assert row(page, "Table 6", "this work")[1:] == ["31K", "364", "10.25", "4.50"]
    assert row(page, "Table 6", "Transformer")[1:] == ["41K", "872", "", ""]
