"""The results page: the paper's figures and where results stand in it, on results made up here.

That exp_logs/README.md is up to date is for scripts/test.sh to check, beside ruff.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.lab.cli import report
from gtransformer.lab.report.folders import read_folder, script_command
from gtransformer.lab.report.page import make_page
from gtransformer.lab.report.paper import PAPER, commands
from gtransformer.lab.report.paper_tables import markdown
from tests.lab.report.report_logs import refused, scores, write_comparison


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


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("corpus", "every"), "comparison.json: lacks the key 'corpus.every'"),
        (("corpus",), "comparison.json: lacks the key 'corpus'"),
        (("recipes", "base", "updates"), "comparison.json: lacks the key 'recipes.base.updates'"),
        (("recipes", "base", "scores"), "lacks the key 'recipes.base.scores'"),
        (("recipes", "base", "scores", "x", "aligned"), "lacks the key 'recipes.base.scores.x.aligned'"),
        (
            ("recipes", "base", "scores", "x", "release", "d_bleu"),
            "lacks the key 'recipes.base.scores.x.release.d_bleu'",
        ),
        (("recipes", "base", "scores", "x", "raw", "s_bleu", "score"), "scores.x.raw.s_bleu.score'"),
    ],
)
def test_missing_keys_of_a_result(logs: Path, capsys, keys: tuple[str, ...], message: str):
    write_comparison(logs, "techdocs", {"base": {"x": scores(1.0, 2.0)}})
    path = logs / "new" / "comparison.json"
    content = json.loads(path.read_text())
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = [None]
    path.write_text(json.dumps(content))
    assert f"{path}: '" in refused(logs, capsys), "of another kind"
    del part[keys[-1]]
    path.write_text(json.dumps(content))
    line = refused(logs, capsys)
    assert line.startswith(f"error: {path}: ") and message in line


def test_results_without_any_score(logs: Path, capsys):
    write_comparison(logs, "techdocs", {"base": {"x": {"aligned": True}}})
    assert "'recipes.base.scores.x' has no score against any reference (raw, release, tokenised)" in refused(
        logs, capsys
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("statistics: [{corpus: techdocs}]", "about.yaml: lacks the key 'manifest'"),
        ("statistics: [{manifest: m.json}]", "about.yaml: lacks the key 'corpus'"),
        ("statistics: [techdocs]", "about.yaml: it holds 'techdocs', but lines of the form"),
        ("statistics: techdocs", "about.yaml: 'statistics' is 'techdocs', but a list must stand there"),
        ("statistics: [{corpus: x, manifest: none.json}]", "none.json: no such file, though about.yaml"),
        ("statistics: [{corpus: x, manifest: m.json}]", "m.json: lacks the key 'splits.test.documents'"),
        ("results: [base]", "about.yaml: an entry of 'results' has recipe, corpus, sets"),
        ("results: [{recipe: base, corpus: ted, sets: x}]", "about.yaml: 'sets' is 'x', but lines of the form"),
        ("results: [{recipe: base, corpus: ted, sets: {a: [b]}}]", "no such file, though about.yaml"),
        ("results: [{recipe: base, corpus: ted, sets: {a: m.json}}]", "m.json: lacks the key 'counts'"),
        ("results: [{recipe: base, corpus: ted, every: few, sets: {a: s.json}}]", "'every' is 'few', but a whole"),
        ("machine: [x]", "about.yaml: 'machine' is"),
    ],
)
def test_damaged_descriptions(logs: Path, capsys, text: str, message: str):
    (logs / "new").mkdir()
    (logs / "new" / "about.yaml").write_text(f"about: x\n{text}\n")
    score = {"score": 1.0, "signature": "x"}
    file = {"scores": {"raw": {"s_bleu": score, "d_bleu": score}}}
    (logs / "new" / "m.json").write_text(json.dumps(file | {"splits": {"test": {"sentences": 3}}}))
    (logs / "new" / "s.json").write_text(json.dumps(file | {"counts": {"misaligned_instances": 0}}))
    assert message in refused(logs, capsys)


def test_studies_have_picture_and_command(logs: Path):
    (logs / "figure7").mkdir()
    (logs / "figure7" / "about.yaml").write_text("about: x\n")
    study = {"description": "Input length", "command": "python -m gtransformer.lab.cli.study figure7"}
    (logs / "figure7" / "figure7.json").write_text(json.dumps(study))
    (logs / "figure7" / "figure7.png").write_bytes(b"")
    section = make_page(logs).split("## Figures of Bao et al. (2021)")[1]
    for text in (
        "figure7.json): Input length",
        "![Input length](figure7/figure7.png)",
        "```bash\nbash scripts/study.sh figure7\n",
    ):
        assert text in section
    assert "python -m gtransformer.cli" not in make_page(logs), "these need the environment to be activated"


def test_commands_without_a_script_stay_as_they_are():
    assert script_command("python -m gtransformer.cli.score a --by position") == "bash scripts/score.sh a --by position"
    for command in ("python -m gtransformer.cli.nothing x", "python -m gtransformer.cli.scores", "bash x"):
        assert script_command(command) == command


def test_folders_must_say_what_they_are(logs: Path, capsys):
    (logs / "new").mkdir()
    assert "new: says nowhere what it is; write a line 'about: what was run' into about.yaml" in refused(logs, capsys)
    (logs / "new" / "README.md").write_text("# A run\n\nmore\n")
    assert read_folder(logs, logs / "new").about == "A run"
    (logs / "new" / "about.yaml").write_text("what: x\n")
    assert "unknown key 'what'" in refused(logs, capsys)
    (logs / "new" / "about.yaml").write_text("about: [\n")
    assert "about.yaml, line 2: not valid YAML" in refused(logs, capsys)
    entry = "results: [{recipe: base, corpus: ted, sets: {ted_test: none.json}}]"
    (logs / "new" / "about.yaml").write_text(f"about: x\n{entry}\n")
    assert "none.json: no such file, though about.yaml there names it" in refused(logs, capsys)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"81.6 72.2 80.0"', '"81.6 72.2"', "Table 4, row 'CADec (Voita et al. 2019)': 2 figures for 3 columns"),
        ("recipe: sent_mbart", "recipe: sent_mbrat", "unknown recipe 'sent_mbrat'"),
        ('columns: "Europarl:d-BLEU"', 'columns: "Europal:d-BLEU"', "column 'Europal:d-BLEU': write CORPUS:METRIC"),
        (
            "statistics:",
            "statistic:",
            "paper.yaml, line 31: unknown key 'statistic'; known are changes, corpora, introduction",
        ),
        ("corpora: {", "corpora: [] #", "paper.yaml: 'corpora' is '[]', but lines of the form"),
        ("reference: release", "reference: printed", "reference 'printed': known are raw, release, tokenised"),
        ('paper: "33.75"', "paper: 33.75", "paper.yaml: 'paper' is '33.75', but text must stand there"),
        ("    News: [", "    Newz: [", "Table 1, Newz: not one of the corpora, TED, News, Europarl"),
        ('"436/428/429"]', "]", "Table 1, TED: 4 figures for 5 columns"),
    ],
)
def test_damaged_figures(logs: Path, capsys, old: str, new: str, message: str):
    path = logs / "paper.yaml"
    text = PAPER.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    assert message in refused(logs, capsys, "--paper", str(path))


def test_no_folder_of_results(tmp_path: Path, capsys):
    assert "no folder of results; it must hold about.yaml" in refused(tmp_path, capsys)


def test_commands_come_in_an_order_that_works():
    assert commands("base") == ["bash scripts/run.sh base CORPUS all"]
    assert commands("doc_base_finetune") == [
        "bash scripts/run.sh base CORPUS prepare",
        "bash scripts/run.sh sent_base CORPUS train",
        "bash scripts/run.sh doc_base_finetune CORPUS all",
    ]


def test_cells_are_escaped():
    assert markdown(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
