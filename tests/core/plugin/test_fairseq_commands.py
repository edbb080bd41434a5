"""fairseq's commands on a trained checkpoint and on its model directory."""

import re

import pytest

from tests.commands import run
from tests.support import ROOT

pytestmark = pytest.mark.slow

SMALL = ROOT / "tests" / "small_model"
PATHS = SMALL / "checkpoint.pt", SMALL / "model"


def test_validation_needs_no_task():
    """The checkpoint's own is used; fairseq-validate has no default and ended in a KeyError."""
    line = [SMALL / "prepared" / "bin", "--cpu", "--max-tokens=2000"]
    outputs = [run("validate", *line, f"--path={path}") for path in PATHS]
    found = [re.findall(r" (nll_loss|word_nll_loss) (\S+)", output) for output in outputs]
    assert found[0] == found[1] == [("nll_loss", "2.069"), ("word_nll_loss", "2.195")]


def test_translations_of_a_model_directory_are_those_of_its_checkpoint():
    line = [
        SMALL / "prepared" / "bin",
        "--task=translation_doc",
        "--cpu",
        "--beam=2",
        "--max-len-b=10",
    ]
    found = [
        re.findall(r"^H-.*$", run("generate", *line, f"--path={path}"), re.MULTILINE)
        for path in PATHS
    ]
    assert found[0] == found[1] and len(found[0]) > 3
