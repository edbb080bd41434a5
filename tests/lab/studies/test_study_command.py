"""The command study: what it refuses, what it says before it begins, and its list of runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from gtransformer.lab.benchmark.names import SYSTEMS
from gtransformer.lab.cli import benchmark
from gtransformer.lab.cli.study import build_parser, main
from gtransformer.lab.pipeline import Pipeline
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


def listed(capsys, arguments: list[str]) -> list[list[str]]:
    """State and name of every run that --list shows."""
    capsys.readouterr()
    assert main([*arguments, "--list"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("|")]
    return [line.split("  ") for line in lines]


def test_the_list_needs_no_preparation_and_no_lock(arguments, tmp_path, capsys):
    runs = listed(capsys, arguments)
    assert len(runs) == 8 and {state for state, _ in runs} == {"to do"}
    assert not (tmp_path / "out").exists(), "nothing is prepared, nothing is written"
    folder = tmp_path / "out" / "runs" / runs[2][1]
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    with Pipeline(tmp_path / "out", "study"):
        assert listed(capsys, arguments) == [["done" if i == 2 else "to do", name] for i, (_, name) in enumerate(runs)]


def test_the_list_before_there_is_a_corpus(arguments, tmp_path, capsys, monkeypatch):
    arguments[1] = "demo"
    runs = listed(capsys, arguments)
    assert len(runs) == 8 and runs[0] == ["to do", "demo_full-len64-seed3"] and not (tmp_path / "out").exists()
    figure = FIGURE.replace("axis: length, values: [64, 512]", "axis: instances, values: [10, 90000]")
    (tmp_path / "figure.yaml").write_text(figure)
    assert main([*arguments, "--list"]) == 0
    output = capsys.readouterr().out
    assert "the demonstration corpus is not generated yet" in output and "larger than the corpus" in output
    monkeypatch.setenv("DATA", str(tmp_path))
    assert main([arguments[0], "ted", *arguments[2:], "--list"]) == 0
    assert "fetch the corpus with scripts/get_ted.sh" in capsys.readouterr().out
    assert main([arguments[0], str(tmp_path / "none"), *arguments[2:], "--list"]) == 1


def test_studies_are_listed(capsys):
    """By --list alone; without it figure, corpus and output are needed."""
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^  {name}  +\S", listed, re.MULTILINE) for name in study_names())
    with pytest.raises(SystemExit):
        main(["figure7"])
    assert "the following arguments are required: corpus, output" in capsys.readouterr().err


def test_systems_that_prepare_differently(arguments, tmp_path, capsys):
    (tmp_path / "common.yaml").write_text(COMMON.replace("recipe: demo_full", "recipe: doc_base"))
    assert main([*arguments, "--list"]) == 1
    assert "recipes 'doc_base' and 'demo' prepare the corpus differently" in capsys.readouterr().err


@pytest.mark.parametrize("faster", [True, False])
def test_miniatures_train_in_bfloat16_where_that_is_faster(arguments, monkeypatch, faster):
    monkeypatch.setattr(runner, "trains_faster_in_bfloat16", lambda: faster)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    study = runner.make_study(build_parser().parse_args(arguments))
    assert (runner.BFLOAT16 in study.changes) == faster


def test_memory_by_length_is_measured_by_the_benchmark(capsys, monkeypatch):
    """Table 2 of the window-attention paper; further options come after its own."""
    given = []
    read = benchmark.build_parser().parse_args
    monkeypatch.setattr(benchmark, "main", lambda arguments: given.append(read(arguments)) or 3)
    assert main(["table2", "out", "--lengths", "64"]) == 3
    (options,) = given
    assert (options.output, options.name, options.lengths) == (Path("out"), "memory_by_length", [64])
    assert options.fresh and options.runs == int(torch.cuda.is_available())
    assert {"window_transformer", "fairseq"} < set(options.systems) < set(SYSTEMS)
    for arguments in (["table2"], ["table2", "--lengths", "64"]):
        assert main(arguments) == 1 and "gtransformer lab study table2 OUTPUT" in capsys.readouterr().err
    assert len(given) == 1
