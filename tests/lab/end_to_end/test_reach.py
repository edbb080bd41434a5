"""The set that shows reach under models that see two sentences: without the answer in view, exactly chance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtransformer.cli import prepare
from gtransformer.lab.cli import items, reach_corpus
from tests.saved_model import make_checkpoint

pytestmark = pytest.mark.slow

# Two sentences of each side or of the source alone; one sentence is what the arena's baseline sees (test_arena.py).
KINDS = {
    "sliding": ["--instances=sliding", "--context-sentences=1"],
    "source": ["--instances=current", "--context-sentences=1", "--target-context-sentences=0"],
}
CHANCE = {"pronoun": 3, "address": 2, "ambiguity": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """``raw``, ``prepared`` and, with its vocabulary, the set in ``set``."""
    folder = tmp_path_factory.mktemp("reach")
    sizes = ["--documents=2", "--dev-documents=1", "--test-documents=1", "--items=6"]
    assert reach_corpus.main([f"--output={folder / 'raw'}", *sizes]) == 0
    for raw, out, more in (
        ("raw", "prepared", "--vocabulary-size=500"),
        ("raw/set", "set", f"--vocabulary={folder}/prepared"),
    ):
        assert prepare.main([str(folder / raw), str(folder / out), more, "--workers=1"]) == 0
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_chance_where_nothing_in_view_discloses(folder, kind):
    model = make_checkpoint(folder / "prepared", folder / f"{kind}.pt", "--doc-mode=full", *KINDS[kind])
    line = [str(folder / "set"), f"--path={model}", f"--output={folder / kind}.json"]
    assert items.main([*line, f"--items={folder / 'raw' / 'set' / 'contrastive_reach.json'}", "--cpu"]) == 0
    result = json.loads((folder / f"{kind}.json").read_text())
    assert result["placed"] == "last"
    side = "distance_source" if kind == "source" else "distance"
    for phenomenon, answers in CHANCE.items():
        rows = result[f"by_phenomenon_and_{side}"][phenomenon]
        assert list(rows) == ["1", "2", "3", "4-6", "7-12", "13-24", "25+"]
        for row, part in rows.items():
            if row != "1":
                assert part["solved"] * answers == part["items"]
