"""The command study: what it refuses, and what it chooses by the machine."""

from __future__ import annotations

import re

import pytest
import torch

from gtransformer.lab.cli.study import build_parser, main
from gtransformer.lab.studies import runner
from gtransformer.lab.studies.plan import study_names
from tests.lab.studies.conftest import COMMON, FIGURE


@pytest.fixture
def arguments(tmp_path):
    """Of a miniature of eight runs, over a raw corpus of three small splits."""
    (tmp_path / "common.yaml").write_text(COMMON)
    (tmp_path / "figure.yaml").write_text(FIGURE)
    (tmp_path / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for lang in ("en", "de"):
            (tmp_path / "raw" / f"concatenated_en2de_{split}_{lang}.txt").write_text(f"<d>\n{split} {lang}\n")
    return [str(tmp_path / "figure.yaml"), str(tmp_path / "raw"), str(tmp_path / "out"), "--miniature"]


def test_studies_are_listed(capsys):
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^  {name}  +\S", listed, re.MULTILINE) for name in study_names())
    with pytest.raises(SystemExit):
        main(["figure7"])


def test_systems_that_prepare_differently(arguments, tmp_path, capsys):
    (tmp_path / "common.yaml").write_text(COMMON.replace("recipe: demo_full", "recipe: doc_base"))
    assert main(arguments) == 1
    assert "recipes 'doc_base' and 'demo' prepare the corpus differently" in capsys.readouterr().err


@pytest.mark.parametrize("faster", [True, False])
def test_miniatures_train_in_bfloat16_where_that_is_faster(arguments, monkeypatch, faster):
    monkeypatch.setattr(runner, "trains_faster_in_bfloat16", lambda: faster)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    study = runner.make_study(build_parser().parse_args(arguments))
    assert (runner.BFLOAT16 in study.changes) == faster
