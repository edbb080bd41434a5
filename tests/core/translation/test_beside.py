"""Text through models that translate a sentence with previous ones beside it."""

from __future__ import annotations

import json

import pytest

from gtransformer.errors import UserError
from gtransformer.lab.analysis.watching import CONTEXT_PARTS, PARTS
from gtransformer.lab.cli.inspect_document import main as inspect
from gtransformer.translation.api import GTransformer
from gtransformer.translation.lines import beside
from tests import saved_model as saved
from tests.pages import Page

pytestmark = pytest.mark.slow

TEXT = ["The old dog sleeps.", "Mary finds her book.", "The river sleeps near a house.", "Her dog finds two trees."]
CURRENT = ("--instances", "current", "--context-sentences", "2")


@pytest.fixture(scope="module", params=["document", "flat"])
def folder(request, tmp_path_factory):
    """A model directory of such a system."""
    with pytest.MonkeyPatch.context() as patch:
        kept = [*saved.SIZES[:-8], "--dropout", "0"]
        assert not any("ctxlayers" in word for word in kept)
        patch.setattr(saved, "SIZES", kept)
        arch = ["--arch", f"{request.param}_transformer_mini"]
        if request.param == "flat":
            arch += ["--current-layers", "1"]
        return saved.make_model(tmp_path_factory.mktemp(request.param), *arch, *CURRENT)


@pytest.fixture(scope="module")
def model(folder):
    return GTransformer.from_pretrained(folder, device="cpu")


def test_every_sentence_behind_two_previous_ones(model):
    """What is read is spelled out; nothing of another document, a blank line stands for nothing."""
    assert model.directory.sentences_beside == 2
    tokens = [sentence.split() for sentence in map(" ".join, model.chain.encode(TEXT))]
    read = [tokens[:1], tokens[:2], tokens[:3], tokens[1:4]]
    found = [one[0].sentences for one in model.engine.translate(read, model.options)]
    assert all(len(sentences) == 1 for sentences in found)
    expected = model.chain.decode([sentences[0] for sentences in found])
    assert model.translate([TEXT, TEXT[:2], TEXT[:1]]) == [expected, expected[:2], expected[:1]]
    assert model.translate([TEXT[0], " ", *TEXT[1:]]) == [expected[0], "", *expected[1:]]
    alone = [model.nbest([[sentence]])[0][0][0].score for sentence in TEXT]
    assert [one[0].score for one in model.nbest([TEXT])[0]][1:] != alone[1:]


def test_a_line_of_several_sentences_and_nbest(model):
    """Sentences are context, lines are not; each has its own n-best list."""
    whole = model.nbest([TEXT[:2]], nbest=2)[0]
    assert [len(one) for one in whole] == [2, 2]
    ((line,),) = model.translate_lines([" ".join(TEXT[:2])], split=lambda text: TEXT[:2])
    assert line.translations[0].text == " ".join(one[0].text for one in whole)


def test_ways_through_documents_are_refused(model):
    with pytest.raises(UserError, match="--strategy sequential: the model translates sentence by sentence"):
        model.translate(TEXT, strategy="sequential", context_sentences=2)


def test_inspected_sentence_by_sentence(folder, model, tmp_path, capsys):
    """With the model's own translation; what the Document Transformer does with its context is there, too."""
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    out, page = str(tmp_path / "out"), tmp_path / "page.html"
    assert inspect(["--model", str(folder), str(tmp_path / "text"), "-o", out, "--cpu", "--html", str(page)]) == 0
    capsys.readouterr()
    instances = json.loads((tmp_path / "out" / "inspection.json").read_text())["instances"]
    assert [one["translation"] for one in instances] == [[text] for text in model.translate(TEXT)]
    assert [one["source"] for one in instances] == [[text] for text in TEXT]
    assert {len(one["mean"][0]) for one in instances[0]["maps"]} == {1}  # the first sentence has no context
    maps = {(one["part"], len(one["mean"][0])) for one in instances[-1]["maps"]}
    if "document" in str(folder):
        assert maps == {*((part, 1) for part in PARTS), *((part, 2) for part in CONTEXT_PARTS)}
        for one in instances:
            assert {gate["part"] for gate in one["gates"]} == set(CONTEXT_PARTS[1:])
            assert all(len(gate["tokens"]) > 1 for gate in one["gates"])
        assert {path.name for path in (tmp_path / "out").glob("gates*")} == {f"gates.{n}.png" for n in range(1, 5)}
    else:
        assert maps == {("encoder", 3), ("encoder", 1), ("decoder", 1), ("cross", 1)}
    *_, last = Page(page).data["instances"]
    sentences = {side: len(words) for side, words in last["words"].items()}
    context = {"source": 1, "context": 2} if "document" in str(folder) else {"source": 3}
    assert last["first"] == 4 and sentences == context | {"target": 1}
    assert {part for part, *_ in last["maps"]} == {part for part, _ in maps}


def test_a_document_of_one_sentence_inspected(folder, model, tmp_path, capsys):
    (tmp_path / "text").write_text(f"{TEXT[0]}\n", encoding="utf-8")
    assert inspect(["--model", str(folder), str(tmp_path / "text"), "-o", str(tmp_path / "out"), "--cpu"]) == 0
    (found,) = json.loads((tmp_path / "out" / "inspection.json").read_text())["instances"]
    assert found["translation"] == model.translate(TEXT[:1]) and found["drew_on"] == [[1.0]]
    assert (tmp_path / "out" / "attention.png").is_file()


def test_sentences_one_by_one():
    first, second = [(0, 0), (0, 1), (1, 0)], [(2, 0)]
    assert beside([first, second], 1) == [first[:1], first[:2], first[1:], second]
    assert beside([first, second], 0) == [[place] for place in first + second]
