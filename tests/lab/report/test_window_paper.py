"""The tables of Herold and Ney (2023) on the results page: figures as printed, our scores, miniatures beside them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gtransformer.lab.report.page import make_page
from gtransformer.lab.report.paper import PAPER, read_paper
from gtransformer.run.recipe import language_changes, recipes_of_rows
from tests.lab.report.report_logs import ROOT, SIGNATURE, arena_of, refused, scores, write_comparison

WINDOW = PAPER.with_name("window_attention.yaml")
PRINTED = ROOT.parent / "shared" / "papers" / "window-attention.md"
FIGURE = re.compile(r"[†‡*]?\d[\d.]*(?: GB)?|N/A|-")


def printed_tables() -> dict[str, list[tuple[str, list[str]]]]:
    """By table, the names of its rows (cells in front, filled down) and their figures, which FIGURE all are."""
    wanted = {table.name: len(table.columns) for table in read_paper(WINDOW).tables}
    tables, lines = {}, []
    for line in PRINTED.read_text(encoding="utf-8").splitlines():
        if "\t" in line:
            lines.append([re.sub(r"</?\w+>\s*", "", cell).strip() for cell in line.rstrip().split("\t")])
        elif found := re.match(r"\s*(Table \d):", line):
            number = wanted.get(found[1])
            rows = [(cells[:-number], cells[-number:]) for cells in lines] if number else []
            tables[found[1]], above = [], []
            for heads, figures in rows:
                if all(map(FIGURE.fullmatch, figures)) and set(figures) != {"-"}:
                    above = [head or old for head, old in zip(heads, above or heads, strict=True)]
                    tables[found[1]].append((", ".join(above), figures))
            lines = []
    return tables


@pytest.mark.skipif(not PRINTED.is_file(), reason="the paper is not at hand (../shared)")
def test_figures_are_those_of_the_paper():
    printed = printed_tables()
    for table in read_paper(WINDOW).tables:
        rows = [(row.method, row.paper) for row in table.rows if set(row.paper) != {"-"}]
        if table.name == "Table 8":
            assert [figures for _, figures in rows] == [figures for _, figures in printed[table.name]]
        else:
            assert rows == printed[table.name], table.name
    assert {name: len(rows) for name, rows in printed.items() if rows} == {
        "Table 1": 3, "Table 2": 3, "Table 3": 9, "Table 4": 12, "Table 5": 6, "Table 6": 5, "Table 8": 1
    }  # fmt: skip


def test_recipes_claim_rows_by_their_names():
    """What a recipe calls its row is what the row is called."""
    rows = {
        (f"window-attention {table.name.removeprefix('Table ')}", row.method): row.recipe
        for table in read_paper(WINDOW).tables
        for row in table.rows
        if row.recipe and not row.changes
    }
    claimed = {place: recipe for place, recipe in recipes_of_rows().items() if place[0].startswith("window-attention ")}
    assert claimed == rows


def section(page: str, name: str) -> list[str]:
    """The lines of a table's section."""
    tables = page.split("## Tables of Herold and Ney (2023)")[1].split("\n## ")[0]
    return tables.split(f"### {name}: ")[1].split("\n### ")[0].splitlines()


def row(page: str, name: str, method: str) -> list[str]:
    """The cells of a row behind its name."""
    (line,) = [line for line in section(page, name) if line.startswith(f"| {method} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def with_ter(values: dict) -> dict:
    """Scores of a comparison with TER, as the paper has it."""
    values["raw"]["ter"] = {"score": 48.25, "signature": "tok:tercom"}
    return values


def test_scores_on_the_paper_s_corpora_stand_in_all_rows_of_their_recipe(logs: Path):
    write_comparison(logs, "newscommentary", {"window/base": {"newscommentary_test": with_ter(scores(30.0, 35.0))}})
    page = make_page(logs)
    budget = "(5 min of training)"
    assert row(page, "Table 3", "window-attn, 1000 tok., SD")[:3] == ["`window/base`", "33.1", f"30.00 {budget}"]
    assert row(page, "Table 3", "window-attn, 1000 tok., FSD")[:3] == [
        "`window/base` `generate.strategy=full`", "31.5", ""
    ]  # fmt: skip
    cells = ["`window/base`", "33.1", f"30.00 {budget}", "48.1", f"48.25 {budget}"]
    assert row(page, "Table 4", "window-attn, rel., sent-align, 20")[:5] == cells
    assert row(page, "Table 5", "window-attn, 1000 tok.")[:6] == [*cells, "34.6"]
    assert f"BLEU: `{SIGNATURE}`. TER: `tok:tercom`." in section(page, "Table 5"), "untouched text, and not marked"
    assert "newscommentary_test" not in page


def test_a_row_that_changes_its_recipe_takes_results_with_these_changes(logs: Path):
    changes = ("generate.strategy=full",)
    sets = {"newscommentary_test": with_ter(scores(30.0, 35.0))}
    write_comparison(logs, "newscommentary", {"window/base": sets}, changes=changes)
    page = make_page(logs)
    assert row(page, "Table 3", "window-attn, 1000 tok., FSD")[2].startswith("30.00")
    assert row(page, "Table 3", "window-attn, 1000 tok., SD")[2] == ""
    assert "newscommentary_test" not in page


@pytest.mark.parametrize(
    ("corpus", "changes", "place"),
    [
        ("opensubtitles", ("prepare.bpe-merges=32000", "train.dropout=0.1", "train.label-smoothing=0.1"), 9),
        ("ted_en_it", ("task.target-lang=it", "task.langs=en,it"), 5),
    ],
)
def test_a_corpus_with_settings_of_its_own(logs: Path, corpus, changes, place):
    """Those settings stand in its column, as docs/recipes.md has them; the recipe as it is does not."""
    sets = {f"{corpus}_test": with_ter(scores(30.0, 35.0))}
    write_comparison(logs, corpus, {"window/base": sets}, changes=changes[::-1])
    found = row(make_page(logs), "Table 5", "window-attn, 1000 tok.")
    assert [number for number, cell in enumerate(found) if cell.startswith("30.00")] == [place + 1]
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").replace("\n", " ")
    if corpus == "ted_en_it":
        assert "`--langs en,it`" in text and tuple(language_changes("window/base", "en,it")) == changes
    else:
        assert all(f"--set {change}" in text for change in changes)
    shutil.rmtree(logs / "new")
    write_comparison(logs, corpus, {"window/base": sets})
    assert not any(cell.startswith("30.00") for cell in row(make_page(logs), "Table 5", "window-attn, 1000 tok."))


def test_the_paper_s_recipes_on_other_data_stand_apart(logs: Path):
    write_comparison(logs, "techdocs", {"window/base": {"techdocs_test": scores(20.0, 22.0)}})
    lines = section(make_page(logs), "Table 3")
    apart = lines.index("Ours on other data or changed, *not comparable with the figures above*:")
    assert any("| `window/base` | techdocs |" in line for line in lines[apart:])
    assert not any("20.00" in line for line in lines[:apart])


def write(path: Path, content: object) -> None:
    """A result file, with its folder."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / "about.yaml").write_text("about: miniatures\n")
    path.write_text(json.dumps(content))


def miniature_of_table3(bleu: object = 51.25) -> dict:
    """As a study leaves it: two rows of the table."""
    return {
        "panels": [
            {
                "lines": [
                    {"label": "LST-attn, 1000 tok., FSD", "s_bleu": {"mean": bleu}, "d_bleu": {"mean": 52.5}},
                    {"label": "LST-attn, 1000 tok., SD", "s_bleu": None, "d_bleu": {"mean": 41}, "ter": {"mean": 60}},
                ]
            }
        ]
    }


def test_miniatures_stand_beside_the_paper_s_figures_and_say_what_they_are(logs: Path):
    missing = section(make_page(logs), "Table 3")
    assert all(line.endswith("|  |  |  |") for line in missing if line.startswith("| LST-attn"))
    assert any("`studies/table3.json` (not run yet)" in line for line in missing)
    write(logs / "studies" / "table3.json", miniature_of_table3())
    page = make_page(logs)
    header = section(page, "Table 3")[2]
    assert header.endswith("| NEWS BLEU, paper | ours | s-BLEU, *miniature* | d-BLEU, *miniature* | TER, *miniature* |")
    assert row(page, "Table 3", "LST-attn, 1000 tok., FSD") == ["`lst/base`", "30.0", "", "51.25", "52.50", ""]
    assert row(page, "Table 3", "LST-attn, 1000 tok., SD")[1:] == ["22.2", "", "", "41.00", "60.00"]
    assert row(page, "Table 3", "window-attn, 1000 tok., SD")[1:] == ["33.1", "", "", "", ""]
    (note,) = [line for line in section(page, "Table 3") if line.startswith("*miniature*")]
    assert "**not comparable with the paper's figures**" in note
    assert "Files: [studies/table3.json](studies/table3.json)." in note


def test_miniatures_of_the_arena_have_standard_errors(logs: Path):
    system = {
        "scores": {
            "s_bleu": {"mean": 60.123, "standard_error": 0.456},
            "d_bleu": {"mean": 61, "standard_error": None},
            "ter": {"mean": 30.5, "standard_error": 0.25},
        },
        "accuracy": {
            "by_phenomenon": {"pronoun": {"accuracy": 81.23, "standard_error": 1.06}},
            "by_distance_target": {"4-6": {"mean": {"accuracy": 70, "standard_error": 2}}},
        },
    }
    write(logs / "arena" / "arena.json", arena_of({"lst": system}))
    write(logs / "attention_share" / "lst.json", {"share": {"mean": 0.12345, "flat": 0.05}})
    page = make_page(logs)
    assert row(page, "Table 5", "LST-attn, 1000 tok.")[-3:] == ["60.12 ± 0.46", "61.00", "30.50 ± 0.25"]
    cells = row(page, "Table 6", "LST-attn, 1000 tok.")
    assert (cells[8], cells[14]) == ("81.2 ± 1.1", "70.0 ± 2.0") and cells.count("") == 8
    assert row(page, "Table 1", "LST-attn (not in the paper)")[-3:] == ["12.3", "5.0", "60.12 ± 0.46"]


def test_memory_by_length_is_in_gigabytes(logs: Path):
    lengths = [{"tokens": 736, "kept_bytes": 1_500_000_000}, {"tokens": 1472, "kept_bytes": 3_000_000_000}]
    systems = [
        {"system": "doc_transformer_dense", "window": None, "lengths": lengths},
        {"system": "window_transformer", "window": 20, "lengths": lengths[:1]},
    ]
    write(logs / "benchmark" / "memory_by_length.json", {"by_length": systems})
    page = make_page(logs)
    assert row(page, "Table 2", "736")[1:] == ["2.3 GB", "2.4 GB", "3.5 GB", "1.50", "", "", "1.50"]
    assert row(page, "Table 2", "1472")[4:] == ["3.00", "", "", ""]


@pytest.mark.parametrize("value", ["51.25", True, [1]])
def test_what_is_no_number_is_refused(logs: Path, capsys, value):
    write(logs / "studies" / "table3.json", miniature_of_table3(value))
    line = refused(logs, capsys)
    assert "table3.json: no number for 's-BLEU' of LST-attn, 1000 tok., FSD, but" in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("changes: [generate.strategy=full]", "changes: [strategy=full]", "1000 tok., FSD': --set strategy=full"),
        ("scale: 1.0e-9", "scale: small", "'scale' is 'small', but a number must stand there"),
        ("value: [share, mean]", "value: [share, 1.5]", "value ['share', 1.5] of column 'attention, %': a step is"),
        ("      file: benchmark/memory_by_length.json\n", "", "lacks the key 'file'"),
        ("        - title: concat-adj. (scores kept)", "        - x\n        - title: y", "it holds 'x', but lines"),
    ],
)  # fmt: skip
def test_damaged_miniatures(logs: Path, capsys, old: str, new: str, message: str):
    text = WINDOW.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = logs / "paper.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert message in refused(logs, capsys, "--paper", str(path))
