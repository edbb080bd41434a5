"""The command entropy: bits and shares are those of the model on the split, instances as they were trained."""

from __future__ import annotations

import json
import random
import shutil

import pytest
import torch
from fairseq.data import indexed_dataset

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.lab.cli.entropy import main
from gtransformer.plugin.checkpoints import load_trained
from tests.lab.analysis import share_oracle
from tests.saved_model import make_checkpoint
from tests.support import ROOT

pytestmark = pytest.mark.slow

LEN48 = ROOT / "tests" / "prepared" / "len48"
FULL = ["--doc-mode", "full"]
# Options, and how many previous sentences of source and target stand before each; None: no sentence is context.
GROUPED = {
    "sliding": ([*FULL, "--instances", "sliding", "--context-sentences", "2"], (2, 2)),
    "current": ([*FULL, "--instances", "current", "--context-sentences", "1"], (1, 0)),
    "documents": ([*FULL, "--instances", "disjoint", "--context-sentences", "100"], None),
    "sliding, by group": (["--instances", "sliding", "--context-sentences", "1"], (1, 1)),
    "stored": (FULL, "stored"),
    "single": ([*FULL, "--instances", "disjoint", "--context-sentences", "0"], (0, 0)),
}  # fmt: skip


def documents(lang: str) -> list[list[list[str]]]:
    """The test set as it was prepared: documents of sentences of pieces."""
    instance_index = InstanceIndex.load(LEN48 / "bin" / "test.en-de.instances.json")
    lines = (LEN48 / "instances" / f"test.{lang}").read_text(encoding="utf-8").splitlines()
    found = [[] for _ in range(instance_index.documents)]
    for (document, _, _), line in zip(instance_index.instances, lines, strict=True):
        found[document] += [sentence.split()[:-1] for sentence in line.split("<s>")[1:]]
    return found


def expected(model, task, target: list[list[list[str]]], context) -> tuple[float, int]:
    """The mean over layers and tokens by loops; and the number of tokens."""

    def tokens(dictionary, sentences: list[list[str]]) -> list[int]:
        marked = [["<s>", *pieces, "</s>"] for pieces in sentences]
        return [dictionary.index(piece) for sentence in marked for piece in sentence]

    found = []
    for number, (one, other) in enumerate(zip(documents("en"), target, strict=True)):
        ranges = [(n, n + 1) for n in range(len(one))] if isinstance(context, tuple) else [(0, len(one))]
        if context == "stored":
            stored = InstanceIndex.load(LEN48 / "bin" / "test.en-de.instances.json").instances
            ranges = [(first, first + count) for document, first, count in stored if document == number]
        before = context if isinstance(context, tuple) else (0, 0)
        for first, last in ranges:
            source = tokens(task.source_dictionary, one[max(0, first - before[0]) : last])
            written = tokens(task.target_dictionary, other[max(0, first - before[1]) : last])
            _, layers = share_oracle.shares(model, source, written, last - first)
            found.append([[share for share, _, _ in rows] for rows in layers.values()])
    layers = [[share for rows in layer for share in rows] for layer in zip(*found, strict=True)]
    return sum(sum(layer) / len(layer) for layer in layers) / len(layers), len(layers[0])


def measured(tmp_path, checkpoint, *options: str, prepared=LEN48) -> dict:
    output = tmp_path / "out.json"
    arguments = [str(prepared), "--path", str(checkpoint), "--split", "test", "--cpu", "--output", str(output)]
    assert main([*arguments, *options]) == 0
    return json.loads(output.read_text())


def write_translations(path, texts: list[list[list[str]]]) -> str:
    """As generation writes them, a line for each stored instance."""
    instance_index = InstanceIndex.load(LEN48 / "bin" / "test.en-de.instances.json")
    lines = []
    for number, (document, first, count) in enumerate(instance_index.instances):
        sentences = [" ".join(pieces) for pieces in texts[document][first : first + count]]
        place = {"id": number, "document": document, "first_sentence": first, "sentences": count}
        lines.append(json.dumps({**place, "hypotheses": [{"score": -1.0, "sentences": sentences}]}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", GROUPED)
def test_over_references_and_translations(tmp_path, capsys, name):
    """In the instances that the checkpoint was trained in; each sentence counts once, where it is current."""
    options, context = GROUPED[name]
    checkpoint = make_checkpoint(LEN48, tmp_path / "checkpoint.pt", *options)
    model, task = load_trained(checkpoint, data=str(LEN48 / "bin"))
    model.double()
    draw = random.Random(4)
    words = sorted({piece for document in documents("de") for sentence in document for piece in sentence})
    drawn = [[draw.choices(words, k=draw.randint(0, 6)) for _ in document] for document in documents("de")]
    translations = write_translations(tmp_path / "some.jsonl", drawn)
    for given, target in (([], documents("de")), (["--translations", translations], drawn)):
        found = measured(tmp_path, checkpoint, *given, "--max-tokens", "100")
        mean, queries = expected(model, task, target, context)
        assert found["share"]["queries"] == queries
        assert queries == sum(len(sentence) + 1 for document in target for sentence in document)
        assert found["share"]["mean"] == pytest.approx(mean, abs=2e-5)
        assert (found["share"]["mean"] == 1.0) is (name == "single")
        assert found["text"] == (given[1] if given else "references")
        assert {"command", "commit", "versions", "device", "entropy"} <= found.keys()
        assert f"{100 * found['share']['mean']:6.2f}" in capsys.readouterr().out.splitlines()[-1]


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
    assert capsys.readouterr().out.count("entropy (bits)") == 2


@pytest.mark.parametrize("prepared", ["train"], indirect=True)
@pytest.mark.parametrize("done", [["--doc-noise-mask", "0.9"]])
def test_the_training_set_is_measured_as_it_is(prepared, tmp_path, done):
    """Whatever the model was trained with, dropped words: entropies are those of the text."""
    found = []
    for name, options in (("plain", []), ("trained", done)):
        sliding = ["--instances", "sliding", "--context-sentences", "1"]
        checkpoint = make_checkpoint(prepared, tmp_path / f"{name}.pt", *sliding, *options)
        arguments = ["--split", "train", "--cpu", "--output", str(tmp_path / "out.json")]
        assert main([str(prepared), "--path", str(checkpoint), *arguments]) == 0
        found.append(json.loads((tmp_path / "out.json").read_text())["entropy"])
    assert found[0] == found[1]


def test_an_instance_beyond_the_models_positions(prepared, tmp_path):
    """The longest source has 3 + 1 + 4 words and three times two marks; the others have 8 tokens, 7 and 11."""
    learned = ["--encoder-learned-pos", "--max-source-positions", "11"]
    checkpoint = make_checkpoint(prepared, tmp_path / "learned.pt", *learned)
    arguments = [str(prepared), "--path", str(checkpoint), "--cpu", "--output", str(tmp_path / "out.json")]
    with pytest.raises(Exception, match="--skip-invalid-size-inputs-valid-test"):  # fairseq's
        main(arguments)
    assert not (tmp_path / "out.json").exists()
    assert main([*arguments, "--skip-invalid-size-inputs-valid-test"]) == 0
    encoder = json.loads((tmp_path / "out.json").read_text())["entropy"][-1]
    assert (encoder["part"], encoder["queries"]) == ("encoder", 8 + 7 + 11)


def test_a_split_without_a_target(tmp_path, capsys):
    """There are no references, but translations can be there."""
    copied = shutil.copytree(LEN48, tmp_path / "prepared")
    checkpoint = make_checkpoint(LEN48, tmp_path / "checkpoint.pt")
    for path in (copied / "bin").glob("test.en-de.de.*"):
        path.unlink()
    assert main([str(copied), "--path", str(checkpoint), "--split", "test", "--cpu"]) == 1
    assert "--translations" in capsys.readouterr().err
    translations = write_translations(tmp_path / "some.jsonl", documents("de"))
    found = measured(tmp_path, checkpoint, "--translations", translations, prepared=copied)
    assert found["share"] == measured(tmp_path, checkpoint)["share"]


def empty(folder) -> None:
    for lang in ("en", "de"):
        prefix = str(folder / "bin" / f"test.en-de.{lang}")
        indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=40).finalize(f"{prefix}.idx")


@pytest.mark.parametrize(
    ("options", "damage", "named"),
    [
        (["--path", "{tmp}/no.pt"], None, "{tmp}/no.pt: no such file"),
        (["--path", "{tmp}/bad.pt"], lambda folder: (folder.parent / "bad.pt").write_bytes(b"bad"), "{tmp}/bad.pt"),
        ([], lambda folder: shutil.rmtree(folder / "bin"), "{tmp}/prepared: not a prepared corpus"),
        ([], empty, "{tmp}/prepared/bin/test.en-de.de.bin: no text in it"),
        (["--path", "{tmp}/learned.pt", "--skip-invalid-size-inputs-valid-test"], None, "all 14 instances"),
        (["--translations", "{tmp}/no.jsonl"], None, "{tmp}/no.jsonl: no such file"),
        (["--translations", "{tmp}/some.jsonl", "--split", "valid"], None, "give the split"),
        (["--translations", "{tmp}/strange.jsonl"], None, "'Unerhörtes'"),
    ],
)
def test_what_cannot_be_measured(tmp_path, capsys, options, damage, named):
    """One sentence each, which names the file."""
    folder = shutil.copytree(LEN48, tmp_path / "prepared")
    make_checkpoint(LEN48, tmp_path / "checkpoint.pt")
    if "{tmp}/learned.pt" in options:
        make_checkpoint(LEN48, tmp_path / "learned.pt", "--encoder-learned-pos", "--max-source-positions", "2")
    texts = documents("de")
    write_translations(tmp_path / "some.jsonl", texts)
    texts[1][2] = ["Unerhörtes"]
    write_translations(tmp_path / "strange.jsonl", texts)
    if damage:
        damage(folder)
    line = [str(folder), "--path", str(tmp_path / "checkpoint.pt"), "--split", "test", "--cpu"]
    assert main([*line, *(option.format(tmp=tmp_path) for option in options)]) == 1
    text = capsys.readouterr().err
    (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
    assert named.format(tmp=tmp_path) in error and "Traceback" not in text
