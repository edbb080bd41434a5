"""The results page: the paper's figures, where results stand in it, and that exp_logs/README.md is up to date."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gtransformer.cli import report
from gtransformer.cli.recipe import recipes_of_rows
from gtransformer.cli.report_page import markdown
from gtransformer.cli.report_paper import commands, read_paper
from gtransformer.cli.report_results import read_folder

ROOT = Path(__file__).resolve().parents[3]
LOGS = ROOT / "exp_logs"
PAPER = ROOT.parent / "shared" / "papers" / "g-transformer.md"
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of the folder of results."""
    return Path(shutil.copytree(LOGS, tmp_path / "exp_logs"))


def refused(logs: Path, capsys, *arguments: str) -> str:
    """The one sentence with which the command fails."""
    capsys.readouterr()
    assert report.main(["--logs", str(logs), *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def scores(s_bleu: float, d_bleu: float, missing: int = 0) -> dict:
    """What a comparison holds of one set; the paper's reference gives one point more."""
    values = {"s_bleu": s_bleu, "d_bleu": d_bleu}
    result: dict = {"aligned": missing == 0, "counts": {"misaligned_instances": missing}}
    for reference, more in (("raw", 0), ("paper", 1)):
        result[reference] = {key: {"score": score + more, "signature": SIGNATURE} for key, score in values.items()}
    return result


def write_comparison(logs: Path, corpus: str, recipes: dict[str, dict], every: int = 1) -> None:
    """A folder ``new`` with the results of a comparison: scores by recipe and set."""
    (logs / "new").mkdir()
    (logs / "new" / "about.yaml").write_text("about: a comparison\nmachine: one H1 GPU\n")
    content = {
        "corpus": {"name": corpus, "every": every},
        "recipes": {
            recipe: {"minutes": 5, "updates": 77, "validation_perplexity": 9.5, "note": None, "scores": sets}
            for recipe, sets in recipes.items()
        },
        "command": "python -m gtransformer.cli.compare x",
        "commit": "0123456789",
    }
    (logs / "new" / "comparison.json").write_text(json.dumps(content))


def test_page_is_up_to_date():
    """If this fails: bash scripts/report.sh, and look at what has changed."""
    assert (LOGS / "README.md").read_text(encoding="utf-8") == report.make_page(LOGS)


def test_check_fails_when_a_result_changes(logs: Path, capsys):
    assert report.main(["--logs", str(logs), "--check"]) == 0
    path = logs / "demo" / "results.json"
    content = json.loads(path.read_text())
    content["systems"]["gtransformer"]["scores"]["raw"]["s_bleu"]["score"] = 12.34
    path.write_text(json.dumps(content))
    before = (logs / "README.md").read_text()
    line = refused(logs, capsys, "--check")
    number = next(n for n, text in enumerate(before.splitlines(), 1) if "| `demo` |" in text)
    assert line.startswith(f"error: {logs / 'README.md'}, line {number}: out of date")
    assert line.endswith("run: bash scripts/report.sh")
    assert (logs / "README.md").read_text() == before, "a check writes nothing"
    assert report.main(["--logs", str(logs)]) == 0
    assert "| 12.34 |" in (logs / "README.md").read_text()
    assert report.main(["--logs", str(logs), "--check"]) == 0


def test_check_fails_without_a_page_and_when_a_folder_is_added(logs: Path, capsys):
    write_comparison(logs, "techdocs", {})
    assert "out of date" in refused(logs, capsys, "--check")
    (logs / "README.md").unlink()
    assert "not there yet; run: bash scripts/report.sh" in refused(logs, capsys, "--check")


def test_recipes_are_those_that_claim_the_tables():
    """The recipes that a table of the page names are those whose ``rows`` name the table, one a row."""
    claimed: dict[str, list[str]] = {}
    for (table, _), recipe in recipes_of_rows().items():
        claimed.setdefault(f"Table {table}" if table.isdigit() else table.capitalize(), []).append(recipe)
    paper = read_paper(LOGS / "paper.yaml")
    named = {table.name: sorted(row.recipe for row in table.rows if row.recipe) for table in paper.tables}
    assert {name: recipes for name, recipes in named.items() if recipes} == {
        name: sorted(recipes) for name, recipes in claimed.items()
    }


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper is not at hand (../shared)")
def test_figures_are_those_of_the_paper():
    """Number by number, in the order of the printed tables; and the three of section 5.4."""
    printed: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    text = PAPER.read_text(encoding="utf-8")
    for line in text.splitlines():
        if found := re.match(r"Table (\d):", line):
            printed[f"Table {found[1]}"], rows = rows, []
        elif "\t" in line:
            rows.append([re.sub(r"</?b>|\\", "", cell).strip() for cell in line.split("\t")[1:]])
    paper = read_paper(LOGS / "paper.yaml")
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
    lines = report.make_page(logs).splitlines()
    rows = [line for line in lines if line.startswith("| G-Transformer, randomly initialised | `base` | 23.53 |")]
    budget = "(5 min of training)"
    cells = [
        "23.53",
        f"21.00 {budget}",
        r"25.84\*",
        f"23.00 {budget}",
        "23.55",
        "",
    ]  # the paper's reference: a point more
    assert len(rows) == 1 and rows[0].split(" | ")[2:8] == cells
    (documents,) = [line for line in lines if line.startswith("| Transformer on documents | `doc_base` |")]
    assert documents.startswith(f"| Transformer on documents | `doc_base` |  |  | 0.76 | 4.00 {budget} |"), "no s-BLEU"
    assert (
        len([line for line in lines if line == "Ours: [new/comparison.json](new/comparison.json) (one H1 GPU)."]) == 4
    )
    (other,) = [line for line in lines if "news_dev" in line]
    assert "| `base` | ted | one H1 GPU | 5 | 77 | 9.50 | news_dev | 20.00 | 22.00 |" in other, "the raw reference"


def test_results_on_other_data_stand_apart(logs: Path):
    recipes = {
        "cpu_small_doc": {"techdocs_test": scores(2.0, 7.25, missing=3)},
        "cpu_tiny": {"techdocs_test": scores(1.0, 1.5)},
    }
    before = report.make_page(logs)
    write_comparison(logs, "techdocs", recipes, every=4)
    (logs / "new" / "learning_curves.png").write_bytes(b"")
    page = report.make_page(logs)
    assert "5 min of training" not in page, "not in the paper's tables"
    row = "| `cpu_small_doc` | techdocs, every 4th document | one H1 GPU | 5 | 77 | 9.50 | techdocs_test |"
    row += " (not aligned) | 7.25 |"
    section = page.split("### Table 2")[1].split("### Table 3")[0]
    assert f"| Transformer on documents {row}" in section.split("*not comparable with the figures above*")[1]
    assert "![new/learning_curves.png](new/learning_curves.png)" in section
    assert "| `cpu_tiny` |" in page.split("### Recipes that belong to no table")[1]
    assert "belong to no table" not in before
    assert "`python -m gtransformer.cli.compare x` | 0123456 |" in page


def test_studies_have_picture_and_command(logs: Path):
    (logs / "figure7").mkdir()
    (logs / "figure7" / "about.yaml").write_text("about: x\n")
    study = {"description": "Input length", "command": "python -m gtransformer.cli.study figure7"}
    (logs / "figure7" / "figure7.json").write_text(json.dumps(study))
    (logs / "figure7" / "figure7.png").write_bytes(b"")
    section = report.make_page(logs).split("## The paper's figures")[1]
    for text in (
        "figure7.json): Input length",
        "![Input length](figure7/figure7.png)",
        f"```bash\n{study['command']}\n",
    ):
        assert text in section


def test_folders_must_say_what_they_are(logs: Path, capsys):
    (logs / "new").mkdir()
    assert "new: says nowhere what it is; write a line 'about: what was run' into about.yaml" in refused(logs, capsys)
    (logs / "new" / "README.md").write_text("# A run\n\nmore\n")
    assert read_folder(logs, logs / "new").about == "A run"
    (logs / "new" / "about.yaml").write_text("what: x\n")
    assert "unknown key 'what'" in refused(logs, capsys)
    (logs / "new" / "about.yaml").write_text("about: [\n")
    assert "about.yaml: not valid YAML" in refused(logs, capsys)
    entry = "results: [{recipe: base, corpus: ted, sets: {ted_test: none.json}}]"
    (logs / "new" / "about.yaml").write_text(f"about: x\n{entry}\n")
    assert "none.json: no such file, though about.yaml there names it" in refused(logs, capsys)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"81.6 72.2 80.0"', '"81.6 72.2"', "Table 4, row 'CADec (Voita et al. 2019)': 2 figures for 3 columns"),
        ("recipe: sent_mbart", "recipe: sent_mbrat", "unknown recipe 'sent_mbrat'"),
        ('columns: "Europarl:d-BLEU"', 'columns: "Europal:d-BLEU"', "column 'Europal:d-BLEU': write CORPUS:METRIC"),
        ("statistics:", "statistic:", "lacks 'statistics'"),
        ('"436/428/429"]', "]", "Table 1, TED: 4 figures for 5 columns"),
    ],
)
def test_damaged_figures(logs: Path, capsys, old: str, new: str, message: str):
    path = logs / "paper.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    assert message in refused(logs, capsys)


def test_no_folder_of_results(tmp_path: Path, capsys):
    assert "no folder of results; it must hold paper.yaml" in refused(tmp_path, capsys)


def test_commands_come_in_an_order_that_works():
    assert commands("base") == ["bash scripts/run.sh base CORPUS all"]
    assert commands("doc_base_finetune") == [
        "bash scripts/run.sh base CORPUS prepare",
        "bash scripts/run.sh sent_base CORPUS prepare",
        "bash scripts/run.sh sent_base CORPUS train",
        "bash scripts/run.sh doc_base_finetune CORPUS all",
    ]


def test_cells_are_escaped():
    assert markdown(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
