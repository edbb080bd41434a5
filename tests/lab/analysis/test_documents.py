"""gtransformer lab inspect writes pictures, numbers and a text for one document of a file."""

from __future__ import annotations

import io
import json
import sys

import pytest

from gtransformer.lab.cli.inspect import main
from gtransformer.translation.api import GTransformer

pytestmark = pytest.mark.slow

DOCUMENT = ["The old dog sleeps.", "Mary finds her book.", "The river sleeps near a house."]


@pytest.fixture
def inspect(saved_model, tmp_path, capsys):
    """inspect(lines, *options, status=0): (folder of the results, stdout, stderr)."""

    def run(lines, *options, status=0):
        path = tmp_path / "text.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        arguments = ["--model", saved_model, path, "-o", tmp_path / "out", "--cpu", *options]
        assert main([str(word) for word in arguments]) == status
        return tmp_path / "out", *capsys.readouterr()

    return run


def test_one_document_of_a_file(inspect, saved_model):
    folder, output, _ = inspect(["Another one.", "", *DOCUMENT, "<d>", "A third."], "--document", 2)
    assert sorted(path.name for path in folder.iterdir()) == [
        "attention.png", "gates.png", "inspection.json", "sources.txt"
    ]  # fmt: skip
    result = json.loads((folder / "inspection.json").read_text(encoding="utf-8"))
    (instance,) = result["instances"]
    model = GTransformer.from_pretrained(saved_model, device="cpu")
    assert instance["source"] == DOCUMENT and instance["translation"] == model.translate(DOCUMENT)
    assert all(sum(row) == pytest.approx(1, abs=1e-4) and len(row) == 3 for row in instance["drew_on"])
    text = (folder / "sources.txt").read_text(encoding="utf-8")
    assert text.count("\n      drew on ") == 3 and all(line in text for line in DOCUMENT + instance["translation"])
    assert "text.txt, document 2" in output and "cross        2" in output


@pytest.mark.slow
def test_a_long_document_is_shown_by_instances(inspect):
    folder, output, _ = inspect(DOCUMENT * 3)
    instances = json.loads((folder / "inspection.json").read_text(encoding="utf-8"))["instances"]
    assert len(instances) > 1 and sum(len(one["source"]) for one in instances) == 9
    assert [one["first_sentence"] for one in instances][0] == 1 and instances[1]["first_sentence"] > 1
    names = {path.name for path in folder.iterdir()}
    assert {f"attention.{number}.png" for number in range(1, len(instances) + 1)} <= names
    assert (folder / "sources.txt").read_text(encoding="utf-8").count("\n      drew on ") == 9
    assert "sentences 1 to" in output


def test_a_given_translation(inspect, tmp_path):
    other = tmp_path / "other.txt"
    lines = ["", "Das alte Haus schläft.", "Maria findet ihr Buch.", "Der Fluss."]
    other.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    folder, _, _ = inspect(["", *DOCUMENT], "--translation", other)
    (instance,) = json.loads((folder / "inspection.json").read_text(encoding="utf-8"))["instances"]
    assert instance["translation"] == lines[1:]
    for text in ("eins\n", "eins\nzwei\ndrei\nvier\n"):  # as many as the text, not only as the document
        other.write_text(text, encoding="utf-8")
        assert (
            f"{other}: has {text.count(chr(10))} lines"
            in inspect([*DOCUMENT, "", "More."], "--translation", other, status=1)[2]
        )


def test_mistakes_and_pipes(inspect, saved_model, tmp_path, monkeypatch, capsys):
    errors = inspect([*DOCUMENT, "", "Two."], "--document", 3, status=1)[2]
    assert "has 2 documents, but no document 3; choose one with --document" in errors
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The dog.\n\xff\n")))
    assert main(["--model", str(saved_model), "-o", str(tmp_path / "x"), "--cpu", "-"]) == 1
    assert "standard input, line 2: byte 0xff" in capsys.readouterr().err
