"""Both steps of the Document Transformer, on two corpora, with a tiny model.

The stages run in this process (tests/in_process.py), as those of test_recipes.py do.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from gtransformer.cli.run import main
from gtransformer.run import stage as stages
from tests.core.end_to_end.test_recipes import DOCUMENTS, SENTENCES, SMALLER, UPDATES, write_corpus
from tests.in_process import run_module

pytestmark = pytest.mark.slow
BEST = Path("checkpoints", "checkpoint_best.pt")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch) -> list[list[str]]:
    """Step 1 on sentence pairs, the same text without <d>, then step 2 on documents."""
    monkeypatch.setenv("GTRANSFORMER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(stages, "run_logged", run_module)
    tiny = {
        section: {key: None if value == "" else value for key, value in options.items()}
        for section, options in SMALLER.items()
    }
    first, second = {"based-on": "document/sentences"}, {"based-on": "document/base"}
    second |= {"prepared-from": "one", "pretrained-from": "one"}
    for name, content in (("one", first), ("two", second)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content | tiny), encoding="utf-8")
    few, pairs = tmp_path / "few", tmp_path / "pairs"
    write_corpus(few)
    pairs.mkdir()
    for path in few.iterdir():
        lines = path.read_text(encoding="utf-8").replace("<d>\n", "")
        (pairs / path.name).write_text(f"<d>\n{lines}", encoding="utf-8")
    theirs = tmp_path / "runs" / "one" / "pairs"
    changes = [f"prepare.vocabulary={theirs / 'prepared'}", f"train.finetune-from-model={theirs / BEST}"]
    second = [str(tmp_path / "two.yaml"), str(few), "all", *(word for one in changes for word in ("--set", one))]
    return [*([str(tmp_path / "one.yaml"), str(pairs), stage] for stage in ("prepare", "train")), second]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # runpy's, of modules that are imported already
def test_two_steps(commands: list[list[str]], tmp_path: Path) -> None:
    for command in commands:
        assert main(command) == 0
    first, second = tmp_path / "runs" / "one" / "pairs", tmp_path / "runs" / "two" / "few"
    before, after = (torch.load(path / BEST) for path in (first, second))
    assert before["model"].keys() < after["model"].keys()
    assert all(torch.equal(value, after["model"][name]) for name, value in before["model"].items()), "to the bit"
    assert after["optimizer_history"][-1]["num_updates"] == UPDATES
    scores = json.loads((second / "test.scores.json").read_text(encoding="utf-8"))
    assert scores["counts"] | {"misaligned_instances": 0} == scores["counts"]
    assert scores["counts"]["sentences"] == DOCUMENTS["test"] * SENTENCES
