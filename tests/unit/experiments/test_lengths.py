"""Which lengths, and how their instances are made; real translations: tests/end_to_end/test_run.py."""

from __future__ import annotations

import pytest

from gtransformer.cli.lengths import build_parser, main
from gtransformer.experiments.lengths import Lengths, lengths_text
from tests.unit.experiments.pretended import changes, pretend


@pytest.fixture
def lengths(tmp_path):
    """Lengths of the model of a run, which only looks like one."""
    (tmp_path / "raw").mkdir(exist_ok=True)
    model = tmp_path / "model.pt"
    model.write_bytes(b"a model")

    def make(*options: str) -> Lengths:
        line = ["cpu_small", str(tmp_path / "raw"), str(tmp_path / "out"), f"--checkpoint={model}", *options]
        return Lengths(build_parser().parse_args(line))

    return make


def test_instances_of_other_lengths(lengths):
    """Whatever the recipe says of its own; shortest first, each once."""
    found = lengths("--tokens", "90", "30", "90", "--sentences", "2")
    assert list(found.lengths) == ["2 sentences", "30 tokens", "90 tokens"]
    stages = found.pipeline.stages
    told = changes(stages["translate-30-tokens"])
    assert {"task.instances=greedy", "task.instance-tokens=30", "task.context-sentences="} <= set(told)
    assert {"task.instances=disjoint", "task.context-sentences=1"} <= set(changes(stages["translate-2-sentences"]))


def test_what_was_done_is_kept_unless_the_model_is_another(lengths, tmp_path):
    assert len(pretend(lengths("--tokens", "30").pipeline)) == 2
    assert pretend(lengths("--tokens", "30", "60").pipeline) == ["translate-60-tokens", "score-60-tokens"]
    (tmp_path / "model.pt").write_bytes(b"another")
    assert len(pretend(lengths("--tokens", "30").pipeline)) == 2


def test_table():
    scores = {key: {"score": 7.125, "signature": f"{key}|x"} for key in ("s_bleu", "d_bleu", "chrf", "ter")}
    part = {"instances": 4, "sentences": 10, "misaligned_instances": 1, "scores": scores, "seconds": 3.0}
    _, row, *signatures = lengths_text({"lengths": {"30 tokens": part}}).splitlines()
    assert row.split() == ["30", "tokens", "2.5", *["7.12"] * 4, "1", "of", "4", "3"] and len(signatures) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no lengths; give some with --tokens or --sentences"),
        (["--tokens", "0"], "--tokens 0: give 1 or more"),
        (["--tokens", "30", "--jobs", "0"], "--jobs 0: give at least 1"),
        (["--tokens", "30"], "no such checkpoint; train the recipe first, or give --checkpoint"),
    ],
)
def test_bad_input(tmp_path, capsys, options, message):
    assert main(["cpu_small", str(tmp_path), str(tmp_path / "out"), f"--run={tmp_path}", *options]) == 1
    assert message in capsys.readouterr().err
