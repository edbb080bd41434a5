"""Cost by length of documents: what is counted, ratios worked out by hand, and that windows keep a token's cost."""

import json
from dataclasses import asdict

import pytest
import torch
from torch import nn

from gtransformer.lab.benchmark.documents import make_batch, make_dictionary
from gtransformer.lab.benchmark.kept import Kept
from gtransformer.lab.benchmark.lengths import by_length, length_table
from gtransformer.lab.benchmark.measure import alternate
from gtransformer.lab.benchmark.report import table
from gtransformer.lab.benchmark.systems import Setting, System
from gtransformer.lab.cli.benchmark import main

pytestmark = pytest.mark.slow


def test_kept_storages_count_once_and_parameters_do_not():
    layer = nn.Linear(4, 8)
    x = torch.randn(16, 4, requires_grad=True)
    with Kept(layer.parameters()) as kept:
        hidden = layer(x)
        (hidden.exp() * x.repeat(1, 2)).sum()
    # The input, what exp returned (for two products) and the repeated input; of the layer's weight nothing.
    assert kept.bytes == 4 * (16 * 4 + 16 * 8 + 16 * 8)
    with Kept() as kept:
        layer(x)
    assert kept.bytes == 4 * (16 * 4 + 4 * 8)


def _row(system: str, tokens: int, batch: int, seconds: float, kept: int, **more) -> dict:
    setting = Setting(system, tokens, batch, **more)
    measured = {"seconds": seconds, "cpu_seconds": seconds / 2, "kept_bytes": kept, "peak_bytes": 2 * kept}
    numbers = {"tokens": setting.documents * tokens, **measured}
    return {"setting": asdict(setting), "name": setting.name, "method": "train_step", **numbers}


def test_ratios_are_of_a_token():
    rows = [
        _row("window_transformer", 400, 400, 3.0, 6000),
        _row("fairseq", 100, 200, 1.0, 1000),
        _row("window_transformer", 100, 200, 1.0, 2000),
        _row("window_transformer", 100, 200, 5.0, 2000, window=10),
        {key: value for key, value in _row("fairseq", 400, 400, 9.0, 0).items() if key != "kept_bytes"},  # failed
        _row("fairseq", 100, 200, 7.0, 0) | {"method": "decode"},
    ]
    windows, fairseq, narrow = by_length(rows)
    assert (windows["system"], windows["window"]) == ("window_transformer", 20)
    short, long = windows["lengths"]
    assert (short["tokens"], short["documents"], short["seconds"]) == (100, 2, 1.0)
    assert set(short["ratios"].values()) == {1.0}
    assert (long["tokens"], long["documents"], long["kept_bytes"], long["peak_bytes"]) == (400, 1, 6000, 12000)
    assert long["ratios"] == {name: 1.5 for name in ("time", "cpu", "kept", "peak")}  # three times as much for twice
    assert (fairseq["name"], fairseq["window"], len(fairseq["lengths"])) == ("fairseq float32", None, 1)
    assert (narrow["name"], narrow["lengths"][0]["seconds"]) == ("window_transformer w=10 float32", 5.0)
    assert "1 x   400" in length_table([windows]) and "1.50" in length_table([windows])
    assert by_length([]) == []


def test_memory_without_times():
    rows = [_row("fairseq", tokens, tokens, 0.0, kept) for tokens, kept in ((100, 1000), (200, 3000))]
    untimed = [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]
    (fairseq,) = by_length(untimed)
    assert fairseq["lengths"][1]["ratios"] == {"kept": 1.5, "peak": 1.5}
    assert length_table([fairseq]).count("1.50") == 2


@pytest.mark.slow
def test_no_runs_count_memory():
    setting = Setting("doc_transformer", 32, 64, arch="gtransformer_mini", vocabulary=100)
    (row,) = alternate([setting], "train_step", 0, seconds=300, memory=None, fresh=True)
    assert "seconds" not in row and min(row["kept_bytes"], row["peak_bytes"]) > 0
    assert "not timed" in table([row])


def test_uneven_sentences():
    dictionary = make_dictionary(50)
    batches = [make_batch(1, 50, 8, dictionary, uneven) for uneven in (False, True)]
    even, uneven = (batch["net_input"] for batch in batches)
    for tokens in (even["src_tokens"], even["prev_output_tokens"], uneven["prev_output_tokens"]):
        assert tokens[0].eq(dictionary.bos()).nonzero().flatten().tolist() == [0, 8, 16, 24, 32, 40]
    source = uneven["src_tokens"][0]
    assert source.eq(dictionary.bos()).nonzero().flatten().tolist() == [0, 6, 16, 22, 32, 38]
    assert source.eq(dictionary.eos()).nonzero().flatten().tolist() == [5, 15, 21, 31, 37, 49]


def test_windows_keep_what_a_token_costs():
    """Sixteen times as long documents: window attention keeps as much of a token, scores of all pairs grow."""

    def kept(system: str, tokens: int) -> int:
        sizes = {"arch": "gtransformer_mini", "vocabulary": 100, "window": 4, "sentence": 16, "uneven": True}
        return System(Setting(system, tokens, 1024, **sizes)).train_step()["kept_bytes"]

    assert kept("window_transformer", 1024) < 1.3 * kept("window_transformer", 64)
    assert kept("doc_transformer_dense", 1024) > 3 * kept("doc_transformer_dense", 64)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_the_command_compares_lengths(tmp_path, capsys):
    work = ["--what=train", "--lengths=32,64", "--batch-tokens=64", "--windows=3", "--uneven", "--vocabularies=100"]
    systems = "--systems=doc_transformer,window_transformer"
    options = [*work, systems, "--arch=gtransformer_mini", "--together", "--runs=1"]
    assert main([*options, f"--output={tmp_path}", "--name=try"]) == 0
    results = json.loads((tmp_path / "try.json").read_text())
    assert {"command", "commit", "versions", "device", "machine"} <= set(results)
    assert [(one["system"], one["window"]) for one in results["by_length"]] == [
        *(("doc_transformer", None), ("window_transformer", 3))
    ]
    rows = {(row["name"], row["setting"]["tokens"]): row for row in results["rows"]}
    for one in results["by_length"]:
        short, long = one["lengths"]
        assert [(length["documents"], length["tokens"]) for length in (short, long)] == [(2, 32), (1, 64)]
        for length in (short, long):
            row = rows[one["name"], length["tokens"]]
            assert row["setting"]["uneven"] and row["kept_bytes"] == length["kept_bytes"] > 0
        assert long["ratios"]["kept"] == pytest.approx(long["kept_bytes"] / short["kept_bytes"], abs=1e-3)
        assert long["ratios"]["time"] == pytest.approx(long["seconds"] / short["seconds"], abs=1e-3)
    assert "window_transformer w=3 float32" in capsys.readouterr().out
