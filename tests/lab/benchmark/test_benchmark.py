"""The benchmark at a tiny size: every system trains and decodes, ratios follow from the medians, failures are rows."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from gtransformer.lab.benchmark.ctranslate import SentenceTranslator
from gtransformer.lab.benchmark.documents import make_batch, make_dictionary, make_stretch
from gtransformer.lab.benchmark.measure import alternate, machine
from gtransformer.lab.benchmark.names import BATCHED, SYSTEMS
from gtransformer.lab.benchmark.report import add_ratios, by_length, length_table, table
from gtransformer.lab.benchmark.systems import Kept, Setting, System
from gtransformer.lab.cli import benchmark as command
from gtransformer.lab.cli.benchmark import build_parser, main, make_workloads
from gtransformer.modules.processor import has_int8
from gtransformer.search.generator import DocumentGenerator

pytestmark = pytest.mark.slow

SIZES = {"arch": "gtransformer_mini", "vocabulary": 100}
TINY = ["--arch=gtransformer_mini", "--vocabularies=100", "--beam=2", "--runs=1", "--name=try"]


@pytest.mark.usefixtures("forked_workers")
def test_trains_and_decodes_in_turn(tmp_path, capsys):
    options = ["--lengths=32", "--together", "--systems=fairseq,packed", "--context=1", "--documents=2"]
    assert main([*TINY, *options, "--batch-tokens=64", f"--output={tmp_path}"]) == 0
    results = json.loads((tmp_path / "try.json").read_text())
    rows = results["rows"]
    assert len(rows) == 2 * 2  # methods, systems
    for row in rows:
        assert row["seconds"] > 0 and len(row["runs"]) == 1 and row["peak_bytes"] > 0
        for name, ratio in row["ratios"].items():
            (other,) = [one for one in rows if (one["name"], one["method"]) == (name, row["method"])]
            assert ratio == pytest.approx(other["tokens_per_second"] / row["tokens_per_second"], rel=0.01)
        if row["method"] == "decode":
            # Every document is translated into as many tokens, what ends it included.
            assert row["tokens"] == 2 * row["setting"]["tokens"]
            assert row["peak_bytes_per_token"] == pytest.approx(row["peak_bytes"] / row["tokens"], abs=1)
    assert {"command", "commit", "versions", "device", "machine"} <= set(results)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(
    ("systems", "options", "found"),
    [
        (  # Table 6 of Zhang et al. (2018): the second step, and decoding, beside the sentence Transformer
            "doc_transformer,document_transformer", ["--beside=0,2", "--documents=2"],
            ["doc_transformer", "document_transformer 0 beside", "document_transformer 2 beside"],
        ),
        (  # sentences as one batch, in the second of two passes
            "doc_transformer,pseudo_documents,docflat", ["--documents=5", "--batch-tokens=40"],
            ["doc_transformer", "pseudo_documents 3 local", "docflat 3 local"],
        ),
    ],
)  # fmt: skip
def test_systems_over_sentences_in_context(tmp_path, systems, options, found):
    single = ["--lengths=8", "--sentences=8", f"--systems={systems}", f"--output={tmp_path}"]
    assert main([*TINY, "--batch-tokens=64", *single, *options]) == 0
    rows = json.loads((tmp_path / "try.json").read_text())["rows"]
    assert [(row["method"], row["name"]) for row in rows] == [
        (method, f"{name} float32") for method in ("train_step", "decode") for name in found
    ]
    for sentences, *others in (rows[:3], rows[3:]):
        assert sentences["ratios"] == {}
        for row in others:
            assert row["tokens"] == sentences["tokens"]
            expected = sentences["tokens_per_second"] / row["tokens_per_second"]
            assert row["ratios"][sentences["name"]] == pytest.approx(expected, rel=0.01)


@pytest.mark.usefixtures("forked_workers")
def test_the_command_compares_lengths(tmp_path):
    work = ["--what=train", "--lengths=32,64", "--batch-tokens=64", "--windows=3", "--uneven", "--together"]
    assert main([*TINY, *work, "--systems=doc_transformer,window_transformer", f"--output={tmp_path}"]) == 0
    results = json.loads((tmp_path / "try.json").read_text())
    assert [(one["system"], one["window"]) for one in results["by_length"]] == [
        *(("doc_transformer", None), ("window_transformer", 3))
    ]
    for one in results["by_length"]:
        short, long = one["lengths"]
        assert [(length["documents"], length["tokens"]) for length in (short, long)] == [(2, 32), (1, 64)]
        assert long["ratios"]["kept"] == pytest.approx(long["kept_bytes"] / short["kept_bytes"], abs=1e-3)


@pytest.mark.parametrize("system", sorted({*SYSTEMS} - {"ctranslate2"}))
def test_every_system(system):
    setting = Setting(system, 32, 64, context=1, precision="bfloat16", sentence=32, **SIZES)
    result = System(setting).train_step()
    assert result["seconds"] > 0 and result["tokens"] == 64 and result["kept_bytes"] > 0


def test_the_same_sentences_with_and_without_context():
    """The current ones of the source, and the target; what a sentence model has is frozen."""
    setting = Setting("document_transformer", 8, 64, sentence=8, **SIZES)
    system, other = System(setting), System(replace(setting, system="doc_transformer"))
    (read, same), (alone, target) = (
        (batch["net_input"]["src_tokens"], batch["target"]) for batch in (one._batch(3) for one in (system, other))
    )
    assert torch.equal(read[:, 16:], alone) and torch.equal(same, target)
    assert (read == system.dictionary.bos()).sum(dim=1).tolist() == [3] * 3
    system.train_step()
    for name, parameter in system.model.named_parameters():
        assert parameter.requires_grad == (parameter.grad is not None) == ("context" in name), name


def test_a_stretch_of_a_document():
    """Each current sentence is behind those before it, counts alone, and is the same without them."""
    dictionary = make_dictionary(60)
    alone, behind = (make_stretch(5, 8, local, dictionary) for local in (0, 2))
    for key in ("src_tokens", "prev_output_tokens"):
        one, other = alone["net_input"][key], behind["net_input"][key]
        assert other.shape == (5, 24) and other[:, -8:].equal(one)
        assert other[1:, :16].equal(other[:-1, 8:])
        assert (other == dictionary.bos()).sum() == (other == dictionary.eos()).sum() == 15
    assert behind["ntokens"] == alone["ntokens"] == 40 == int((behind["target"] != dictionary.pad()).sum())
    assert behind["target"][:, -8:].equal(alone["target"]) and behind["first_sentence"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", BATCHED)
def test_what_is_decoded_stands_behind_given_translations(name, monkeypatch):
    """The batch is searched once, each sentence behind its three, and made as long as its source."""
    calls, original = [], DocumentGenerator.continue_prefixes

    def seen(self, net_input, forced_prefixes, new, *more):
        calls.append((net_input["src_tokens"], torch.stack(list(forced_prefixes)), new.tolist()))
        return original(self, net_input, forced_prefixes, new, *more)

    monkeypatch.setattr(DocumentGenerator, "continue_prefixes", seen)
    found = System(Setting(name, 8, 80, sentence=8, **SIZES)).decode(documents=5, beam=2)
    ((source, forced_prefixes, new),) = calls
    stretch = make_stretch(5, 8, 3, make_dictionary(100))["net_input"]
    assert source.equal(stretch["src_tokens"]) and forced_prefixes.equal(stretch["prev_output_tokens"][:, :24])
    assert new == [1] * 5 and found["tokens"] == 40


def test_uneven_sentences():
    dictionary = make_dictionary(50)
    even, uneven = (make_batch(1, 50, 8, dictionary, uneven)["net_input"] for uneven in (False, True))
    for tokens in (even["src_tokens"], even["prev_output_tokens"], uneven["prev_output_tokens"]):
        assert tokens[0].eq(dictionary.bos()).nonzero().flatten().tolist() == [0, 8, 16, 24, 32, 40]
    source = uneven["src_tokens"][0]
    assert source.eq(dictionary.bos()).nonzero().flatten().tolist() == [0, 6, 16, 22, 32, 38]
    assert source.eq(dictionary.eos()).nonzero().flatten().tolist() == [5, 15, 21, 31, 37, 49]


def test_fairseqs_positions_are_no_more_than_the_documents():
    """Its tables are made at once; a million positions would pass for memory that it needs."""
    system = System(Setting("fairseq", 32, 64, **SIZES))
    sizes = {part.embed_positions.weights.shape for part in (system.model.encoder, system.model.decoder)}
    assert all(32 < rows < 64 for rows, _ in sizes)


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


def test_windows_keep_what_a_token_costs():
    """Sixteen times as long documents: window attention keeps as much of a token, scores of all pairs grow."""

    def kept(system: str, tokens: int) -> int:
        work = {"window": 4, "sentence": 16, "uneven": True}
        return System(Setting(system, tokens, 1024, **work, **SIZES)).train_step()["kept_bytes"]

    assert kept("window_transformer", 1024) < 1.3 * kept("window_transformer", 64)
    assert kept("doc_transformer_dense", 1024) > 3 * kept("doc_transformer_dense", 64)


def test_out_of_time_is_a_row():
    rows = alternate([Setting("packed", 32, 64, **SIZES)], "train_step", 1, seconds=0.01, memory=None)
    assert rows[0]["failed"].startswith("more than") and not rows[0]["runs"]
    add_ratios(rows)
    assert "more than" in table(rows)


@pytest.mark.usefixtures("forked_workers")
def test_no_runs_count_memory():
    setting = Setting("doc_transformer", 32, 64, **SIZES)
    (row,) = alternate([setting], "train_step", 0, seconds=300, memory=None, fresh=True)
    assert "seconds" not in row and min(row["kept_bytes"], row["peak_bytes"]) > 0
    assert "not timed" in table([row])


def _row(system: str, seconds: float, tokens: int = 32, batch: int = 64, kept: int = 500, **work) -> dict:
    setting = Setting(system, tokens, batch, **work)
    count = setting.documents * tokens
    measured = {"runs": [seconds], "seconds": seconds, "tokens_per_second": count / seconds, "cpu_seconds": seconds / 2}
    memory = {"peak_bytes": 2 * kept, "kept_bytes": kept, "tokens": count, "peak_bytes_per_token": 16}
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


def test_ratios_over_lengths_are_of_a_token():
    rows = [
        _row("window_transformer", 3.0, 400, 400, 6000),
        _row("fairseq", 1.0, 100, 200, 1000),
        _row("window_transformer", 1.0, 100, 200, 2000),
        _row("window_transformer", 5.0, 100, 200, 2000, window=10),
        {key: value for key, value in _row("fairseq", 9.0, 400, 400).items() if key != "kept_bytes"},  # failed
        _row("fairseq", 7.0, 100, 200) | {"method": "decode"},
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
    untimed = [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows[:3:2]]
    (found,) = by_length(untimed)
    assert found["lengths"][1]["ratios"] == {"kept": 1.5, "peak": 1.5} and length_table([found]).count("1.50") == 2


def test_workloads_are_all_combinations_and_each_system_varies_in_what_it_has():
    options = ["--lengths=64", "--sentences=8,30", "--vocabularies=771,32000", "--dropouts=0,0.1", "--batch-tokens=99"]
    systems = ["--systems=fairseq,packed,doc_transformer_dense,window_transformer", "--context=0,2", "--windows=10,20"]
    parsed = build_parser().parse_args([*options, *systems, "--arch=gtransformer_big"])
    workloads = make_workloads(parsed, "cpu")
    assert len({setting.workload for settings in workloads for setting in settings}) == len(workloads) == 8
    assert {setting.documents for settings in workloads for setting in settings} == {1}
    for settings in workloads:
        assert [setting.name.removesuffix(" float32") for setting in settings] == [
            *("fairseq", "packed 0 global", "packed 2 global", "doc_transformer_dense"),
            *("window_transformer w=10", "window_transformer w=20"),
        ]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--systems=fairseq,marian"], "--systems"),
        (["--systems=window_transformer", "--windows=0"], "--windows"),
        (["--systems=document_transformer", "--beside=-1"], "--beside"),
        (["--systems=document_transformer", "--lengths=30", "--sentences=8,30"], "--lengths"),
        (["--systems=packed,lst_transformer", "--arch=gtransformer_mbart_large"], "--arch"),
        (["--systems=fairseq", "--arch=gtransformer_typo"], "--arch"),
        (["--systems=docflat", "--uneven"], "--uneven"),
        (["--dropouts=2"], "--dropouts 2"),
    ],
)
def test_what_cannot_be_measured(capsys, options, named):
    try:
        status = main(options)
    except SystemExit as ended:
        status = ended.code
    assert status and named in capsys.readouterr().err


def test_what_a_result_says_of_the_machine(tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 sse2\n")
    monkeypatch.setenv("OMP_NUM_THREADS", "5,1")
    found = machine(tmp_path / "cpuinfo")
    assert (found["processor"], found["instructions"], found["threads"]) == ("AMD EPYC", ["avx2"], 5)


def test_costs_of_a_step_are_those_counted_by_hand():
    """Of one document of one sentence with group attention only: what each step reads follows from the sizes."""
    length, beam, dim, layers = 8, 3, 128, 3
    system = System(Setting("packed", length, length, sentence=length, context=0, **SIZES))
    result = system.profile(1, beam)
    costs = result["profile"]
    weights = layers * (4 * dim**2 + 2 * dim**2 + 2 * dim * 4 * dim)  # self-attention, q and out of the other, fc1, fc2
    steps = length - 1  # nothing is read to write the language symbol
    assert costs["steps"] == steps and costs["rows"] == beam and result["tokens"] == length
    source = layers * 2 * dim**2  # keys and values of the source, once a document
    assert costs["bytes"]["layers"] == pytest.approx(4 * (weights + source / steps))
    assert costs["flops"]["layers"] == pytest.approx(2 * (weights * beam + source * length / steps))
    assert costs["bytes"]["projection"] == pytest.approx(4 * 100 * dim)
    seen = sum(step * beam + length for step in range(1, steps + 1)) / steps  # own tokens, and the source's
    assert costs["bytes"]["caches"] == pytest.approx(2 * 4 * dim * layers * seen)
    assert costs["flops"]["caches"] == pytest.approx(2 * 2 * beam * dim * layers * seen)
    parts = costs["seconds"]
    assert min(parts.values()) > 0
    assert parts["step"] == pytest.approx(sum(value for name, value in parts.items() if name != "step"))
    read, work = sum(costs["bytes"].values()), sum(costs["flops"].values())
    assert costs["floor"] == pytest.approx(max(read / costs["bandwidth"], work / costs["rate"]))


def test_what_cannot_be_profiled_is_refused(tmp_path, capsys):
    assert main(["--what=profile", "--systems=fairseq,packed", f"--output={tmp_path}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.usefixtures("forked_workers")
def test_decoding_in_parallel_and_in_int8(tmp_path):
    """Every sentence becomes as long as its source, whatever the strategy."""
    precisions = ["float32", *["int8"] * has_int8()]
    options = ["--what=decode", "--lengths=40", "--sentences=10", "--systems=packed", "--context=0,1", "--documents=2"]
    options += ["--strategies=full,parallel", f"--precisions={','.join(precisions)}", f"--output={tmp_path}"]
    assert main([*TINY, *options]) == 0
    rows = json.loads((tmp_path / "try.json").read_text())["rows"]
    details = [f"{one} global" for one in (0, 1)]
    assert [row["name"] for row in rows] == [
        f"packed {detail} {one}{strategy}" for one in precisions for detail in details for strategy in ("", " parallel")
    ]
    assert all(row["tokens"] == 2 * 40 for row in rows)


@torch.no_grad()
def test_ctranslate2_has_fairseqs_weights():
    """What it translates greedily is what fairseq's generator does with the same model."""
    pytest.importorskip("ctranslate2")
    system = System(Setting("ctranslate2", 16, 16, sentence=8, **SIZES))
    words = make_batch(2, 16, 8, system.dictionary)["net_input"]["src_tokens"].view(4, 8)
    for one in system.model.parameters():
        one.mul_(3.0)  # sharper than at first
    generator = SequenceGenerator(
        [system.model.eval()], system.dictionary, beam_size=1, max_len_a=0, max_len_b=9, min_len=9
    )
    batch = {"net_input": {"src_tokens": words, "src_lengths": torch.full((4,), 8), "prev_output_tokens": words}}
    begin = system.dictionary.bos()
    tokens = [found[0]["tokens"][:9] for found in generator.generate([], batch, bos_token=begin)]
    expected = [[system.dictionary[index] for index in one] for one in tokens]
    heads = system.model.cfg.encoder.attention_heads
    translator = SentenceTranslator(system.model, system.dictionary, heads, "float32")
    texts = [[system.dictionary[index] for index in one] for one in words[:, 1:-1].tolist()]
    found = translator.translate(texts, 1, 9)
    assert found == expected and len(set(map(tuple, found))) > 1


@pytest.mark.usefixtures("forked_workers")
def test_ctranslate2_in_turn(tmp_path):
    """Sentences of the same documents, as many tokens each."""
    pytest.importorskip("ctranslate2")
    options = ["--what=decode", "--lengths=40", "--sentences=10", "--systems=ctranslate2,packed", "--context=0"]
    assert main([*TINY, *options, "--documents=2", f"--output={tmp_path}"]) == 0
    rows = json.loads((tmp_path / "try.json").read_text())["rows"]
    assert [row["tokens"] for row in rows] == [2 * 40] * 2 and rows[0]["cpu_ratios"].keys() == {rows[1]["name"]}


def test_ctranslate2_where_it_cannot_be(tmp_path, monkeypatch, capsys):
    options = [*TINY, "--systems=ctranslate2", f"--output={tmp_path}"]
    assert main(options) == 1 and "give --what decode and" in capsys.readouterr().err
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert main([*options, "--what=decode"]) == 1
    assert capsys.readouterr().err.startswith("error: --systems ctranslate2 is not installed")


def test_int8_is_for_decoding(tmp_path, capsys):
    for options in (["--systems=packed"], ["--what=decode"]):
        assert main([*TINY, "--precisions=int8", f"--output={tmp_path}", *options]) == 1
        assert capsys.readouterr().err.startswith("error: --precisions int8 is for decoding with our systems")
