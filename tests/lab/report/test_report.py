"""The results page: the papers' figures and where results stand in them, on results made up here.

That exp_logs/README.md is up to date is for scripts/test.sh to check, beside ruff.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from gtransformer.lab.cli import report
from gtransformer.lab.report.page import NOTES, make_page, markdown, own_score
from gtransformer.lab.report.paper import PAPER, Column, commands, paper_files, read_paper
from gtransformer.lab.report.results import Result, script_command
from gtransformer.lab.studies.plan import load_study
from gtransformer.run.recipe import language_changes, load_recipe, recipe_names
from tests.support import ROOT

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
BUDGET = "(5 min of training)"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder of results: the papers' figures and one run, of the demonstration, with its page."""
    folder = tmp_path_factory.mktemp("report") / "exp_logs"
    (folder / "demo").mkdir(parents=True)
    (folder / "about.yaml").write_text("machine: two made-up cores\n")
    (folder / "demo" / "about.yaml").write_text("about: a demonstration\ncorpus: generated documents\n")
    counts = {"misaligned_instances": 0}
    system = {"updates": 9, "validation_perplexity": 1.5, "scores": scores(55.5, 66.5), "counts": counts}
    results = {"systems": {"gtransformer": system}, "settings": {"changes": []}}
    (folder / "demo" / "results.json").write_text(json.dumps(results | {"command": "gtransformer demo"}))
    assert report.main(["--logs", str(folder)]) == 0
    return folder


@pytest.fixture
def logs(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "exp_logs"))


def scores(s_bleu: float, d_bleu: float, missing: int = 0, only: str | None = None, name: str | None = None) -> dict:
    """What a comparison holds of one set; the release's computation gives one point more, and by instance another.

    ``only``: against this reference alone, under another ``name`` if one is given.
    """
    values = {"s_bleu": s_bleu, "d_bleu": d_bleu, "d_bleu_instance": d_bleu + 1}
    result: dict = {"aligned": missing == 0, "counts": {"misaligned_instances": missing}}
    for reference, more in (("raw", 0), ("release", 1)):
        if only in (None, reference):
            found = {key: {"score": score + more, "signature": SIGNATURE} for key, score in values.items()}
            result[name or reference] = found
    return result


def write(path: Path, content: object, about: str = "about: made up\n") -> None:
    """A result file, with its folder."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / "about.yaml").write_text(about)
    path.write_text(json.dumps(content))


def write_comparison(
    logs: Path, corpus: str, recipes: dict[str, dict], every: int = 1, changes: tuple[str, ...] = ()
) -> None:
    """A folder ``new`` with the results of a comparison: scores by recipe and set."""
    numbers = {"minutes": 5, "updates": 77, "validation_perplexity": 9.5, "note": None}
    content = {
        "corpus": {"name": corpus, "every": every},
        "changes": list(changes),
        "recipes": {recipe: {**numbers, "scores": sets} for recipe, sets in recipes.items()},
        "command": "gtransformer lab compare x",
        "commit": "0123456789+changes",
    }
    write(logs / "new" / "comparison.json", content, "about: a comparison\nmachine: one H1 GPU\n")


def section(logs: Path, authors: str, name: str) -> list[str]:
    """The lines of the section of a table of the paper by these authors."""
    tables = make_page(logs).split(f"## Tables of {authors}")[1].split("\n## ")[0]
    return tables.split(f"### {name}: ")[1].split("\n### ")[0].splitlines()


def row(logs: Path, authors: str, name: str, start: str) -> list[str]:
    """The cells of the row of such a table that begins so, its name left out."""
    (line,) = [line for line in section(logs, authors, name) if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def refused(logs: Path, capsys, *arguments: str) -> str:
    """The one sentence with which the command fails."""
    capsys.readouterr()
    assert report.main(["--logs", str(logs), *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_check_fails_when_a_result_changes(logs: Path, capsys):
    assert report.main(["--logs", str(logs), "--check"]) == 0
    path = logs / "demo" / "results.json"
    content = json.loads(path.read_text())
    content["systems"]["gtransformer"]["scores"]["raw"]["s_bleu"]["score"] = 12.34
    path.write_text(json.dumps(content))
    before = (logs / "README.md").read_text()
    line = refused(logs, capsys, "--check")
    number = next(n for n, text in enumerate(before.splitlines(), 1) if "| `demo` |" in text)
    assert line.startswith(f"error: {logs / 'README.md'}, line {number}: ")
    assert (logs / "README.md").read_text() == before, "a check writes nothing"
    assert report.main(["--logs", str(logs)]) == report.main(["--logs", str(logs), "--check"]) == 0
    assert "| 12.34 |" in (logs / "README.md").read_text()
    (logs / "README.md").unlink()
    assert "README.md" in refused(logs, capsys, "--check")


@pytest.mark.parametrize("path", paper_files(), ids=lambda path: path.stem)
def test_recipes_are_those_that_claim_the_tables(path: Path):
    """The recipes that a table of the page names are those whose ``rows`` name the table, one a row.

    Rows that change something in a recipe are none that a recipe claims.
    """
    paper, claimed = read_paper(path), {}
    rows = [(name, load_recipe(name).rows) for name in recipe_names()]
    for recipe, place in ((name, place) for name, places in rows for place, row in places.items() if row is not None):
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


@pytest.mark.parametrize(
    ("paper", "number"),
    [*(("document_transformer", number) for number in "12789"), *(("docflat", number) for number in "234567")],
)
def test_studies_are_the_rows_of_the_page(paper: str, number: str):
    """All rows in the paper's order, by the models whose scores would stand beside its figures."""
    (table,) = [one for one in read_paper(PAPER.with_name(f"{paper}.yaml")).tables if one.name == f"Table {number}"]
    name = f"{paper.removesuffix('_transformer')}_table{number}"
    rows = [row for row in table.rows if "not in the paper" not in row.method and (paper != "docflat" or row.recipe)]
    (panel,) = load_study(name).panels
    assert [line.label for line in panel.lines] == [row.method for row in rows]
    for line, row in zip(panel.lines, rows, strict=True):
        assert row.recipe in (line.runs[0].recipe, None)
        assert sorted(line.runs[0].training) == sorted(row.changes)
    (small,) = load_study(name, True).panels
    shown = table.rows if paper != "docflat" else rows
    assert [line.label for line in small.lines] == [row.miniature for row in shown]
    assert table.columns_of_miniature()[0].file == f"studies/{name}.json"


def test_results_on_the_paper_s_corpus_stand_beside_its_figures(logs: Path):
    full, doc = scores(20.0, 22.0), scores(1.0, 3.0, missing=4)
    write_comparison(logs, "ted", {"base": {"ted_test": full, "news_dev": full}, "doc_base": {"ted_test": doc}})
    cells = row(logs, "Bao", "Table 2", "G-Transformer, randomly initialised | `base` | 23.53")
    # The release's computation: a point more, and another by instance.
    assert cells[:6] == ["`base`", "23.53", f"21.00 {BUDGET}", r"25.84\*", f"24.00 {BUDGET}", "23.55"]
    documents = row(logs, "Bao", "Table 2", "Transformer on documents")
    assert documents[:5] == ["`doc_base`", "", "", "0.76", f"5.00 {BUDGET}"], "not aligned: no s-BLEU"
    page = make_page(logs)
    assert f"\nOurs: [new/comparison.json](new/comparison.json) (one H1 GPU).\n\nBLEU: `{SIGNATURE}`.\n" in page
    assert all(f"({mark}" not in page for mark in NOTES), "taken as the paper took them"
    (other,) = [line for line in page.splitlines() if "news_dev" in line and "new/comparison.json" in line]
    assert "| `base` | ted | one H1 GPU | 5 | 77 | 9.50 | news_dev | 20.00 | 22.00 |" in other, "the raw reference"


@pytest.mark.parametrize(
    ("recipe", "only", "name", "s_bleu", "d_bleu", "mark"),
    [
        ("mbart", "raw", None, "20.00", "22.00", "raw text"),
        ("bert", "raw", None, "20.00", "22.00", "raw text"),
        ("base", "release", "tokenised", "21.00", "23.00", "tokenised text"),
        ("base", "release", "paper", "21.00", "23.00", "tokenised text"),  # as result files of old call it
    ],
)
def test_scores_taken_otherwise_than_the_paper_s_are_marked(logs: Path, recipe, only, name, s_bleu, d_bleu, mark):
    write_comparison(logs, "news", {recipe: {"news_test": scores(20.0, 22.0, 0, only, name)}})
    lines = section(logs, "Bao", "Table 2")
    (line,) = [line for line in lines if f"`{recipe}`" in line and line.startswith("|")]
    for score in (s_bleu, d_bleu):
        assert f" | {score} ({mark}, 5 min of training) | " in line
    assert any(line.startswith(f"*{mark}*: ") for line in lines) and f"BLEU: `{SIGNATURE}`." in lines


def test_untouched_text_goes_before_tokenised(logs: Path):
    values = scores(20.0, 22.0)
    values["paper"] = values.pop("release")
    write_comparison(logs, "news", {"base": {"news_test": values}})
    page = make_page(logs)
    assert " | 20.00 (raw text, 5 min of training) | " in page and " | 21.00" not in page


@pytest.mark.parametrize(
    ("instances", "context", "by_instance", "expected"),
    [
        ("disjoint", 0, True, (22.0, ["whole documents"])),  # by sentence it would be the s-BLEU again
        ("sliding", 2, False, (22.0, ["whole documents"])),
        ("disjoint", 2, True, (23.0, [])),
    ],
)
def test_d_bleu_is_by_instance_where_these_are_more_than_sentences(
    tmp_path: Path, instances, context, by_instance, expected
):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"based-on: base\ntask:\n  instances: {instances}\n  context-sentences: {context}\n")
    values = {"s_bleu": (20.0, SIGNATURE), "d_bleu": (22.0, SIGNATURE), "d_bleu_instance": (23.0, SIGNATURE)}
    if not by_instance:
        del values["d_bleu_instance"]
    result = Result(str(recipe), "news", "news_test", {"release": values}, True, "a.json")
    score, signature, marks = own_score(result, Column("", "news", "d_bleu"))
    assert (score, marks) == expected and signature == SIGNATURE


def changed(page: str, line: str) -> list[str]:
    """The changes that a row's mark stands for, in the line below its table."""
    mark = re.search(r"\| `base` (\[\d+\]) \|", line)[1]
    below = next(line for line in page[page.index(line) :].splitlines() if line.startswith("Changed: "))
    return re.findall(r"`([^`]+)`", below.split(f"{mark} ")[1].split("; [")[0])


def test_changed_recipes_are_not_the_paper_s(logs: Path):
    """compare.sh --set: another model, though it goes by the recipe's name; where its files lie makes none."""
    change = "train.encoder-layers=2"
    write_comparison(logs, "europarl", {"base": {"europarl_test": scores(20.0, 22.0)}}, changes=(change,))
    page = make_page(logs)
    (line,) = [line for line in page.splitlines() if "europarl_test" in line]
    assert "5 min of training" not in page and changed(page, line) == [change]
    moved = ("train.finetune-from-model=elsewhere/model.pt",)
    write_comparison(logs, "news", {"mbart": {"news_test": scores(20.0, 22.0, 0, "raw")}}, changes=moved)
    assert "20.00 (raw text" in make_page(logs)


@pytest.mark.parametrize(("entry", "changes"), [("", []), ("", ["train.lr=1"]), (", changes: [train.lr=1]", None)])
def test_listed_results(logs: Path, entry: str, changes: list[str] | None):
    """run.sh --set: noted in the score file; of older ones, about.yaml can say it."""
    line = "{recipe: base, corpus: news, sets: {news_test: test.scores.json}" + entry + "}"
    values = scores(20.0, 22.0)
    file = {"scores": {key: values[key] for key in ("raw", "release")}, "counts": values["counts"], "changes": changes}
    write(logs / "new" / "test.scores.json", file, f"about: a run\nresults:\n  - {line}\n")
    page = make_page(logs)
    if not entry and not changes:
        assert "| 21.00 |" in page and "| 24.00 |" in page and "news_test" not in page
        return
    (other,) = [line for line in page.splitlines() if "news_test" in line]
    assert changed(page, other) == ["train.lr=1"] and "| 21.00 |" not in page
    assert "] | news | as above |  |  |  | news_test | 20.00 | 22.00 |" in other


def test_results_on_other_data_stand_apart(logs: Path):
    recipes = {
        "cpu_small_doc": {"techdocs_test": scores(2.0, 7.25, missing=3)},
        "cpu_tiny": {"techdocs_test": scores(1.0, 1.5)},
        "cpu_small": {"techdocs_test": scores(20.0, 22.0, 0, "release")},
    }
    write_comparison(logs, "techdocs", recipes, every=4)
    (logs / "new" / "learning_curves.png").write_bytes(b"")
    page = make_page(logs)
    assert "5 min of training" not in page, "not in the paper's tables"
    line = "| `cpu_small_doc` | techdocs, every 4th document | one H1 GPU | 5 | 77 | 9.50 | techdocs_test |"
    apart = "\n".join(section(logs, "Bao", "Table 2")).split("*not comparable with the figures above*")[1]
    assert f"| Transformer on documents {line} (not aligned) | 7.25 |" in apart
    assert "| techdocs_test | 21.00 (as the release) | 23.00 (as the release) |" in apart
    assert "![new/learning_curves.png](new/learning_curves.png)" in apart
    assert "| `cpu_tiny` |" in page.split("## Recipes that belong to no table")[1]
    assert "`gtransformer lab compare x` | 0123456+changes |" in page


def with_ter(values: dict) -> dict:
    """Scores of a comparison with TER and lower-cased ones, as some papers have them."""
    values["raw"] |= {"ter": {"score": 48.25, "signature": "tercom"}, "s_bleu_lc": {"score": 31.5, "signature": "lc"}}
    return values


def test_a_recipe_s_scores_stand_in_all_of_its_rows_and_of_a_changed_one_in_the_row_that_says_so(logs: Path):
    sets = {"newscommentary_test": with_ter(scores(30.0, 35.0))}
    write_comparison(logs, "newscommentary", {"window/base": sets})
    cells = ["`window/base`", "33.1", f"30.00 {BUDGET}", "48.1", f"48.25 {BUDGET}"]
    assert row(logs, "Herold", "Table 3", "window-attn, 1000 tok., SD")[:3] == cells[:3]
    assert row(logs, "Herold", "Table 3", "window-attn, 1000 tok., FSD")[2] == ""
    assert row(logs, "Herold", "Table 4", "window-attn, rel., sent-align, 20")[:5] == cells
    assert f"BLEU: `{SIGNATURE}`. TER: `tercom`." in section(logs, "Herold", "Table 5"), "untouched text, not marked"
    write_comparison(logs, "newscommentary", {"window/base": sets}, changes=("generate.strategy=full",))
    assert row(logs, "Herold", "Table 3", "window-attn, 1000 tok., FSD")[2].startswith("30.00")
    assert row(logs, "Herold", "Table 3", "window-attn, 1000 tok., SD")[2] == ""


@pytest.mark.parametrize(
    ("corpus", "changes", "place"),
    [
        ("opensubtitles", ("prepare.bpe-merges=32000", "train.dropout=0.1", "train.label-smoothing=0.1"), 9),
        ("ted_en_it", tuple(language_changes("window/base", "en,it")), 5),
    ],
)
def test_a_corpus_with_settings_of_its_own(logs: Path, corpus, changes, place):
    """Those settings stand in its column; the recipe as it is does not."""
    sets = {f"{corpus}_test": with_ter(scores(30.0, 35.0))}
    write_comparison(logs, corpus, {"window/base": sets}, changes=changes[::-1])
    found = row(logs, "Herold", "Table 5", "window-attn, 1000 tok.")
    assert [number for number, cell in enumerate(found) if cell.startswith("30.00")] == [place + 1]
    write_comparison(logs, corpus, {"window/base": sets})
    found = row(logs, "Herold", "Table 5", "window-attn, 1000 tok.")
    assert not any(cell.startswith("30.00") for cell in found)


def test_lower_cased_scores_stand_beside_those_of_a_paper_that_has_them(logs: Path):
    """And cased ones do not."""
    french = ("task.source-lang=fr", "task.target-lang=en", "task.langs=fr,en")
    for values, shown in ((scores(30.0, 35.0), ""), (with_ter(scores(30.0, 35.0)), f"31.50 {BUDGET}")):
        write_comparison(logs, "iwslt_fr_en", {"document/base": {"iwslt_fr_en_test": values}}, changes=french)
        assert row(logs, "Zhang", "Table 4", "this work")[1:4] == ["30.40", "36.04", shown]


def miniature(value: object = 51.25) -> dict:
    """As a study leaves it: two rows of Table 3 of Herold and Ney (2023)."""
    first = {"label": "LST-attn, 1000 tok., FSD", "s_bleu": {"mean": value}, "d_bleu": {"mean": 52.5}}
    second = {"label": "LST-attn, 1000 tok., SD", "s_bleu": None, "d_bleu": {"mean": 41}, "ter": {"mean": 60}}
    return {"panels": [{"lines": [first, second]}]}


def test_miniatures_stand_beside_the_paper_s_figures_and_say_what_they_are(logs: Path):
    missing = section(logs, "Herold", "Table 3")
    assert all(line.endswith("|  |  |  |") for line in missing if line.startswith("| LST-attn"))
    assert any("`studies/table3.json` (not run yet)" in line for line in missing)
    write(logs / "studies" / "table3.json", miniature())
    assert row(logs, "Herold", "Table 3", "LST-attn, 1000 tok., FSD")[1:] == ["30.0", "", "51.25", "52.50", ""]
    assert row(logs, "Herold", "Table 3", "LST-attn, 1000 tok., SD")[1:] == ["22.2", "", "", "41.00", "60.00"]
    assert row(logs, "Herold", "Table 3", "window-attn, 1000 tok., SD")[1:] == ["33.1", "", "", "", ""]
    (note,) = [line for line in section(logs, "Herold", "Table 3") if line.startswith("*miniature*")]
    assert "**not comparable with the paper's figures**" in note and "[studies/table3.json]" in note


def test_miniatures_have_standard_errors_and_scales(logs: Path):
    recorded = json.loads((ROOT / "exp_logs" / "arena" / "arena.json").read_text(encoding="utf-8"))
    system: dict[str, Any] = recorded["systems"]["lst"]
    system["scores"] |= {
        "s_bleu": {"mean": 60.123, "standard_error": 0.456}, "d_bleu": {"mean": 61, "standard_error": None},
    }  # fmt: skip
    write(logs / "arena" / "arena.json", {**recorded, "systems": {"lst": system}})
    write(logs / "attention_share" / "lst.json", {"share": {"mean": 0.12345, "flat": 0.05}})
    lengths = [{"tokens": 736, "kept_bytes": 1_500_000_000}, {"tokens": 1472, "kept_bytes": 3_000_000_000}]
    systems = [
        {"system": "doc_transformer_dense", "window": None, "lengths": lengths},
        {"system": "window_transformer", "window": 20, "lengths": lengths[:1]},
    ]
    write(logs / "benchmark" / "memory_by_length.json", {"by_length": systems})
    assert row(logs, "Herold", "Table 5", "LST-attn, 1000 tok.")[-3:-1] == ["60.12 ± 0.46", "61.00"]
    assert row(logs, "Herold", "Table 1", "LST-attn (not in the paper)")[-3:] == ["12.3", "5.0", "60.12 ± 0.46"]
    assert row(logs, "Herold", "Table 2", "736")[1:] == ["2.3 GB", "2.4 GB", "3.5 GB", "1.50", "", "", "1.50"]
    assert row(logs, "Herold", "Table 2", "1472")[4:] == ["3.00", "", "", ""]


@pytest.mark.parametrize("value", ["51.25", True])
def test_what_is_no_number_is_refused(logs: Path, capsys, value):
    write(logs / "studies" / "table3.json", miniature(value))
    assert "table3.json" in refused(logs, capsys)


@pytest.mark.parametrize("damage", ["missing", "of another kind"])
@pytest.mark.parametrize(
    "keys",
    [
        ("corpus",), ("recipes", "base", "scores", "x"), ("recipes", "base", "scores", "x", "raw", "s_bleu", "score"),
    ],
)  # fmt: skip
def test_damaged_results_are_named(logs: Path, capsys, keys: tuple[str, ...], damage: str):
    write_comparison(logs, "techdocs", {"base": {"x": scores(1.0, 2.0)}})
    path = logs / "new" / "comparison.json"
    part = content = json.loads(path.read_text())
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = [None]
    if damage == "missing":
        del part[keys[-1]]
        if keys[-1] == "x":
            part["x"] = {"aligned": True}  # without any score
    path.write_text(json.dumps(content))
    assert str(path) in refused(logs, capsys)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("about: x\nwhat: x", "what"),
        ("about: x\nstatistics: [{corpus: x, manifest: none.json}]", "none.json"),
        ("about: x\nstatistics: [{corpus: x, manifest: m.json}]", "m.json"),
        ("about: x\nresults: [{recipe: base, corpus: ted, sets: {a: none.json}}]", "none.json"),
        ("about: x\nresults: [{recipe: base, corpus: ted, sets: {a: m.json}}]", "m.json"),
        ("about: x\nresults: [{recipe: base, corpus: ted, sets: {a: s.json}}]", "'big'"),
    ],
)
def test_damaged_descriptions(logs: Path, capsys, text: str, named: str):
    file = {"scores": scores(1.0, 2.0), "counts": {"misaligned_instances": 0}, "recipe": "big"}
    write(logs / "new" / "s.json", file, f"{text}\n")
    (logs / "new" / "m.json").write_text(json.dumps({"splits": {"test": {"sentences": 3}}}))
    assert named in refused(logs, capsys)


def test_folders_must_say_what_they_are(logs: Path, capsys):
    (logs / "new").mkdir()
    assert str(logs / "new") in refused(logs, capsys)
    (logs / "about.yaml").unlink()
    assert str(logs) in refused(logs, capsys)


@pytest.mark.parametrize(
    ("paper", "old", "new", "named"),
    [
        ("g_transformer", '"81.6 72.2 80.0"', '"81.6 72.2"', "Table 4, row 'CADec (Voita et al. 2019)'"),
        ("g_transformer", "recipe: sent_mbart", "recipe: sent_mbrat", "'sent_mbrat'"),
        ("g_transformer", 'columns: "Europarl:d-BLEU"', 'columns: "Europal:d-BLEU"', "Europal:d-BLEU"),
        ("g_transformer", 'paper: "33.75"', "paper: 33.75", "33.75"),
        ("g_transformer", "    News: [", "    Newz: [", "Newz"),
        ("g_transformer", '"436/428/429"]', "]", "Table 1, TED"),
        ("window_attention", "changes: [generate.strategy=full]", "changes: [strategy=full]", "--set strategy=full"),
    ],
)
def test_damaged_figures(logs: Path, capsys, paper: str, old: str, new: str, named: str):
    path, text = logs / "paper.yaml", PAPER.with_name(f"{paper}.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    line = refused(logs, capsys, "--paper", str(path))
    assert "paper.yaml" in line and named in line


def test_drawn_figures_and_commands(logs: Path):
    study = {"description": "Input length", "command": "gtransformer lab study figure7"}
    write(logs / "figure7" / "figure7.json", study)
    (logs / "figure7" / "figure7.png").write_bytes(b"")
    page = make_page(logs)
    assert "![Input length](figure7/figure7.png)\n\n```bash\ngtransformer lab study figure7\n" in page
    assert script_command("gtransformer score a --by position") == "gtransformer score a --by position"
    for command in ("gtransformer nothing x", "gtransformer scores", "bash x"):
        assert script_command(command) == command
    assert commands("doc_base_finetune") == [
        "gtransformer run base CORPUS prepare",
        "gtransformer run sent_base CORPUS train",
        "gtransformer run doc_base_finetune CORPUS all",
    ]
    assert markdown(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
