"""``gtransformer SUBCOMMAND``: every command's help is quick, mistakes get one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gtransformer.cli.commands import COMMANDS
from gtransformer.cli.main import main
from tests.support import ROOT

SLOW = ("torch", "fairseq", "matplotlib")


def fresh(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run code in a process that has imported nothing."""
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_is_shown_before_anything_slow_is_imported(name):
    code = f"""
import sys
from gtransformer.cli.main import main
try:
    status = main(sys.argv[1:])
except SystemExit as ended:
    status = ended.code
slow = [name for name in {SLOW} if name in sys.modules]
sys.exit(f"status {{status}}, imported {{slow}}" if status or slow else 0)
"""
    done = fresh(code, *name.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: gtransformer {name}" in done.stdout


def test_the_map_names_every_command(capsys):
    assert main(["--help"]) == 0
    top = capsys.readouterr().out
    assert main(["lab", "--help"]) == 0
    lab = capsys.readouterr().out
    assert not [name for name in COMMANDS if f"  {name} " not in (lab if name.startswith("lab ") else top)]


@pytest.mark.parametrize(
    ("words", "said"), [("prepere", "prepare"), ("lab experimnt", "lab experiment"), ("what", "--help")]
)
def test_an_unknown_command_is_refused_in_a_sentence(words, said, capsys):
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error and said in error
