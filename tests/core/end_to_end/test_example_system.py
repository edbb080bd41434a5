"""The worked example of docs/new_system.md: its commands as printed, and its text."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from gtransformer.run.recipe import load_recipe
from tests.commands import losses, run
from tests.core.run.locations import parse_training
from tests.support import ROOT

TEXT = (ROOT / "docs" / "new_system.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "example_system" / "neighbours"
SMALL = (
    "--cpu --max-update 4 --log-format simple --log-interval 1 --num-workers 0 --decoder-layers 2 "
    "--encoder-layers 2 "
    "--encoder-embed-dim 32 --decoder-embed-dim 32 --encoder-ffn-embed-dim 48 "
    "--decoder-ffn-embed-dim 48 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2"
).split()
SHORT = ["--cpu", "--max-len-a=1", "--max-len-b=2"]


def blocks(language: str) -> list[str]:
    """The code that the text prints."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def printed(command: str, folder: Path, *more: str) -> str:
    """Run the text's command of fairseq on the corpus and with the files of ``folder``."""
    (line,) = [
        line
        for block in blocks("bash")
        for line in block.replace("\\\n", " ").splitlines()
        if command in line
    ]
    words = shlex.split(
        line.replace("prepared/bin", str(folder / "bin")).replace(
            "checkpoints", str(folder / "saved")
        )
    )
    return run(words[0].removeprefix("fairseq-"), *words[1:], *more)


def test_commands_as_printed(copy_corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # for --user-dir docs/example_system/neighbours
    (tmp_path / "bin").symlink_to(copy_corpus / "bin")
    assert len(losses(printed("fairseq-train", tmp_path, *SMALL))) == 4
    output = printed("fairseq-generate", tmp_path, *SHORT, f"--gen-output={tmp_path / 'found'}")
    assert "Translated 60 sentences" in output
    for line in (tmp_path / "found.jsonl").read_text().splitlines():
        one = json.loads(line)
        assert len(one["hypotheses"][0]["sentences"]) == one["sentences"] == 3


def test_the_recipe_of_the_text(tmp_path, monkeypatch):
    """It names the user-dir: fairseq-train takes its options."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "mine.yaml").write_text(blocks("yaml")[0])
    parse_training(load_recipe(str(tmp_path / "mine.yaml")))


def test_code_of_the_text_is_the_code_that_runs():
    code = (EXAMPLE / "__init__.py").read_text(encoding="utf-8")
    shown = blocks("python")
    assert len(shown) >= 3 and len(code.splitlines()) < 100
    assert not [block for block in shown if block not in code]
