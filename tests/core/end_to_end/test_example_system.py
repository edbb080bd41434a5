"""The worked example of docs/new_system.md: its commands as printed, with caches and without, and its text."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.commands import environment, losses
from tests.processes import run_group
from tests.support import ROOT

TEXT = (ROOT / "docs" / "new_system.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "example_system" / "neighbours"
REACH = re.compile(r"^ +(prefix_sentences|cached_memory) = .*\n", re.MULTILINE)  # the lines of the second step
SMALL = (
    "--cpu --max-update 4 --log-format simple --log-interval 1 --num-workers 0 --decoder-layers 2 --encoder-layers 2 "
    "--encoder-embed-dim 32 --decoder-embed-dim 32 --encoder-ffn-embed-dim 48 --decoder-ffn-embed-dim 48 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2"
).split()
SHORT = ["--cpu", "--max-len-a=1", "--max-len-b=2"]


def blocks(language: str) -> list[str]:
    """The code that the text prints."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def printed(command: str, folder: Path, *more: str) -> str:
    """Run the text's ``fairseq-{command}`` from the checkout, on the corpus and with the files of ``folder``."""
    (line,) = [line for block in blocks("bash") for line in block.replace("\\\n", " ").splitlines() if command in line]
    words = shlex.split(line.replace("prepared/bin", str(folder / "bin")).replace("checkpoints", str(folder / "saved")))
    words[0] = words[0].replace("-", "_cli.", 1).removeprefix("fairseq")
    done = run_group([sys.executable, "-m", f"fairseq{words[0]}", *words[1:], *more], cwd=ROOT, env=environment())
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def without_reach(folder: Path) -> Path:
    """The example before its second step."""
    code = (EXAMPLE / "__init__.py").read_text(encoding="utf-8")
    assert len(REACH.findall(code)) == 2
    copy = folder / EXAMPLE.name
    copy.mkdir()
    (copy / "__init__.py").write_text(REACH.sub("", code), encoding="utf-8")
    return copy


def test_commands_as_printed(copy_corpus, tmp_path):
    """Trained and translated without a cache; with the reach named, the same model translates the same."""
    (tmp_path / "bin").symlink_to(copy_corpus / "bin")
    slow = f"--user-dir={without_reach(tmp_path)}"
    assert len(losses(printed("fairseq-train", tmp_path, *SMALL, slow))) == 4
    found = []
    for name, more in (("slow", [slow]), ("fast", [])):
        output = printed("fairseq-generate", tmp_path, *SHORT, f"--gen-output={tmp_path / name}", *more)
        assert "Translated 60 sentences" in output
        found.append([json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()])
    for one, other in zip(*found, strict=True):
        assert len(one["hypotheses"][0]["sentences"]) == one["sentences"] == 3
        for ours, theirs in zip(one["hypotheses"], other["hypotheses"], strict=True):
            assert ours["sentences"] == theirs["sentences"]
            assert ours["score"] == pytest.approx(theirs["score"], abs=1e-4)


def test_code_of_the_text_is_the_code_that_runs():
    code = (EXAMPLE / "__init__.py").read_text(encoding="utf-8")
    shown = blocks("python")
    assert len(shown) >= 3 and len(code.splitlines()) < 100
    assert not [block for block in shown if block not in code]
