"""What users are likely to get wrong: one line that names it, a non-zero status, no changed file.

``refusals.yaml`` is the table: by command, what the message must contain, the files that the
command finds, and further options.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from gtransformer.cli.main import main
from tests.commands import GENERATION, run
from tests.support import ROOT

pytestmark = pytest.mark.slow
TABLE = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))
ROWS = [(command, *row) for command, rows in TABLE.items() for row in rows]


def everything(folder: Path) -> dict[str, bytes]:
    """Return all files with what they hold."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].split()[0]}: {row[1]}")
def test_refusal(saved_model, tmp_path, capsys, monkeypatch, row):
    command, named, files, *more = row
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GTRANSFORMER_RUNS", "runs")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    (tmp_path / "corpus").symlink_to(ROOT / "tests" / "prepared" / "len48")
    if "--model" in command:
        shutil.copytree(saved_model, tmp_path / "model")
    for name, content in files.items():
        if name in ("en", "de"):
            name = f"raw/concatenated_en2de_train_{name}.txt"
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = json.dumps(content)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = everything(tmp_path)
    try:
        status = main([*command.split(), *more])
    except SystemExit as end:
        status = end.code
    assert status in (1, 2)  # 2 of argparse, behind the usage
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert named in error
    assert everything(tmp_path) == before


def test_fairseqs_commands(saved_model):
    """Their last line is the sentence, without a traceback."""
    data = saved_model.parent / "prepared" / "bin"
    output = run("generate", data, *GENERATION, "--path", "none.pt", status=1)
    assert "none.pt" in output.splitlines()[-1] and "Traceback" not in output
