"""The share of attention through the command: instances as they were trained, references or translations, refusals."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from fairseq.data import indexed_dataset

from gtransformer.data.sidecar import Sidecar
from gtransformer.lab.cli.entropy import main
from gtransformer.tasks.trained import load_trained
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
    sidecar = Sidecar.load(LEN48 / "bin" / "test.en-de.instances.json")
    lines = (LEN48 / "instances" / f"test.{lang}").read_text(encoding="utf-8").splitlines()
    found = [[] for _ in range(sidecar.documents)]
    for (document, _, _), line in zip(sidecar.instances, lines, strict=True):
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
            stored = Sidecar.load(LEN48 / "bin" / "test.en-de.instances.json").instances
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
    sidecar = Sidecar.load(LEN48 / "bin" / "test.en-de.instances.json")
    lines = []
    for number, (document, first, count) in enumerate(sidecar.instances):
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


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(LEN48, tmp_path_factory.mktemp("model") / "checkpoint.pt")


@pytest.fixture
def copied(tmp_path):
    return shutil.copytree(LEN48, tmp_path / "prepared")


def error(capsys, *arguments) -> str:
    assert main([*map(str, arguments), "--cpu"]) == 1
    text = capsys.readouterr().err
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "Traceback" not in text, text
    return errors[0].removeprefix("error: ")


def test_a_split_without_a_target(checkpoint, copied, tmp_path, capsys):
    """There are no references, but translations can be there."""
    for path in (copied / "bin").glob("test.en-de.de.*"):
        path.unlink()
    said = error(capsys, copied, "--path", checkpoint, "--split", "test")
    assert said == f"{copied}: split 'test' has no target side; give --translations, or another split"
    translations = write_translations(tmp_path / "some.jsonl", documents("de"))
    found = measured(tmp_path, checkpoint, "--translations", translations, prepared=copied)
    assert found["share"] == measured(tmp_path, checkpoint)["share"]


def test_a_split_without_instances(checkpoint, copied, capsys):
    for lang in ("en", "de"):
        prefix = str(copied / "bin" / f"test.en-de.{lang}")
        indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=40).finalize(f"{prefix}.idx")
    said = error(capsys, copied, "--path", checkpoint, "--split", "test")
    assert said == f"{copied / 'bin' / 'test.en-de.de.bin'}: holds no text; give another split"


def test_no_instance_has_a_place(copied, tmp_path, capsys):
    learned = ["--encoder-learned-pos", "--max-source-positions", "2"]
    path = make_checkpoint(LEN48, tmp_path / "learned.pt", *learned)
    said = error(capsys, copied, "--path", path, "--split", "test", "--skip-invalid-size-inputs-valid-test")
    assert said.startswith(f"{copied / 'bin'}: none of the 14 instances of split 'test' fits the model")


def test_unfit_translations(checkpoint, tmp_path, capsys):
    arguments = [LEN48, "--path", checkpoint, "--split", "test", "--translations"]
    assert error(capsys, *arguments, tmp_path / "no.jsonl") == f"{tmp_path / 'no.jsonl'}: no such file"
    path = write_translations(tmp_path / "some.jsonl", documents("de"))
    arguments[4] = "valid"
    assert "give the split and the prepared corpus that were translated" in error(capsys, *arguments, path)
    arguments[4] = "test"
    texts = documents("de")
    texts[1][2] = ["Unerhörtes"]
    path = write_translations(tmp_path / "some.jsonl", texts)
    assert error(capsys, *arguments, path) == (
        "a translation has the piece 'Unerhörtes', which the model's dictionary does not have; give translations by "
        "this model"
    )
