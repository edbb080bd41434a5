"""The command entropy: the numbers are those of the model on the split, for each head on request."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from fairseq.data import indexed_dataset

from gtransformer.cli.entropy import main

BOS, EOS = 0, 2  # fairseq's


@pytest.fixture
def prepared(saved_model, tmp_path):
    """The model's prepared corpus with a validation set of four instances, binarised as fairseq-preprocess does it."""
    folder = shutil.copytree(saved_model.parent / "prepared", tmp_path / "prepared")
    draw = random.Random(1)
    for lang in ("en", "de"):
        prefix = str(folder / "bin" / f"valid.en-de.{lang}")
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
