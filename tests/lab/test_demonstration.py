"""The demonstration: its options as an experiment, and what it shows."""

from __future__ import annotations

import pytest

from gtransformer.cli.main import parse
from gtransformer.lab.demonstration import make_demonstration, summary, too_low


def test_its_options_make_an_experiment(tmp_path):
    line = "--compare --max-update 5 --documents 30 --set train.lr=1e-3 --set train.seed=2".split()
    _, args = parse("demo", ["--output", str(tmp_path), *line])
    experiment = make_demonstration(args)
    assert [run.seed for run in experiment.runs] == [2, 2]
    assert [run.folder.name for run in experiment.runs] == ["gtransformer", "transformer"]
    commands = [word for run in experiment.runs for word in experiment.commands(run)[0]]
    assert commands.count("train.max-update=5") == commands.count("train.lr=1e-3") == 2
    assert experiment.settings.sizes == {"documents": 30, "test_documents": 24}


@pytest.mark.slow
def test_what_it_shows(finished):
    text, numbers = summary(finished)
    assert numbers.keys() == {"sentences", "gtransformer"}
    for phenomenon in ("address", "ambiguity", "pronoun"):
        assert f"\n{phenomenon} (" in f"\n{text}"
    assert too_low(numbers["gtransformer"]) and not too_low({"s_bleu": 95.0, "accuracy": 99.0})
