"""The arena on the results page and in the README, from the recorded result and from made-up ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.arena.statistics import error_of
from gtransformer.lab.cli import report
from gtransformer.lab.report.arena_section import BEGIN, END, arena_sections, fill_readme
from tests.support import ROOT

RECORDED = ROOT / "exp_logs" / "arena"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs with the recorded arena alone."""
    folder = tmp_path / "exp_logs"
    shutil.copytree(RECORDED, folder / "arena")
    (folder / "about.yaml").write_text("machine: two made-up cores\n")
    return folder


def changed(logs: Path, change: dict) -> dict:
    path = logs / "arena" / "arena.json"
    result = json.loads(path.read_text()) | change
    path.write_text(json.dumps(result))
    return result


def rows(text: str, system: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| `{system}` |")]
    return [[cell.strip() for cell in line.strip("|").split("|")[1:]] for line in lines]


def test_it_stands_first(logs: Path):
    introduction, arena = arena_sections(logs)
    assert "must not be compared" in introduction and "![arena](arena/arena.png)" in arena
    system = json.loads((logs / "arena" / "arena.json").read_text())["systems"]["gtransformer"]
    reach, scores = rows(arena, "gtransformer")
    near = system["accuracy"]["by_distance_both"]["1"]["mean"]
    assert reach[2] == f"{near['accuracy']:.1f} ±{error_of(near):.1f}" and len(reach) == 9
    assert "discloses the answer, the same on both sides:" in arena
    assert scores[0].startswith(f"{system['scores']['s_bleu']['mean']:.2f} ±")
    assert "600 updates from 'start'" in arena and "gtransformer lab arena demo" in arena


def test_the_readme_is_filled_and_checked(logs: Path, capsys):
    readme = logs.parent / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n")
    assert report.main(["--logs", str(logs)]) == 0
    page, text = (logs / "README.md").read_text(), readme.read_text()
    assert page.index("## The arena") < page.index("## Tables of ")
    assert text.startswith(f"before\n{BEGIN}\n![accuracy over distance](exp_logs/arena/arena.png)\n\n| system |")
    assert (
        text.endswith(f"flat_transformer.\n{END}\nbehind\n")
        and "; 3 seed(s). Updates are not of one size: from 373 target" in text
        and "old" not in text
    )
    (row,) = rows(text, "concatenation")
    assert row == ["88.2", "89.8", "67.7", "60.1", "44.4", "44.4", "44.4", "44.4", "44.4"]
    assert report.main(["--logs", str(logs), "--check"]) == 0
    changed(logs, {"updates": 7})
    assert report.main(["--logs", str(logs)]) == 0 and "All: 7 updates" in readme.read_text()
    readme.write_text(text)
    capsys.readouterr()
    assert report.main(["--logs", str(logs), "--check"]) == 1
    assert f"error: {readme}, line " in capsys.readouterr().err
    assert fill_readme("no such lines", logs) == "no such lines"


def test_a_corpus_without_a_set(logs: Path):
    systems = json.loads((logs / "arena" / "arena.json").read_text())["systems"]
    for system in systems.values():
        del system["accuracy"]
    changed(logs, {"systems": systems, "corpus": {"name": "letters"}, "start": None, "updates": None, "minutes": 0.5})
    _, arena = arena_sections(logs)
    assert "corpus letters" in arena and "0.5 minutes from random weights" in arena
    assert len(rows(arena, "lst")) == 1 and "discloses" not in arena


def test_rows_of_another_arena_are_named(logs: Path):
    result = json.loads((logs / "arena" / "arena.json").read_text())
    origin = {"machine": {"processor": "Another"}, "commit": None, "systems": ["lst", "window"]}
    changed(logs, {"beside": [origin | {"baseline": result["systems"]["sentences"]["scores"]}]})
    _, arena = arena_sections(logs)
    assert "\n\nOf another arena (Another), compared with its 'sentences' (s-BLEU 87.7" in arena
    assert "): lst, window.\n\nAll: 600 updates" in arena


@pytest.mark.parametrize(
    "change",
    [
        {"systems": []},
        {"beside": [{}]},
    ],
)
def test_damaged(logs: Path, change: dict):
    changed(logs, change)
    with pytest.raises(UserError, match="arena.json: no result"):
        arena_sections(logs)
