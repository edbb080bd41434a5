"""The benchmark at a tiny size: every system trains and decodes, ratios follow from the medians, failures are rows."""

import json

import pytest

from gtransformer.benchmark.measure import alternate
from gtransformer.benchmark.report import add_ratios, table
from gtransformer.benchmark.systems import Setting, System
from gtransformer.cli.benchmark import main

TINY = ["--arch=gtransformer_tiny", "--batch-tokens=64", "--documents=2", "--beam=2"]


@pytest.mark.slow
def test_trains_and_decodes_in_turn(tmp_path, capsys):
    options = ["--lengths=32", "--together", "--runs=1", "--systems=fairseq,packed", "--context=1", "--documents=2"]
    assert main([*TINY, *options, f"--output={tmp_path}", "--name=try"]) == 0
    results = json.loads((tmp_path / "try.json").read_text())
    rows = results["rows"]
    assert len(rows) == 2 * 2  # methods, systems
    for row in rows:
        assert row["seconds"] > 0 and len(row["runs"]) == 1 and row["peak_bytes"] > 0
        for name, ratio in row["ratios"].items():
            (other,) = [o for o in rows if _place(o) == (name, row["method"], row["setting"]["tokens"])]
            assert ratio == pytest.approx(other["tokens_per_second"] / row["tokens_per_second"], rel=0.01)
        if row["method"] == "train_step":
            rate = results["matrix_rate"]["float32"]
            assert row["utilisation"] == pytest.approx(row["operations"] / row["seconds"] / rate, rel=0.05, abs=1e-3)
        if row["method"] == "decode":
            # Every document is translated into as many tokens, and the language symbol.
            assert row["tokens"] == 2 * (row["setting"]["tokens"] + (row["setting"]["system"] != "fairseq"))
    assert {"command", "commit", "versions", "device", "threads"} <= set(results)
    methods = ("train_step", "decode2")
    pictures = {f"try_{method}_{kind}.png" for method in methods for kind in ("time", "memory")}
    assert {path.name for path in tmp_path.glob("*.png")} == pictures
    assert main(["--draw", str(tmp_path / "try.json"), f"--output={tmp_path / 'again'}", "--name=both"]) == 0
    assert {path.name for path in (tmp_path / "again").iterdir()} == {name.replace("try", "both") for name in pictures}
    assert "packed 1 global float32" in capsys.readouterr().out


def _place(row):
    return row["name"], row["method"], row["setting"]["tokens"]


@pytest.mark.parametrize("system", ["fairseq", "dense", "entropy", "packed"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_system(system, precision):
    setting = Setting(system, 32, 64, context=1, precision=precision, arch="gtransformer_tiny", vocabulary=100)
    result = System(setting).train_step()
    assert result["seconds"] > 0 and result["tokens"] == 64


@pytest.mark.slow
def test_out_of_time_is_a_row():
    settings = [Setting("packed", 32, 64, arch="gtransformer_tiny")]
    rows = alternate(settings, "train_step", 1, seconds=0.01, memory=None)
    assert rows[0]["failed"].startswith("more than") and not rows[0]["runs"]
    add_ratios(rows)
    assert "more than" in table(rows)


def test_an_unknown_system(capsys):
    assert main(["--systems=fairseq,marian"]) == 1
    assert "--systems: marian unknown" in capsys.readouterr().err
