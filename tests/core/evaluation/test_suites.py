"""Reading ContraPro in both forms and the sets of Voita et al.; layouts."""

from __future__ import annotations

import json
import lzma

import pytest

from gtransformer.cli.convert import main as convert
from gtransformer.errors import UserError
from gtransformer.evaluation.generative import judge_lines
from gtransformer.evaluation.suite_files import contrapro_documents, is_own_suite, read_suite
from gtransformer.preprocess.ctxpro import read_expectations
from tests.support import SHARED

CONTRAPRO, DISCOURSE = SHARED / "data" / "contrapro", SHARED / "data" / "discourse_en-ru"

TEXT = {
    "contrapro.text.en": "It was old.\nIt was old.\nIt was old.\nI see it.\nI see it.\n",
    "contrapro.text.de": "Es war alt.\nSie war alt.\nEr war alt.\nIch sehe ihn.\nIch sehe es.\n",
    "contrapro.context.en": "one\ntwo\n" * 3 + "\nthree\n" * 2,
    "contrapro.context.de": "eins\nzwei\n" * 3 + "\ndrei\n" * 2,
    "groups.txt": "0\n3\n5\n",
}


def write_text_form(folder):
    folder.mkdir()
    for name, text in TEXT.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_contrapro_as_text(tmp_path):
    suite = read_suite([write_text_form(tmp_path / "c")])
    assert (suite.langs, suite.tokenised) == (("en", "de"), False)
    first, second = suite.examples
    assert first.source == ("one", "two", "It was old.") and first.correct == 0 and not first.whole
    assert first.candidates == tuple(("eins", "zwei", f"{word} war alt.") for word in ("Es", "Sie", "Er"))
    assert first.groups == {"phenomenon": "es"} and second.groups == {"phenomenon": "ihn"}
    assert second.source == ("three", "I see it."), "an empty line of context is none"
    assert [len(e.source) for e in read_suite([tmp_path / "c"], context=1).examples] == [2, 2]
    assert read_suite([tmp_path / "c"], context=1).examples[0].source == ("two", "It was old.")
    assert [len(e.source) for e in read_suite([tmp_path / "c"], context=0).examples] == [1, 1]


def write_right(folder):
    """Three lines behind each line of the text, those behind a document's end empty."""
    for lang, words in (("en", ("four", "five", "six")), ("de", ("vier", "fünf", "sechs"))):
        lines = [*words] * 3 + [words[0], "", ""] * 2
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"contrapro.context.right.{lang}").write_text(text, encoding="utf-8")


def test_contrapro_as_text_with_context_behind(tmp_path):
    write_right(write_text_form(tmp_path / "c"))
    plain = read_suite([tmp_path / "c"])
    assert all(example.behind == 0 for example in plain.examples), "only where it is asked for"
    first, second = read_suite([tmp_path / "c"], behind=2).examples
    assert first.source == ("one", "two", "It was old.", "four", "five") and first.behind == 2
    assert first.candidates[1] == ("eins", "zwei", "Sie war alt.", "vier", "fünf")
    assert second.source == ("three", "I see it.", "four") and second.behind == 1
    first, second = read_suite([tmp_path / "c"], 0, behind=4).examples
    assert first.source == ("It was old.", "four", "five", "six") and (first.behind, second.behind) == (3, 1)


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("contrapro.text.de", lambda text: text[:-1] + "\nmehr\n", 6),
        ("contrapro.context.en", lambda text: text + "x\n", 11),
        ("contrapro.context.de", lambda text: "", 0),
        ("contrapro.context.right.de", lambda text: text[:30], 6),
        ("groups.txt", lambda text: "0\n4\n5\n", 3),
        ("groups.txt", lambda text: "0\nthree\n5\n", 2),
        ("groups.txt", lambda text: f"0\n{'9' * 5000}\n5\n", 2),
        ("groups.txt", lambda text: "1\n3\n5\n", 1),
        ("groups.txt", lambda text: "0\n3\n", 2),
    ],
)
def test_damaged_text_form(tmp_path, name, change, line):
    folder = write_text_form(tmp_path / "c")
    write_right(folder)
    path = folder / name
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UserError, match=f"{name}, line {line}: "):
        read_suite([folder], behind=1)
    path.unlink()
    with pytest.raises(UserError, match=f"{name}: no such file"):
        read_suite([folder], behind=1)


def contrapro_entry(number: int = 2, document: str = "d", **change) -> dict:
    entry = {
        "src segment": f"line {number}", "ref segment": f"Zeile {number}", "src pronoun": "it", "ref pronoun": "sie",
        "ante distance": 1, "intrasegmental": False, "errors": [{"contrastive": "falsch"}], "document id": document,
        "segment id": number,
    }  # fmt: skip
    return entry | change


def write_json(path, data):
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("base", "form"), [(0, "{id}.{lang}"), (1, "{id}_{lang}"), (1, "{lang}/{id}"), (0, "{id}/{lang}.xz")]
)
def test_context_from_opensubtitles(tmp_path, base, form):
    """Segment ids may count from 0 or 1: the source segments settle it. Lines empty on both sides are no context."""
    for lang, word in (("en", "line"), ("de", "Zeile")):
        lines = [f"{word} {number}" if number != 3 else "" for number in range(base, 7 + base)]
        path = tmp_path / "documents" / form.format(id="1999/x.1", lang=lang)
        path.parent.mkdir(parents=True, exist_ok=True)
        opener = lzma.open if path.suffix == ".xz" else open
        with opener(path, "wt", encoding="utf-8") as stream:
            stream.write("".join(f"{line}\n" for line in lines))
    distances = {5: 1, base: 3, 4: None}
    entries = [contrapro_entry(number, "1999/x.1", **{"ante distance": far}) for number, far in distances.items()]
    path = write_json(tmp_path / "contrapro.json", entries)
    with pytest.raises(UserError, match="with --context 0 no documents are read"):
        read_suite([path], 0, tmp_path / "documents")
    examples = read_suite([path], 2, tmp_path / "documents").examples
    assert [example.source for example in examples] == [
        ("line 2", "line 4", "line 5"), (f"line {base}",), ("line 1", "line 2", "line 4"),
    ]  # fmt: skip
    assert examples[0].candidates == (("Zeile 2", "Zeile 4", "Zeile 5"), ("Zeile 2", "Zeile 4", "falsch"))
    assert examples[0].groups == {"phenomenon": "it:sie", "distance": "1", "intrasegmental": "no"}
    assert [example.groups["distance"] for example in examples[1:]] == ["3", "unknown"]
    examples = read_suite([path], 1, tmp_path / "documents", behind=2).examples
    last = base + 6
    assert [example.source for example in examples] == [
        ("line 4", *(f"line {number}" for number in range(5, min(8, last + 1)))),
        ("line 0", "line 1", "line 2") if base == 0 else ("line 1", "line 2", "line 4"),
        ("line 2", "line 4", "line 5", "line 6"),
    ]  # fmt: skip
    assert [example.behind for example in examples] == [min(2, last - 5), 2, 2]
    assert read_suite([path], 2, tmp_path / "documents").unmatched == 0
    write_json(path, [*entries, contrapro_entry(6, "1999/x.1", **{"segment id": 99})])
    assert read_suite([path], 2, tmp_path / "documents").unmatched == 1
    assert examples[2].candidates[1] == ("Zeile 2", "falsch", "Zeile 5", "Zeile 6")


def test_documents_of_another_corpus(tmp_path):
    folder = tmp_path / "documents"
    path = write_json(tmp_path / "contrapro.json", [contrapro_entry()])
    texts = {"d.en": "a\nb\nc\n", "d.de": "a\nb\n"}
    for make, said in (
        (lambda: None, "documents: no such directory"),
        (folder.mkdir, "d.en: no such file"),
        (lambda: [(folder / name).write_text(text) for name, text in texts.items()], "d.de: 2 lines, but 3"),
        (lambda: (folder / "d.de").write_text("a\nb\nc\n"), "only 0 of 1 segments"),
    ):
        make()
        with pytest.raises(UserError, match=said):
            read_suite([path], 1, folder)


@pytest.mark.parametrize(
    "change",
    [
        {"src segment": None},
        *({"errors": value} for value in ([], None, [{"contrastive": "a"}, "b"])),
        {"segment id": "x"},
    ],
)
def test_damaged_contrapro(tmp_path, change):
    path = write_json(tmp_path / "contrapro.json", [contrapro_entry(), contrapro_entry(**change)])
    with pytest.raises(UserError, match=f"entry 1 has no valid '{next(iter(change))}'"):
        read_suite([path], 1, tmp_path)


def test_voita_without_distance(tmp_path):
    """The ellipsis sets have none; several files make one suite. A name that is not known stands for itself."""
    good = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e", "c _eos"], "true_ind": 2}
    names = ("ellipsis_vp_dev", "ellipsis_infl_dev", "lex_cohesion_test", "mine")
    suite = read_suite([write_json(tmp_path / f"{name}.json", [good]) for name in names])
    assert suite.tokenised and suite.langs == ("en", "ru")
    phenomena = ("ellipsis, verb phrase", "ellipsis, inflection", "lexical cohesion", "mine")
    assert [example.groups for example in suite.examples] == [{"phenomenon": one} for one in phenomena]
    assert suite.examples[0].candidates[2] == ("c", "") and suite.examples[0].correct == 2


def test_kinds_are_told_apart(tmp_path):
    own = write_json(tmp_path / "own.json", {"split": "test", "items": []})
    assert is_own_suite(own) and not is_own_suite(tmp_path)
    with pytest.raises(UserError, match="not a contrastive suite"):
        read_suite([own])


@pytest.mark.skipif(not CONTRAPRO.is_dir(), reason="the suite is not part of the repository")
def test_the_published_contrapro():
    suite = read_suite([CONTRAPRO])
    assert len(suite.examples) == 12_000
    assert sum(len(example.candidates) for example in suite.examples) == 36_031
    pronouns = [example.groups["phenomenon"] for example in suite.examples]
    assert all(3900 < pronouns.count(word) <= 4000 for word in ("er", "sie", "es")), "4,000 of each gender"
    assert max(len(example.source) for example in suite.examples) == 2


@pytest.mark.skipif(not DISCOURSE.is_dir(), reason="the suites are not part of the repository")
def test_the_published_sets_of_voita():
    suite = read_suite([DISCOURSE / "deixis_dev.json.xz", DISCOURSE / "lex_cohesion_dev.json.xz"])
    assert len(suite.examples) == 1000 and {len(example.source) for example in suite.examples} == {4}
    assert {len(e.candidates) for e in suite.examples if e.groups["phenomenon"] == "deixis"} == {2}
    assert {len(e.candidates) for e in suite.examples if e.groups["phenomenon"] != "deixis"} == {2, 3, 4, 5}
    assert {example.groups["distance"] for example in suite.examples} == {"1", "2", "3"}


def test_contrapro_for_generation(tmp_path):
    """Both forms: documents end in the item's sentence, empty context is left out, forms are as in the texts."""
    entries, documents, _ = contrapro_documents(write_text_form(tmp_path / "c"))
    assert documents == [["one", "two", "It was old."], ["three", "I see it."]]
    assert [(one["expected"], one["wrong forms"], one["rule"]) for one in entries] == [
        ("es", ["sie", "er"], "es"),
        ("ihn", ["es"], "ihn"),
    ]
    assert [one["scored sentence"] for one in entries] == [2, 1] and "ante distance" not in entries[0]
    wrong = {"ref segment": "Ich sehe ihn", "errors": [{"contrastive": "Ich sehe sie"}]}
    path = write_json(tmp_path / "contrapro.json", [contrapro_entry(**wrong, **{"ref pronoun": "er"})])
    (entry,), documents, _ = contrapro_documents(path, 0)
    assert documents == [["line 2"]] and (entry["expected"], entry["wrong forms"]) == ("ihn", ["sie"])
    assert (entry["rule"], entry["ante distance"], entry["document id"]) == ("it:er", 1, "d")
    longer = {"ref segment": "Er kam", "errors": [{"contrastive": text} for text in ("Er kam an", "Sie kam")]}
    (entry,), *_ = contrapro_documents(write_json(path, [contrapro_entry(**longer)]), 0)
    assert (entry["expected"], entry["wrong forms"]) == ("er", ["an", "sie"])
    with pytest.raises(UserError, match="entry 0: no word of the right translation differs"):
        contrapro_documents(write_json(path, [contrapro_entry(errors=[{"contrastive": "zeile, 2!"}])]), 0)


@pytest.mark.skipif(not CONTRAPRO.is_dir(), reason="the suite is not part of the repository")
def test_the_references_of_the_published_contrapro_are_right(tmp_path, capsys):
    """Each reference has its expected form; few wrong candidates have it elsewhere in the sentence."""
    assert convert(["contrapro", str(tmp_path), "--split=test", f"--items={CONTRAPRO}", "--context=0"]) == 0
    items, (references, wrong) = tmp_path / "contrapro_test.json", (tmp_path / name for name in ("right", "wrong"))
    examples = read_suite([CONTRAPRO], 0).examples
    for path, at in ((references, 0), (wrong, 1)):
        path.write_text("".join(f"{one.candidates[at][0]}\n" for one in examples), encoding="utf-8")
    entries = read_expectations(items)
    assert {one.outcome for one in judge_lines(entries, references)} == {"right"}
    found = [one.outcome for one in judge_lines(entries, wrong)]
    assert "neither" not in found and found.count("right") < 0.1 * len(found)
