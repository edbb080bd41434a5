"""The pages of results: all runs in one table, and the papers' figures beside results made up here.

That the pages in the repository are up to date is for scripts/test.sh to check, beside ruff.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.lab.cli import report
from gtransformer.lab.report.page import make_pages, markdown
from gtransformer.lab.report.paper import PAPER, paper_files, read_paper
from gtransformer.lab.studies.plan import load_study
from gtransformer.run.recipe import load_recipe, recipe_names

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
LOGS, ARENA = Path(__file__).parents[3] / "exp_logs", "arena/arena.json"
RUNS = "about: made up\nmachine: two made-up cores\nruns: [{what: a trial, seeds: 2, command: a | b}]\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of results with one run, of the demonstration."""
    folder = tmp_path / "exp_logs"
    folder.mkdir()
    counts = {"misaligned_instances": 0}
    system = {"updates": 1400, "scores": scores(55.5, 66.5), "counts": counts}
    results = {"systems": {"gtransformer": system}, "settings": {"changes": []}, "commit": "0123456789+changes"}
    write(
        folder / "demo" / "results.json",
        results | {"date": "2026-01-02T03:04:05"},
        RUNS + "corpus: made-up documents\n",
    )
    return folder


def scores(s_bleu: float, d_bleu: float, missing: int = 0, reference: str = "raw") -> dict:
    """What a comparison holds of one set."""
    values = {"s_bleu": s_bleu, "d_bleu": d_bleu}
    found = {key: {"score": score, "signature": SIGNATURE} for key, score in values.items()}
    return {"aligned": missing == 0, "counts": {"misaligned_instances": missing}, reference: found}


def write(path: Path, content: object, about: str = RUNS) -> None:
    """A result file, with its folder."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / "about.yaml").write_text(about)
    path.write_text(json.dumps(content))


def write_comparison(logs: Path, corpus: str, recipes: dict[str, dict], changes: tuple = ()) -> Path:
    """A folder ``new`` with the results of a comparison: scores by recipe and set."""
    found = {recipe: {"updates": 77, "scores": sets} for recipe, sets in recipes.items()}
    content = {"corpus": {"name": corpus}, "changes": list(changes), "recipes": found}
    write(logs / "new" / "comparison.json", content)
    return logs / "new" / "comparison.json"


def pages(logs: Path) -> dict[str, str]:
    """The texts by the names of the pages."""
    return {path.name: text for path, text in make_pages(logs).items()}


def rows(text: str, start: str, table: str = "") -> list[list[str]]:
    """The cells of all rows that begin so, in one table or in all, the first left out."""
    text = text.split(f"## {table}: ")[1].split("\n## ")[0] if table else text
    lines = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")[1:]] for line in lines]


def refused(logs: Path, capsys, *arguments: str) -> str:
    """The one sentence with which the command fails."""
    capsys.readouterr()
    assert report.main(["--logs", str(logs), *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_check_fails_when_a_result_changes(logs: Path, capsys):
    page = logs.parent / "docs" / "lab" / "papers" / "bao2021.md"
    assert str(logs / "README.md") in refused(logs, capsys, "--check"), "missing"
    assert report.main(["--logs", str(logs)]) == report.main(["--logs", str(logs), "--check"]) == 0
    path, before = logs / "demo" / "results.json", page.read_text()
    path.write_text(path.read_text().replace("55.5", "12.34"))
    number = next(n for n, text in enumerate(before.splitlines(), 1) if "`demo`" in text)
    assert refused(logs, capsys, "--check").startswith(f"error: {page}, line {number}: ")
    assert page.read_text() == before, "a check writes nothing"
    assert report.main(["--logs", str(logs)]) == 0 and "| 12.34 |" in page.read_text()


def test_a_run_s_date_and_commits_are_those_of_its_files(logs: Path):
    about = RUNS.replace("command: a", "machine: another, files: ['a*'], command: a")
    for name, commit in (("a1", {"commit": "1" * 40}), ("a2", {}), ("a3", {"commit": "1" * 40})):
        write(logs / "new" / f"{name}.json", commit | {"date": f"2026-02-0{name[1]}T00:00:00"}, about)
    page = pages(logs)["README.md"]
    assert page.startswith("# All runs") and page.count("\n| [") == 2
    (cells,) = rows(page, "[demo](demo)")
    assert cells[:5] == ["a trial", "2026-01-02", "0123456+changes", "two made-up cores", "2"]
    (cells,) = rows(page, "[new](new)")
    assert cells[1:4] == ["2026-02-01 to 2026-02-03", "1111111, others not recorded", "another"]


def test_papers_without_a_result_have_no_page(logs: Path):
    assert set(pages(logs)) == {"README.md", "bao2021.md"}
    assert "Table 3" not in pages(logs)["bao2021.md"]


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
    if table.own[0].file == ARENA:  # ours are not this study's
        assert set(row.own for row in rows) <= set(json.loads((LOGS / ARENA).read_text())["systems"])
        return
    small, *_ = load_study(name, True).panels  # others compare its rows
    shown = table.rows if paper != "docflat" else rows
    assert [line.label for line in small.lines] == [row.own for row in shown]
    assert table.own[0].file == f"studies/{name}.json"


def test_scores_stand_in_the_rows_of_their_recipe_beside_the_paper_s_figures(logs: Path):
    sets = {"techdocs_test": scores(20.0, 22.0), "ted_dev": scores(2.0, 7.25, 3)}
    release = {"ted_test": scores(21.0, 23.0, reference="release")}
    recipes = {"cpu_small_doc": sets, "cpu_tiny": sets, "base": release}
    write_comparison(logs, "techdocs", recipes, changes=("train.encoder-layers=2",))
    page = pages(logs)["bao2021.md"]
    first, second = rows(page, "Transformer on documents", "Table 2")
    start = ["not given", "0.76", "not given", "0.60", "not given", "33.10", "`cpu_small_doc`, changed"]
    assert first[:7] == second[:7] == start
    assert first[7:12] == ["techdocs", "techdocs_test", "77", "20.00", "22.00"]
    assert second[8:12] == ["ted_dev", "77", "not aligned", "7.25"]
    demo, base = rows(page, "G-Transformer, randomly initialised", "Table 2")
    assert demo[6:12] == ["`demo`", "made-up documents", "its test set", "1,400", "55.50", "66.50"]
    assert base[10:12] == ["21.00 (reference `release`)", "23.00 (reference `release`)"]
    assert "cpu_tiny" not in page and f"`{SIGNATURE}`" in page and "|  |" not in page


def test_the_changes_of_a_row_choose_among_results(logs: Path):
    sets = {"newscommentary_test": scores(30.0, 35.0)}
    for changes, other in ((("generate.strategy=full",), False), ((), True)):
        write_comparison(logs, "newscommentary", {"window/base": sets}, changes=changes)
        page = pages(logs)["herold2023.md"]
        assert bool(rows(page, "window-attn, 1000 tok., FSD", "Table 3")) is not other


def write_study(logs: Path, value: object = 51.25) -> None:
    """As a study leaves it: two rows of Table 3 of Herold and Ney (2023)."""
    first = {
        "label": "LST-attn, 1000 tok., FSD",
        "s_bleu": {"mean": value, "values": [value]},
        "d_bleu": {"mean": 52.5},
    }
    second = {"label": "LST-attn, 1000 tok., SD", "s_bleu": None, "d_bleu": {"mean": 41, "values": [40, 42]}}
    write(logs / "studies" / "table3.json", {"panels": [{"lines": [first, second]}]})


def test_only_rows_and_columns_of_ours_are_shown(logs: Path):
    write_study(logs)
    page = pages(logs)["herold2023.md"]
    assert rows(page, "LST-attn, 1000 tok., FSD") == [["30.0", "51.25", "52.50"]]
    assert rows(page, "LST-attn, 1000 tok., SD") == [["22.2", "not measured", "41.00 (40.00 to 42.00)"]]
    assert page.count("\n## ") == 1 and "window-attn" not in page and "TER" not in page
    assert "**Do not compare our results with the paper's**" in page and "[studies/table3.json]" in page


def test_seeds_and_scales(logs: Path):
    """An arena's accuracy has its seeds under another name; shares of attention stand as per cent."""
    pronoun = {"accuracy": 66.1, "standard_error": 0.3, "by_seed": [40.6, 98.4, 59.3]}
    scores = {"s_bleu": {"mean": 60.0, "by_seed": [59.0, 61.0, 60.0]}}
    system = {"scores": scores, "accuracy": {"by_phenomenon": {"pronoun": pronoun}}}
    write(logs / "arena" / "arena.json", {"systems": {"lst": system}})
    write(logs / "attention_share" / "lst.json", {"share": {"mean": 0.12345, "flat": 0.05}})
    page = pages(logs)["herold2023.md"]
    assert rows(page, "LST-attn, 1000 tok.", "Table 6")[0][-1] == "66.1 (40.6 to 98.4)"
    assert rows(page, "LST-attn (not in the paper)", "Table 1") == [["12.3", "5.0", "60.0"]], "of the same model"


def test_figures_that_were_drawn(logs: Path):
    panels = [{"lines": [{"runs": ["a", "b"]}]}]
    write(logs / "convergence" / "figure7.json", {"description": "Input length", "panels": panels})
    assert "Input length" not in pages(logs)["bao2021.md"], "without its picture"
    (logs / "convergence" / "figure7.png").write_bytes(b"")
    assert "![Input length](../../../exp_logs/convergence/figure7.png)\n\n2 seeds." in pages(logs)["bao2021.md"]
    assert markdown(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"


@pytest.mark.parametrize("value", ["51.25", True])
def test_what_is_no_number_is_refused(logs: Path, capsys, value):
    write_study(logs, value)
    assert "table3.json" in refused(logs, capsys)


@pytest.mark.parametrize("damage", ["missing", "of another kind"])
@pytest.mark.parametrize(
    "keys",
    [("corpus",), ("recipes", "base", "scores", "x"), ("recipes", "base", "scores", "x", "raw", "s_bleu", "score")],
)
def test_damaged_results_are_named(logs: Path, capsys, keys: tuple[str, ...], damage: str):
    path = write_comparison(logs, "techdocs", {"base": {"x": scores(1.0, 2.0)}})
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


def test_damaged_descriptions(logs: Path, capsys):
    write(logs / "new" / "s.json", {}, RUNS + "what: x\n")
    assert "what" in refused(logs, capsys)


def test_folders_must_say_what_they_are_and_files_be_of_a_run(logs: Path, capsys):
    write(logs / "new" / "a.json", {}, RUNS.replace("seeds", "files: ['b*'], seeds"))
    assert str(logs / "new" / "a.json") in refused(logs, capsys)
    (logs / "new" / "about.yaml").unlink()
    assert str(logs / "new") in refused(logs, capsys)
    assert "not a folder of results" in refused(logs / "nothing", capsys)


@pytest.mark.parametrize(
    ("paper", "old", "new", "named"),
    [
        ("g_transformer", '"81.6 72.2 80.0"', '"81.6 72.2"', "Table 4, row 'CADec (Voita et al. 2019)'"),
        ("g_transformer", "recipe: sent_mbart", "recipe: sent_mbrat", "'sent_mbrat'"),
        ("g_transformer", 'paper: "33.75"', "paper: 33.75", "33.75"),
        ("window_attention", "changes: [generate.strategy=full]", "changes: [strategy=full]", "--set strategy=full"),
    ],
)
def test_damaged_figures(logs: Path, capsys, paper: str, old: str, new: str, named: str):
    path, text = logs / "paper.yaml", PAPER.with_name(f"{paper}.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    line = refused(logs, capsys, "--paper", str(path))
    assert "paper.yaml" in line and named in line
