"""The command entropy: the numbers are those of the model on the split, for each head on request."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from fairseq.data import indexed_dataset

from gtransformer.lab.cli.entropy import main
from tests.saved_model import make_checkpoint

pytestmark = pytest.mark.slow

BOS, EOS = 0, 2  # fairseq's


@pytest.fixture(params=["valid"])
def prepared(request, saved_model, tmp_path):
    """The model's prepared corpus with one set, of four instances, binarised as fairseq-preprocess does it."""
    folder = shutil.copytree(saved_model.parent / "prepared", tmp_path / "prepared")
    draw = random.Random(1)
    for lang in ("en", "de"):
        prefix = str(folder / "bin" / f"{request.param}.en-de.{lang}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=40)
        for lengths in ([3, 1, 4], [2, 2], [5], [1, 6]):
            words = [[BOS, *draw.choices(range(4, 24), k=length), EOS] for length in lengths]
            builder.add_item(torch.tensor([*(token for sentence in words for token in sentence), EOS]).int())
        builder.finalize(f"{prefix}.idx")
    return folder


def test_measures_a_checkpoint(prepared, saved_model, tmp_path, capsys):
    checkpoint = saved_model.parent / "checkpoint.pt"
    found = []
    for number, options in enumerate(([], ["--per-head", "--max-tokens", "1"])):
        output = tmp_path / f"{number}.json"
        arguments = [str(prepared), "--path", str(checkpoint), "--cpu", "--output", str(output)]
        assert main([*arguments, *options]) == 0
        found.append(json.loads(output.read_text()))
    mean, heads = (result["entropy"] for result in found)
    assert {(one["part"], one["reach"]) for one in mean} == {
        (part, reach) for part in ("encoder", "decoder", "cross") for reach in ("group", "global")
    }
    for one, each in zip(mean, heads, strict=True):
        assert {key: one[key] for key in ("part", "reach", "layer", "queries", "flat")} == {
            key: each[key] for key in ("part", "reach", "layer", "queries", "flat")
        }
        assert len(one["bits"]) == 1 < len(each["bits"])
        # Entropy is concave: that of the mean is at least the mean of the heads' entropies.
        assert sum(each["bits"]) / len(each["bits"]) <= one["bits"][0] + 1e-5 <= one["flat"] + 2e-5
    assert {"command", "commit", "versions", "device"} <= found[0].keys()
    assert capsys.readouterr().out.count("part     reach") == 2


@pytest.mark.parametrize("missing", ["checkpoint", "corpus"])
def test_missing_files(saved_model, tmp_path, capsys, missing):
    folder = saved_model.parent
    prepared = tmp_path if missing == "corpus" else folder / "prepared"
    path = tmp_path / "no.pt" if missing == "checkpoint" else folder / "checkpoint.pt"
    assert main([str(prepared), "--path", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path if missing == 'checkpoint' else prepared}: no")


@pytest.mark.parametrize("prepared", ["train"], indirect=True)
@pytest.mark.parametrize("done", [["--doc-noise-mask", "0.9"], ["--shuffled-context", "everything"]])
def test_the_training_set_is_measured_as_it_is(prepared, tmp_path, done):
    """Whatever the model was trained with, dropped words or exchanged sentences: entropies are those of the text."""
    found = []
    for name, options in (("plain", []), ("trained", done)):
        sliding = ["--instances", "sliding", "--context-sentences", "1"]
        checkpoint = make_checkpoint(prepared, tmp_path / f"{name}.pt", *sliding, *options)
        arguments = ["--split", "train", "--cpu", "--output", str(tmp_path / "out.json")]
        assert main([str(prepared), "--path", str(checkpoint), *arguments]) == 0
        found.append(json.loads((tmp_path / "out.json").read_text())["entropy"])
    assert found[0] == found[1]


def test_an_instance_beyond_the_models_positions(prepared, tmp_path, capsys):
    """The longest source has 3 + 1 + 4 words and three times two marks; the others have 8 tokens, 7 and 11."""
    learned = ["--encoder-learned-pos", "--max-source-positions", "11"]
    checkpoint = make_checkpoint(prepared, tmp_path / "learned.pt", *learned)
    arguments = [str(prepared), "--path", str(checkpoint), "--cpu", "--output", str(tmp_path / "out.json")]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: instance 0 has (14, ") and "--skip-invalid-size-inputs-valid-test" in error
    assert error.count("\n") == 1 and not (tmp_path / "out.json").exists()
    assert main([*arguments, "--skip-invalid-size-inputs-valid-test"]) == 0
    encoder = json.loads((tmp_path / "out.json").read_text())["entropy"][-1]
    assert (encoder["part"], encoder["queries"]) == ("encoder", 8 + 7 + 11)


def test_a_damaged_checkpoint(prepared, tmp_path, capsys):
    (tmp_path / "bad.pt").write_bytes(b"bad")
    assert main([str(prepared), "--path", str(tmp_path / "bad.pt")]) == 1
    assert capsys.readouterr().err.startswith(f"error: checkpoint {tmp_path / 'bad.pt'} cannot be read")
