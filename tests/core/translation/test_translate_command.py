"""gtransformer translate: a line out for each line in, whatever the lines hold; formats, pipes,
mistakes.
"""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest

from gtransformer.preprocess.corpus import is_document_mark
from gtransformer.translation.api import GTransformer
from gtransformer.translation.lines import read_text
from tests.hard_text import hard_lines
from tests.saved_model import on_cpu
from tests.support import command, without_limit_remarks

main = command("translate")

pytestmark = pytest.mark.slow

TEXT = [
    "",
    "The old dog sleeps.",
    "Mary finds her book.",
    "",
    "The river sleeps near a house. A dog sleeps.",
    "<d>",
]


@pytest.fixture
def translate(saved_model, capfdbinary):
    """translate(*arguments, status=0): (lines of standard output, text of standard error)."""

    def run(*arguments, status: int = 0) -> tuple[list[str], str]:
        assert main(["--model", str(saved_model), "--cpu", *map(str, arguments)]) == status
        out, err = capfdbinary.readouterr()
        return out.decode().split("\n")[:-1], without_limit_remarks(err.decode())

    return run


@pytest.fixture
def text(tmp_path):
    """text(lines): a file with these lines."""

    def write(lines: list[str], end: str = "\n"):
        path = tmp_path / "text.txt"
        path.write_bytes(("\n".join(lines) + end).encode())
        return path

    return write


def check_lines(source: list[str], output: list[str]) -> None:
    """Every line has its answer: <d> for <d>, an empty line for a blank one, words for words."""
    assert len(output) == len(source)
    for line, before, after in zip(
        read_text(source, lambda lines: [[] for _ in lines]), source, output, strict=True
    ):
        assert line.text == before
        if line.breaks:
            assert after == ("<d>" if is_document_mark(before) else "")
        else:
            assert not set(after) & set("\t\r\n\x85\u2028")


@pytest.mark.slow
def test_nothing_is_lost_of_a_hard_file(translate, text, saved_model):
    """Documents of 1 to 600 lines, a sentence of 1,500 tokens, and every strange line there is: 900
    lines.
    """
    lines = hard_lines(900, longest=600, long_sentence=1500)
    output, errors = translate(text(lines), "--beam", 1, "--max-tokens", 2000)
    check_lines(lines, output)
    assert f"translated {len(lines)} lines" in errors
    # Each in its place: documents translated by themselves come out the same (but where rounding
    # tips a tie).
    model = on_cpu(saved_model)
    documents: list[list[int]] = [[]]
    for number, line in enumerate(read_text(lines, lambda some: [[] for _ in some])):
        documents.append([]) if line.breaks else documents[-1].append(number)
    chosen = [document for document in documents if 0 < len(document) < 100]
    chosen = chosen[:40] + chosen[-40:]
    found = model.translate([[lines[number] for number in document] for document in chosen], beam=1)
    expected = [[output[number] for number in document] for document in chosen]
    assert [len(one) for one in found] == [len(one) for one in expected]
    assert (
        sum(one != other for one, other in zip(found, expected, strict=True)) <= len(chosen) // 50
    )
    assert len({output[number] for document in chosen for number in document}) > 20


def test_text(translate, text):
    output, errors = translate(text(TEXT))
    check_lines(TEXT, output)
    assert "translated 6 lines (2 documents)" in errors
    assert translate(text(TEXT, end=""), "--quiet") == (output, "")
    assert translate(text([], end=""), "--quiet") == ([], "")


def test_blank_lines_and_list_marks(translate, text):
    """--one-document; blanks and list marks at the beginning of a line stay as they are."""
    lines = ["# Mary finds her book.", "", "  - The old dog sleeps.", "", "\t\tThe house."]
    output, errors = translate(text(lines), "--one-document")
    assert "translated 5 lines (1 documents)" in errors and output[1] == output[3] == ""
    plain, _ = translate(text(["Mary finds her book.", "The old dog sleeps.", "The house."]))
    assert [output[0], output[2], output[4]] == [
        f"# {plain[0]}",
        f"  - {plain[1]}",
        f"\t\t{plain[2]}",
    ]


def test_unknown_signs_are_remarked_once(translate, text):
    _, errors = translate(text(["The dog 🙂.", "The old dog sleeps.", "🙂 A river."]))
    assert errors.count("unknown to the model") == 1
    assert "unknown to the model: 2 in all (line 1, line 3)" in errors


def test_pipes_and_compressed_files(translate, text, tmp_path, monkeypatch):
    output, _ = translate(text(TEXT))
    raw = text(TEXT).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert translate("-")[0] == output
    (tmp_path / "text.gz").write_bytes(gzip.compress(raw))
    assert translate(tmp_path / "text.gz")[0] == output


def test_scores_and_several_translations(translate, text):
    """As JSON with the places of lines."""
    best, _ = translate(text(TEXT))
    several, _ = translate(text(TEXT), "--format", "json", "--nbest", 2)
    lines = [json.loads(line) for line in several]
    assert [line["translation"] for line in lines] == best
    assert [line["source"] for line in lines] == TEXT
    single, _ = translate(text(TEXT), "--format", "json")
    assert [json.loads(line) | {"nbest": None} for line in single] == [
        line | {"nbest": None} for line in lines
    ]
    places = [None, (1, 1), (1, 2), None, (2, 1), None]
    assert [(line["line"], line["document"], line["sentence"]) for line in lines] == [
        (number, *(place or (None, None))) for number, place in enumerate(places, 1)
    ]
    for line, place in zip(lines, places, strict=True):
        if place:
            first, second = line["nbest"]
            assert first == {"translation": line["translation"], "score": line["score"]}
            assert second["score"] < 0 and first["score"] < 0
        else:
            assert "nbest" not in line and line["score"] is None


def test_running_text_is_split_and_put_together(translate, text, saved_model):
    output, _ = translate(text(TEXT), "--split-sentences")
    model = on_cpu(saved_model)
    parts = model.translate(["The river sleeps near a house.", "A dog sleeps."])
    assert output[4] == " ".join(parts) and len(output) == len(TEXT)
    whole, _ = translate(text(TEXT))
    assert output[4] != whole[4] and output[:3] == whole[:3]


def test_an_interrupt_leaves_nothing(translate, text, tmp_path, monkeypatch):
    """An unfinished translation must not be taken for a result; an older one stays until the new
    one is whole.
    """
    source, output = text([*TEXT, *TEXT]), tmp_path / "out.txt"
    output.write_text("before\n")
    real, done = GTransformer._translate, []

    def interrupted(self, window, options):
        if done:
            assert len(list(tmp_path.iterdir())) == 3  # the temporary file is beside the output
            raise KeyboardInterrupt
        done.append(real(self, window, options))
        return done[0]

    with monkeypatch.context() as patch:
        patch.setattr(GTransformer, "_translate", interrupted)
        translate(source, "-o", output, "--max-tokens", 10, status=130)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.txt", "text.txt"]
    assert output.read_text() == "before\n"
    expected, _ = translate(source)
    assert translate(source, "-o", output)[0] == []
    assert output.read_text(encoding="utf-8").split("\n")[:-1] == expected
