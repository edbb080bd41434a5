"""The benchmark at a tiny size: every system trains and decodes, ratios follow from the medians, failures are rows."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from gtransformer.lab.benchmark.measure import alternate
from gtransformer.lab.benchmark.report import add_ratios, curve, table, value
from gtransformer.lab.benchmark.systems import SYSTEMS, Setting, System
from gtransformer.lab.cli import benchmark
from gtransformer.lab.cli.benchmark import _workloads, build_parser, main

pytestmark = pytest.mark.slow

TINY = ["--arch=gtransformer_mini", "--vocabularies=100", "--batch-tokens=64", "--documents=2", "--beam=2"]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
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
            # Every document is translated into as many tokens, what ends it included.
            assert row["tokens"] == 2 * row["setting"]["tokens"]
            assert row["peak_bytes_per_token"] == pytest.approx(row["peak_bytes"] / row["tokens"], abs=1)
    assert {"command", "commit", "versions", "device", "machine"} <= set(results)
    methods = ("train_step", "decode2")
    pictures = {f"try_{method}_{kind}.png" for method in methods for kind in ("time", "memory")}
    assert {path.name for path in tmp_path.glob("*.png")} == pictures
    assert main(["--draw", str(tmp_path / "try.json"), f"--output={tmp_path / 'again'}", "--name=both"]) == 0
    assert {path.name for path in (tmp_path / "again").iterdir()} == {name.replace("try", "both") for name in pictures}
    assert "packed 1 global float32" in capsys.readouterr().out


def _place(row):
    return row["name"], row["method"], row["setting"]["tokens"]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_system(system, precision):
    sizes = {"arch": "gtransformer_mini", "vocabulary": 100, "sentence": 32}
    setting = Setting(system, 32, 64, context=1, precision=precision, **sizes)
    result = System(setting).train_step()
    assert result["seconds"] > 0 and result["tokens"] == 64 and result["kept_bytes"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_sentences_with_context_beside(tmp_path, capsys):
    """Table 6 of Zhang et al. (2018): the second step, and decoding, beside the sentence Transformer."""
    options = ["--lengths=8", "--sentences=8", "--runs=1", "--systems=doc_transformer,document_transformer"]
    assert main([*TINY, *options, "--beside=0,2", f"--output={tmp_path}", "--name=try"]) == 0
    rows = json.loads((tmp_path / "try.json").read_text())["rows"]
    assert [(row["method"], row["name"]) for row in rows] == [
        (method, f"{name} float32")
        for method in ("train_step", "decode")
        for name in ("doc_transformer", "document_transformer 0 beside", "document_transformer 2 beside")
    ]
    for sentences, *beside in (rows[:3], rows[3:]):
        assert sentences["ratios"] == {}
        for row in beside:
            assert row["tokens"] == sentences["tokens"] and set(row["ratios"]) == {sentences["name"]}
            expected = sentences["tokens_per_second"] / row["tokens_per_second"]
            assert row["ratios"][sentences["name"]] == pytest.approx(expected, rel=0.01)
    assert "/ doc_transformer float32" in capsys.readouterr().out


def test_the_same_sentences_with_and_without_context():
    """The current ones of the source, and the target; what a sentence model has is frozen."""
    setting = Setting("document_transformer", 8, 64, arch="gtransformer_mini", vocabulary=100, sentence=8)
    system, other = System(setting), System(replace(setting, system="doc_transformer"))
    (read, same), (alone, target) = (
        (batch["net_input"]["src_tokens"], batch["target"]) for batch in (one._batch(3) for one in (system, other))
    )
    assert torch.equal(read[:, 16:], alone) and torch.equal(same, target)
    assert (read == system.dictionary.bos()).sum(dim=1).tolist() == [3] * 3
    system.train_step()
    for name, parameter in system.model.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None) == ("context" in name), name


def test_windows_in_turn(tmp_path, capsys, monkeypatch):
    """As many tokens in one document as in eight: what is kept for the backward pass is the same within a fifth."""
    monkeypatch.setattr(benchmark, "WINDOW_WORK", ((1, 1024), (8, 128)))
    monkeypatch.setattr(benchmark, "WINDOW_SIZE", {"channels": 16, "heads": 2})
    assert main(["--what=windows", "--runs=2", f"--output={tmp_path}", "--name=try"]) == 0
    results = json.loads((tmp_path / "try.json").read_text())
    assert {"command", "commit", "versions", "device", "machine"} <= set(results)
    rows = results["rows"]
    assert [(row["setting"]["documents"], row["setting"]["relative"]) for row in rows] == [
        (1, False), (8, False), (1, True), (8, True)
    ]  # fmt: skip
    for first, row in zip(rows[::2], rows[1::2], strict=True):
        assert first["tokens"] == row["tokens"] == 1024 and len(row["runs"]) == 2
        assert first["time_ratio"] == first["memory_ratio"] == 1 and row["time_ratio"] > 0
        assert row["memory_ratio"] == pytest.approx(row["kept_bytes"] / first["kept_bytes"], abs=1e-3)
        assert 1 / 1.2 < row["memory_ratio"] < 1.2
    assert "8 x 128 tokens, relative positions" in capsys.readouterr().out


@pytest.mark.slow
def test_out_of_time_is_a_row():
    settings = [Setting("packed", 32, 64, arch="gtransformer_mini")]
    rows = alternate(settings, "train_step", 1, seconds=0.01, memory=None)
    assert rows[0]["failed"].startswith("more than") and not rows[0]["runs"]
    add_ratios(rows)
    assert "more than" in table(rows)


def _row(system, seconds, **work):
    setting = Setting(system, 32, 64, **work)
    measured = {"runs": [seconds], "seconds": seconds, "tokens_per_second": 64 / seconds, "cpu_seconds": seconds / 2}
    memory = {"peak_bytes": 1000, "tokens": 64, "peak_bytes_per_token": 16}
    return {"setting": asdict(setting), "name": setting.name, "method": "train_step", **measured, **memory}


@pytest.mark.parametrize(
    "other", [{"precision": "bfloat16"}, {"vocabulary": 771}, {"sentence": 8}, {"dropout": 0.0}], ids=str
)
def test_ratios_are_of_like_with_like(other):
    fairseq, packed, unlike = _row("fairseq", 3.0), _row("packed", 2.0), _row("packed", 1.0, **other)
    add_ratios(rows := [fairseq, packed, unlike])
    assert fairseq["ratios"] == fairseq["cpu_ratios"] == {"packed 0 global float32": 1.5}
    assert packed["ratios"] == unlike["ratios"] == {}
    assert table(rows).count("1.50 x") == 1
    assert len({curve(packed), curve(unlike)}) == 2


def test_fairseqs_positions_are_no_more_than_the_documents():
    """Its tables are made at once; a million positions would pass for memory that it needs."""
    system = System(Setting("fairseq", 32, 64, arch="gtransformer_mini", vocabulary=100))
    sizes = {part.embed_positions.weights.shape for part in (system.model.encoder, system.model.decoder)}
    assert all(32 < rows < 64 for rows, _ in sizes)


def test_memory_is_divided_by_the_tokens_of_the_run():
    row = _row("packed", 1.0) | {"method": "decode", "peak_bytes": 660_000, "tokens": 33}
    assert value(row, "kilobytes") == 20.0


def test_workloads_are_all_combinations():
    options = [
        "--lengths=458",
        "--sentences=8,30",
        "--vocabularies=771,32000",
        "--dropouts=0,0.1",
        "--batch-tokens=900",
    ]
    workloads = _workloads(build_parser().parse_args([*options, "--systems=fairseq,packed", "--context=2"]), "cpu")
    assert len({setting.workload for settings in workloads for setting in settings}) == len(workloads) == 8
    assert {len(settings) for settings in workloads} == {2}
    assert {setting.documents for settings in workloads for setting in settings} == {1}


def test_each_system_varies_in_what_it_has():
    options = ["--systems=fairseq,packed,doc_transformer_dense,window_transformer", "--context=0,2", "--windows=10,20"]
    (settings,) = _workloads(build_parser().parse_args([*options, "--lengths=64", "--arch=gtransformer_big"]), "cpu")
    assert [setting.name.removesuffix(" float32") for setting in settings] == [
        *("fairseq", "packed 0 global", "packed 2 global", "doc_transformer_dense"),
        *("window_transformer w=10", "window_transformer w=20"),
    ]
    assert {setting.architecture for setting in settings} == {
        *("gtransformer_big", "doc_transformer_big", "window_transformer_big")
    }


def test_what_cannot_be_measured(capsys):
    assert main(["--systems=fairseq,marian"]) == 1
    assert "--systems: marian unknown" in capsys.readouterr().err
    for width in ("0", "10,x"):
        assert main(["--systems=window_transformer", f"--windows={width}"]) == 1
        assert f"--windows {width}: give widths of at least 1" in capsys.readouterr().err
    assert main(["--systems=document_transformer", "--lengths=30", "--sentences=8,30"]) == 1
    assert "document_transformer translates single sentences: give --lengths" in capsys.readouterr().err
    assert main(["--systems=document_transformer", "--beside=-1"]) == 1
    assert "--beside -1: give numbers of sentences" in capsys.readouterr().err
    assert main(["--systems=packed,lst_transformer", "--arch=gtransformer_mbart_large"]) == 1
    assert "--arch gtransformer_mbart_large: doc_transformer and others have the sizes of" in capsys.readouterr().err
