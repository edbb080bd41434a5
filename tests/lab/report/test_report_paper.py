"""The results page beside the paper's figures: which results stand in its tables, and with which marks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gtransformer.lab.report.page import make_page
from gtransformer.lab.report.paper import PAPER, Column, paper_files, read_paper
from gtransformer.lab.report.paper_tables import NOTES, own_score
from gtransformer.lab.report.results import Result
from gtransformer.run.recipe import recipes_of_rows
from tests.lab.report.report_logs import PRINTED, SIGNATURE, only, refused, scores, write_comparison


@pytest.mark.parametrize("path", paper_files(), ids=lambda path: path.stem)
def test_recipes_are_those_that_claim_the_tables(path: Path):
    """The recipes that a table of the page names are those whose ``rows`` name the table, one a row.

    Rows that change something in a recipe are none that a recipe claims.
    """
    paper, claimed = read_paper(path), {}
    for (place, _), recipe in recipes_of_rows().items():
        name, _, table = place.rpartition(" ")
        if name in ("", "section") and path == PAPER:
            claimed.setdefault(f"{name} {table}".capitalize() if name else f"Table {table}", []).append(recipe)
        elif name == paper.name:
            claimed.setdefault(f"Table {table}", []).append(recipe)
    named = {
        table.name: sorted(row.recipe for row in table.rows if row.recipe and not row.changes) for table in paper.tables
    }
    assert claimed and {name: recipes for name, recipes in named.items() if recipes} == {
        name: sorted(recipes) for name, recipes in claimed.items()
    }


@pytest.mark.skipif(not PRINTED.is_file(), reason="the paper is not at hand (../shared)")
def test_figures_are_those_of_the_paper():
    """Number by number, in the order of the printed tables; and the three of section 5.4."""
    printed: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    text = PRINTED.read_text(encoding="utf-8")
    for line in text.splitlines():
        if found := re.match(r"Table (\d):", line):
            printed[f"Table {found[1]}"], rows = rows, []
        elif "\t" in line:
            rows.append([re.sub(r"</?b>|\\", "", cell).strip() for cell in line.split("\t")[1:]])
    paper = read_paper(PAPER)
    for table in paper.tables:
        if table.name.startswith("Table"):
            figures = [row for row in printed[table.name] if any(re.search(r"\d", cell) for cell in row)]
            assert [row.paper for row in table.rows] == figures, table.name
        else:
            wanted = [row.paper[0] for row in table.rows]
            assert f"gives {wanted[0]}, {wanted[1]}, and {wanted[2]} d-BLEU with top 1, 2, and 3 layers" in text
    statistics = [row[-5:] for row in printed["Table 1"] if "K" in row[-5]]
    assert list(paper.statistics.values()) == statistics


def test_results_on_the_paper_s_corpus_stand_beside_its_figures(logs: Path):
    full, doc = scores(20.0, 22.0), scores(1.0, 3.0, missing=4)
    write_comparison(logs, "ted", {"base": {"ted_test": full, "news_dev": full}, "doc_base": {"ted_test": doc}})
    lines = make_page(logs).splitlines()
    rows = [line for line in lines if line.startswith("| G-Transformer, randomly initialised | `base` | 23.53 |")]
    budget = "(5 min of training)"
    cells = [
        "23.53",
        f"21.00 {budget}",
        r"25.84\*",
        f"24.00 {budget}",
        "23.55",
        "",
    ]  # the release's computation: a point more, and another by instance
    assert len(rows) == 1 and rows[0].split(" | ")[2:8] == cells
    (documents,) = [line for line in lines if line.startswith("| Transformer on documents | `doc_base` |")]
    assert documents.startswith(f"| Transformer on documents | `doc_base` |  |  | 0.76 | 5.00 {budget} |"), "no s-BLEU"
    assert (
        len([line for line in lines if line == "Ours: [new/comparison.json](new/comparison.json) (one H1 GPU)."]) == 4
    )
    (other,) = [line for line in lines if "news_dev" in line and "new/comparison.json" in line]
    assert "| `base` | ted | one H1 GPU | 5 | 77 | 9.50 | news_dev | 20.00 | 22.00 |" in other, "the raw reference"


@pytest.mark.parametrize("recipe", ["mbart", "sent_mbart", "doc_mbart", "bert"])
def test_without_the_release_s_score_that_of_untouched_text_stands_in(logs: Path, recipe: str):
    write_comparison(logs, "news", {recipe: {"news_test": only("raw", scores(20.0, 22.0))}})
    section = make_page(logs).split("### Table 2")[1].split("### Table 3")[0]
    (row,) = [line for line in section.splitlines() if f"`{recipe}`" in line and line.startswith("|")]
    assert " | 20.00 (raw text, 5 min of training) | " in row
    assert " | 22.00 (raw text, 5 min of training) | " in row, "whether the paper has it or not"
    assert "\n*raw text*: against the untouched text" in section and "news_test" not in section
    assert f"\nBLEU: `{SIGNATURE}`.\n" in section.split("*raw text*")[0], "no score without its signature"


@pytest.mark.parametrize("name", ["paper", "tokenised"])
def test_tokenised_scores_are_not_taken_for_the_paper_s(logs: Path, name: str):
    """Result files of old call theirs ``paper``; beside the paper's figures they are marked."""
    write_comparison(logs, "news", {"base": {"news_test": only("release", scores(20.0, 22.0), name)}})
    section = make_page(logs).split("### Table 2")[1].split("### Table 3")[0]
    (row,) = [line for line in section.splitlines() if "`base`" in line and line.startswith("|")]
    assert " | 21.00 (tokenised text, 5 min of training) | " in row
    assert " | 23.00 (tokenised text, 5 min of training) | " in row
    assert "\n*tokenised text*: against tokenised, truecased text without a tokeniser, not as" in section


@pytest.mark.parametrize("name", ["paper", "tokenised"])
def test_untouched_text_goes_before_tokenised(logs: Path, name: str):
    values = scores(20.0, 22.0)
    values[name] = values.pop("release")
    write_comparison(logs, "news", {"base": {"news_test": values}})
    page = make_page(logs)
    assert " | 20.00 (raw text, 5 min of training) | " in page and " | 21.00" not in page


def test_d_bleu_of_single_sentences_is_over_documents(logs: Path):
    """By instance, that is by sentence, it would be the s-BLEU again."""
    write_comparison(logs, "news", {"sent_base": {"news_test": scores(20.0, 22.0)}})
    section = make_page(logs).split("### Table 2")[1].split("### Table 3")[0]
    (row,) = [line for line in section.splitlines() if "`sent_base`" in line and line.startswith("|")]
    assert " | 21.00 (5 min of training) | " in row
    assert " | 23.00 (whole documents, 5 min of training) | " in row
    assert "\n*whole documents*: a model of single sentences" in section


@pytest.mark.parametrize(
    ("instances", "context", "by_instance", "expected"),
    [
        ("disjoint", 0, True, (22.0, ["whole documents"])),
        ("sliding", 0, True, (22.0, ["whole documents"])),
        ("sliding", 2, False, (22.0, ["whole documents"])),
        ("disjoint", 2, True, (23.0, [])),
    ],
)
def test_d_bleu_of_instances_grouped_at_loading(tmp_path: Path, instances, context, by_instance, expected):
    """By instance only where these are more than sentences."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"based-on: base\ntask:\n  instances: {instances}\n  context-sentences: {context}\n")
    values = {"s_bleu": (20.0, SIGNATURE), "d_bleu": (22.0, SIGNATURE), "d_bleu_instance": (23.0, SIGNATURE)}
    if not by_instance:
        del values["d_bleu_instance"]
    result = Result(str(recipe), "news", "news_test", {"release": values}, True, "a.json")
    score, signature, marks = own_score(result, Column("", "news", "d_bleu"))
    assert (score, marks) == expected and signature == SIGNATURE


def test_scores_as_the_paper_took_them_are_not_marked(logs: Path):
    write_comparison(logs, "news", {"base": {"news_test": scores(20.0, 22.0)}})
    page = make_page(logs)
    for mark in NOTES:
        assert f"({mark}" not in page and f"\n*{mark}*" not in page
    assert f"\nOurs: [new/comparison.json](new/comparison.json) (one H1 GPU).\n\nBLEU: `{SIGNATURE}`.\n" in page


def changed(page: str, row: str) -> list[str]:
    """The changes that a row's mark stands for, in the line below its table."""
    mark = re.search(r"\| `base` (\[\d+\]) \|", row)[1]
    line = next(line for line in page[page.index(row) :].splitlines() if line.startswith("Changed: "))
    return re.findall(r"`([^`]+)`", line.split(f"{mark} ")[1].split("; [")[0])


def test_changed_recipes_are_not_the_paper_s(logs: Path):
    """compare.sh --set: another model, though it goes by the recipe's name."""
    change = "train.encoder-layers=2"
    write_comparison(logs, "europarl", {"base": {"europarl_test": scores(20.0, 22.0)}}, changes=(change,))
    page = make_page(logs)
    assert "5 min of training" not in page
    rows = [line for line in page.splitlines() if "europarl_test" in line]
    assert len(rows) == 1
    assert changed(page, rows[0]) == [change] and "] | europarl | one H1 GPU |" in rows[0]


def test_files_that_lie_elsewhere_are_no_change(logs: Path):
    """README and configs/mbart.yaml name such options for pretrained models in other places."""
    sets = {"news_test": only("raw", scores(20.0, 22.0))}
    write_comparison(logs, "news", {"mbart": sets}, changes=("train.finetune-from-model=elsewhere/model.pt",))
    page = make_page(logs)
    assert "20.00 (raw text" in page and "news_test" not in page


def write_listed(logs: Path, entry: str = "", **content: object) -> None:
    """A folder ``new`` that lists one score file, as scripts/run.sh leaves it."""
    (logs / "new").mkdir()
    line = "{recipe: base, corpus: news, sets: {news_test: test.scores.json}" + entry + "}"
    (logs / "new" / "about.yaml").write_text(f"about: a run\nresults:\n  - {line}\n")
    values = scores(20.0, 22.0)
    file = {"scores": {key: values[key] for key in ("raw", "release")}, "counts": values["counts"], **content}
    (logs / "new" / "test.scores.json").write_text(json.dumps(file))


def test_listed_results_of_an_unchanged_recipe(logs: Path):
    write_listed(logs, recipe="base", changes=[])
    section = make_page(logs).split("### Table 2")[1].split("### Table 3")[0]
    assert "| 21.00 |" in section and "| 24.00 |" in section and "news_test" not in section


@pytest.mark.parametrize("said", ["in the scores", "in about.yaml"])
def test_listed_results_of_a_changed_recipe(logs: Path, said: str):
    """run.sh --set: noted in the score file; of older ones, about.yaml can say it."""
    if said == "in the scores":
        write_listed(logs, recipe="base", changes=["train.lr=1"])
    else:
        write_listed(logs, ", changes: [train.lr=1]")
    page = make_page(logs)
    assert "| 21.00 |" not in page
    (row,) = [line for line in page.splitlines() if "news_test" in line]
    assert changed(page, row) == ["train.lr=1"] and "] | news | as above |  |  |  | news_test | 20.00 | 22.00 |" in row


def test_listed_results_of_another_recipe(logs: Path, capsys):
    write_listed(logs, recipe="big", changes=[])
    assert "recipe 'base' is said of test.scores.json, which is of 'big'; put one right" in refused(logs, capsys)


@pytest.mark.parametrize(
    ("name", "mark"),
    [("release", "as the release"), ("tokenised", "tokenised text"), ("paper", "tokenised text")],
)
def test_without_untouched_text_results_on_other_data_are_marked(logs: Path, name: str, mark: str):
    values = only("release", scores(20.0, 22.0), name)
    write_comparison(logs, "techdocs", {"cpu_small": {"techdocs_test": values}})
    page = make_page(logs)
    assert f"| techdocs_test | 21.00 ({mark}) | 23.00 ({mark}) |" in page


def test_table_4_has_no_column_that_nothing_can_fill(logs: Path):
    section = make_page(logs).split("### Table 4")[1].split("### Table 5")[0]
    assert "| ours |" not in section
    assert "| CADec (Voita et al. 2019) |  | 81.6 | 72.2 | 80.0 |" in section
    assert "without a column of ours" in section, "and why"
    paper = read_paper(PAPER)
    assert {column.title for table in paper.tables for column in table.columns if not column.metric} == {
        "Drop", "deixis", "el.infl.", "el.VP",
    }  # fmt: skip


def test_results_on_other_data_stand_apart(logs: Path):
    recipes = {
        "cpu_small_doc": {"techdocs_test": scores(2.0, 7.25, missing=3)},
        "cpu_tiny": {"techdocs_test": scores(1.0, 1.5)},
    }
    before = make_page(logs)
    write_comparison(logs, "techdocs", recipes, every=4)
    (logs / "new" / "learning_curves.png").write_bytes(b"")
    page = make_page(logs)
    assert "5 min of training" not in page, "not in the paper's tables"
    row = "| `cpu_small_doc` | techdocs, every 4th document | one H1 GPU | 5 | 77 | 9.50 | techdocs_test |"
    row += " (not aligned) | 7.25 |"
    section = page.split("### Table 2")[1].split("### Table 3")[0]
    assert f"| Transformer on documents {row}" in section.split("*not comparable with the figures above*")[1]
    assert "![new/learning_curves.png](new/learning_curves.png)" in section
    assert "| `cpu_tiny` |" in page.split("## Recipes that belong to no table")[1]
    assert "belong to no table" not in before
    assert "`bash scripts/compare.sh x` | 0123456+changes |" in page
