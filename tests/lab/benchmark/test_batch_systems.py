"""Training and decoding of systems that read their batch, at a tiny size, beside the pseudo-document Transformer."""

from __future__ import annotations

import json

import pytest
import torch

from gtransformer.lab.benchmark.documents import make_dictionary, make_stretch
from gtransformer.lab.benchmark.systems import BATCHED, Setting, System
from gtransformer.lab.cli.benchmark import main
from gtransformer.search.generator import DocumentGenerator

TINY = ["--arch=gtransformer_mini", "--batch-tokens=80", "--lengths=8", "--sentences=8", "--vocabularies=60"]


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


@pytest.mark.slow
def test_training_steps_beside_the_pseudo_document_transformer(tmp_path, capsys):
    options = ["--systems=pseudo_documents,docflat", "--what=train", "--together", "--runs=1", f"--output={tmp_path}"]
    assert main([*TINY, *options, "--name=try"]) == 0
    base, row = json.loads((tmp_path / "try.json").read_text())["rows"]
    assert [base["name"], row["name"]] == ["pseudo_documents 3 local float32", "docflat 3 local float32"]
    assert row["tokens"] == base["tokens"] == 80 and "utilisation" not in row
    ratio = base["tokens_per_second"] / row["tokens_per_second"]
    assert row["ratios"] == {base["name"]: pytest.approx(ratio, rel=0.01)}
    assert row["steps_per_second"] == pytest.approx(1 / row["seconds"], rel=0.01, abs=1e-4)


@pytest.mark.slow
def test_decoding_beside_the_pseudo_document_and_the_sentence_transformer(tmp_path, capsys):
    """Five sentences as one batch, in the second of two passes."""
    options = ["--what=decode", "--together", "--runs=1", "--documents=5", "--beam=2", f"--output={tmp_path}"]
    assert main([*TINY, "--systems=doc_transformer,pseudo_documents,docflat", *options, "--name=try"]) == 0
    single, base, row = json.loads((tmp_path / "try.json").read_text())["rows"]
    assert [one["name"].split()[0] for one in (single, base, row)] == ["doc_transformer", "pseudo_documents", "docflat"]
    assert {one["tokens"] for one in (single, base, row)} == {40} and row["documents"] == 5
    assert row["ratios"] == {
        one["name"]: pytest.approx(one["tokens_per_second"] / row["tokens_per_second"], rel=0.01)
        for one in (single, base)
    }
    assert list(base["ratios"]) == [single["name"]]
    assert "docflat 3 local" in capsys.readouterr().out


@pytest.mark.parametrize("name", BATCHED)
def test_what_is_decoded_stands_behind_given_translations(name, monkeypatch):
    """The batch is searched once, each sentence behind its three, and made as long as its source."""
    calls, behind = [], DocumentGenerator.behind

    def seen(self, net_input, forced, new):
        calls.append((net_input["src_tokens"], torch.stack(list(forced)), new.tolist()))
        return behind(self, net_input, forced, new)

    monkeypatch.setattr(DocumentGenerator, "behind", seen)
    setting = Setting(name, 8, 80, arch="gtransformer_mini", vocabulary=60, sentence=8)
    found = System(setting).decode(documents=5, beam=2)
    ((source, forced, new),) = calls
    stretch = make_stretch(5, 8, 3, make_dictionary(60))["net_input"]
    assert source.equal(stretch["src_tokens"]) and forced.equal(stretch["prev_output_tokens"][:, :24])
    assert new == [1] * 5 and found["tokens"] == 40
    assert len(found["steps"]) >= 6  # between the steps of six words, </s> and what ends a translation


def test_what_cannot_be_measured(capsys):
    for options, message in (
        (["--what=train", "--lengths=16"], "docflat translates single sentences: give --lengths and --sentences"),
        (["--what=train", "--local=x"], "--local x: give numbers of sentences"),
    ):
        assert main([*TINY, "--systems=docflat", *options]) == 1
        assert message in capsys.readouterr().err


@torch.no_grad()
def test_more_local_context_is_more_work_for_the_same_loss_tokens():
    dictionary = make_dictionary(60)
    sizes = [make_stretch(4, 8, local, dictionary) for local in (1, 3)]
    assert [one["net_input"]["src_tokens"].numel() for one in sizes] == [64, 128]
    assert len({one["ntokens"] for one in sizes}) == 1
