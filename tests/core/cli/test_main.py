"""``gtransformer SUBCOMMAND``: every command's help is quick, mistakes get one sentence."""

from __future__ import annotations

import subprocess
import sys

from gtransformer.cli.commands import COMMANDS
from gtransformer.cli.main import main
from tests.support import ROOT

CODE = """
import sys
from gtransformer.cli.main import main
for name in sys.argv[1:]:
    try:
        assert main([*name.split(), "--help"]) == 0, name
    except SystemExit as ended:
        assert not ended.code, name
    assert not {"torch", "fairseq", "matplotlib"} & set(sys.modules), name
"""


def test_help_is_shown_before_anything_slow_is_imported():
    """Of every command; in a process that has imported nothing."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *COMMANDS], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [f"usage: gtransformer {name} " in done.stdout for name in COMMANDS] == [True] * len(
        COMMANDS
    )


def test_the_map_names_every_command(capsys):
    assert main(["--help"]) == 0
    top = capsys.readouterr().out
    assert main(["lab", "--help"]) == 0
    lab = capsys.readouterr().out
    assert not [
        name for name in COMMANDS if f"  {name} " not in (lab if name.startswith("lab ") else top)
    ]
