"""The page that looks inside a model: its words and shares, and what a browser shows of them."""

from __future__ import annotations

import base64
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from gtransformer.lab.analysis.attention import inspect
from gtransformer.lab.analysis.documents import InspectedInstance, word_sides
from gtransformer.lab.analysis.words import KEYS_KEPT, Rows, WordWatch
from gtransformer.lab.cli.inspect_document import main
from gtransformer.lab.report.inspection import keys_kept, write_inspection
from tests.core.models.test_document_transformer import beside_model
from tests.pages import Page, browser, check_alone, try_page

pytestmark = pytest.mark.slow

DOCUMENT = ["The old dog sleeps.", "Mary finds </script> & her <b>book.", "The river sleeps near a house."]


@pytest.fixture(scope="module")
def page(saved_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in DOCUMENT), encoding="utf-8")
    arguments = ["--model", saved_model, folder / "text.txt", "-o", folder / "out", "--html", folder / "page.html"]
    assert main([str(word) for word in [*arguments, "--cpu"]]) == 0
    return folder / "page.html"


def rows(packed: str) -> list[dict[int, int]]:
    """By query the keys with their weights in 1/65535."""
    data, found = base64.b64decode(packed), []
    at = 0
    while at < len(data):
        end = at + 1 + 4 * data[at]
        pairs = struct.iter_unpack("<HH", data[at + 1 : end])
        found.append(dict(pairs))
        at = end
    return found


def test_what_is_in_the_page(page):
    found = Page(page)
    check_alone(found)
    (instance,) = found.data["instances"]
    words = instance["words"]
    assert list(words) == ["source", "target"] and [len(side) for side in words.values()] == [3, 3]
    assert instance["first"] == 1 and words["source"][0] == ["<s>", "the", "old", "dog", "sleeps", ".", "</s>"]
    assert all(sentence[0] == "<s>" and sentence[-1] == "</s>" for side in words.values() for sentence in side)
    kinds = {(part, reach, layer) for part, reach, layer, *_ in instance["maps"]}
    assert kinds == {
        (part, *place)
        for part in ("encoder", "decoder", "cross")
        for place in (("group", 1), ("group", 2), ("global", 2), ("weighed", 0))
    }
    count = {side: sum(map(len, sentences)) for side, sentences in words.items()}
    for part, reach, _, by_word, by_sentence in instance["maps"]:
        asking, asked = found.data["sides"][part]
        for packed, queries, keys in ((by_word, count[asking], count[asked]), (by_sentence, 3, 3)):
            shares = rows(packed)
            assert len(shares) == queries and max(key for row in shares for key in row) < keys
            assert all(sum(row.values()) <= 65535 + KEYS_KEPT for row in shares)
        if part != "decoder":  # every word of a sentence looks somewhere
            assert all(sum(row.values()) > 65535 - KEYS_KEPT for row in rows(by_sentence))
        if reach == "group":
            assert [list(row) for row in rows(by_sentence)] == [[0], [1], [2]]
    assert [part for part, *_ in instance["gates"]] == ["encoder", "decoder", "cross"]
    text = "".join(found.texts)
    assert "A look inside: text.txt, document 1" in text and "cross-attention" in text


def looked_at(model, sources: list[str], target: str) -> InspectedInstance:
    """A document's last sentence, with those before it as its context."""
    pieces, dictionary = [text.split() for text in sources], model.encoder.dictionary
    directory = SimpleNamespace(sentencepiece=False, source_prefix=None, target_prefix=None)
    shown = SimpleNamespace(engine=SimpleNamespace(model=model), directory=directory)
    words = WordWatch(word_sides(shown, pieces, [target]))

    def read(sentences):
        return [index for one in sentences for index in (0, *map(dictionary.index, one), 2)]

    found = inspect(model, read(pieces), read([target.split()]), words)
    return InspectedInstance(len(sources), "", "", {}, found, words)


CHOSEN = """() => {
  const found = [];
  const seen = (one) => { one.found && choose(one.found); return document.querySelector("#panel h2").textContent; };
  document.querySelectorAll("#text tr.context [role=button]").forEach((one) => found.push(seen(one)));
  const own = [...document.querySelectorAll("#text [role=button]")].find((one) => one.found.side === "target");
  seen(own);
  return [found, [...document.querySelectorAll("#panel h3 + ul:last-child .bar")].map((one) => one.textContent)];
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sources", "start", "named"),
    [
        ({}, ["a"], None, ["no context", "no context"]),
        ({"context_of_first": "itself"}, ["a"], 1, ["sentence 1", "“a” in sentence 1", "end of sentence 1"]),
        (
            {},
            ["a", "b", "c"],
            1,
            ["sentence 1", "“a” in sentence 1", "sentence 2", "“b” in sentence 2", "end of sentence 2"],
        ),
    ],
)
def test_numbers_of_the_context_and_gates_of_sentences(dictionary, tmp_path, options, sources, start, named):
    one = looked_at(beside_model(dictionary, **options), sources, "d e")
    write_inspection(tmp_path / "page.html", [one], "t")
    (shown,) = Page(tmp_path / "page.html").data["instances"]
    assert shown["starts"] == {"context": start, "source": len(sources), "target": len(sources)}
    gates = {(part, layer): values for part, layer, _, values in shown["gates"]}
    assert gates == {(gate.part, gate.layer): gate.sentences.tolist() for gate in one.found.gates} and gates
    if browser() is not None:
        contexts, bars = try_page(tmp_path / "page.html", CHOSEN)
        assert contexts == [f"{name} (context)" for name in named]
        values = [100 * value for (part, _), (value,) in gates.items() if part == "decoder_context"]
        assert [float(text.removesuffix(" %")) for text in bars] == pytest.approx(values, abs=0.51) and len(bars) == 2


def test_long_documents_keep_fewer_keys_of_each_word():
    rows = [Rows.of(np.full((100, 20), 0.05))]
    sizes = [len(rows[0].packed(most)) for most in range(1, KEYS_KEPT + 1)]
    assert keys_kept(rows) == KEYS_KEPT
    assert keys_kept(rows, sizes[6]) == 7 and keys_kept(rows, 1) == 1 and keys_kept([]) == KEYS_KEPT


def test_models_that_read_their_batch_have_no_page(tmp_path, capsys):
    (tmp_path / "checkpoint.pt").touch()
    arguments = ["--model", str(tmp_path / "checkpoint.pt"), "-o", str(tmp_path), "--html", "page.html", "prepared"]
    assert main(arguments) == 1
    assert "--html needs a directory of gtransformer export" in capsys.readouterr().err


STEPS = """() => {
  const text = (query) => [...document.querySelectorAll(query)].map((one) => one.textContent);
  const buttons = [...document.querySelectorAll("#text [role=button]")], found = { stops: 0 };
  const down = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  // A window without the focus, as one without a screen may be, tells nobody what has come into focus.
  const told = () => document.activeElement.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
  const press = (key) => { document.activeElement.dispatchEvent(down(key)); told(); };
  const seen = () => [text("#panel h2")[0], document.activeElement === document.querySelector(".chosen")];
  found.stops = document.querySelectorAll("#text [tabindex='0']").length;
  buttons[0].focus(); told(); found.sentence = seen();
  press("ArrowRight"); found.begin = seen();
  press("ArrowRight"); found.word = seen();
  press("ArrowDown"); found.below = seen();
  found.headings = text("#panel h3"); found.shaded = document.querySelectorAll(".word.strong").length;
  press("Enter"); press("ArrowUp"); found.kept = [text("#panel h2")[0], document.querySelectorAll(".kept").length];
  document.activeElement.dispatchEvent(down("Escape"));
  found.gone = document.querySelectorAll(".chosen, .strong").length;
  const word = buttons.find((one) => one.found.side === "target" && one.found.kind === "word");
  word.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  found.pointed = text("#panel h3");
  const layer = document.getElementById("layer");
  layer.value = "0"; layer.dispatchEvent(new Event("change", { bubbles: true }));
  found.weighed = text("#panel h3"); found.shares = text("#panel .bar").length > 3;
  found.texts = text("#text tr td:first-child")[1]; found.scripts = document.scripts.length;
  return found;
}"""


@pytest.mark.slow
def test_in_a_browser(page):
    """From key to key, and by pointing: what is chosen, what is listed of it, and what is shaded in the text."""
    found = try_page(page, STEPS)
    assert found["stops"] == 1 and found["scripts"] == 3
    assert found["sentence"] == ["sentence 1 (source)", True]
    assert found["begin"] == ["begin of sentence 1 (source)", True]
    assert found["word"] == ["“the” in sentence 1 (source)", True]
    assert found["below"][1] and found["below"][0].endswith(" in sentence 2 (source)")
    encoder = ["encoder self-attention: group, layer 2", "encoder self-attention: global, layer 2"]
    gates = "gates (100 %: the sentence alone)"
    assert found["headings"] == [*encoder, gates] and found["shaded"] == 3
    assert found["kept"] == [found["below"][0], 1] and found["gone"] == 0
    assert found["pointed"] == [
        f"{part}: {reach}, layer 2"
        for part in ("decoder self-attention", "cross-attention")
        for reach in ("group", "global")
    ] + [gates]
    assert found["weighed"] == [
        f"{part}: group and global, as the gates weigh them" for part in ("decoder self-attention", "cross-attention")
    ] + [gates]
    assert found["shares"] and found["texts"] == "2 <s> Mary finds < / script > & her < b > book . </s> "
