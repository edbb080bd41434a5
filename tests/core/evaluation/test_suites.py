"""Reading ContraPro in both forms and the sets of Voita et al.; layouts."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.preprocess.suites import read_suite
from tests.support import SHARED, command, write_lines

convert = command("convert")


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
    first, second = suite.items
    assert first.source == ("one", "two", "It was old.") and first.correct == 0 and not first.whole
    assert first.candidates == tuple(
        ("eins", "zwei", f"{word} war alt.") for word in ("Es", "Sie", "Er")
    )
    assert (first.phenomenon, second.phenomenon) == ("es", "ihn")
    assert second.source == ("three", "I see it."), "an empty line of context is none"
    assert [len(e.source) for e in read_suite([tmp_path / "c"], context=1).items] == [2, 2]
    assert read_suite([tmp_path / "c"], context=1).items[0].source == ("two", "It was old.")
    assert [len(e.source) for e in read_suite([tmp_path / "c"], context=0).items] == [1, 1]


def contrapro_entry(number: int = 2, document: str = "d", **change) -> dict:
    entry = {
        "src segment": f"line {number}", "ref segment": f"Zeile {number}", "src pronoun": "it",
        "ref pronoun": "sie",
        "ante distance": 1, "intrasegmental": False, "errors": [{"contrastive": "falsch"}],
        "document id": document,
        "segment id": number,
    }  # fmt: skip
    return entry | change


def written(path, data):
    write_json(path, data)
    return path


def test_context_from_opensubtitles(tmp_path, caplog):
    """Lines empty on both sides are no context; segments that are not the line of their id are
    counted.
    """
    folder = tmp_path / "documents"
    for lang, word in (("en", "line"), ("de", "Zeile")):
        lines = [f"{word} {number}" if number != 3 else "" for number in range(1, 8)]
        write_lines(folder / f"x.{lang}", lines)
    distances = {5: 1, 1: 3, 4: None}
    entries = [
        contrapro_entry(number, "x", **{"ante distance": far}) for number, far in distances.items()
    ]
    path = written(tmp_path / "contrapro.json", entries)
    examples = read_suite([path], 2, folder).items
    assert [example.source for example in examples] == [
        ("line 2", "line 4", "line 5"), ("line 1",), ("line 1", "line 2", "line 4"),
    ]  # fmt: skip
    assert examples[0].candidates == (
        ("Zeile 2", "Zeile 4", "Zeile 5"),
        ("Zeile 2", "Zeile 4", "falsch"),
    )
    assert (examples[0].phenomenon, examples[0].distance, examples[0].film) == ("it:sie", 1, "x")
    assert [example.distance for example in examples[1:]] == [3, None]
    assert not caplog.text
    write_json(path, [*entries, contrapro_entry(6, "x", **{"segment id": 99})])
    read_suite([path], 2, folder)
    assert "1 segments are not the line" in caplog.text
    write_json(path, [contrapro_entry(5, "x", **{"segment id": 4})])
    with pytest.raises(UserError, match="0 of 1"):
        read_suite([path], 1, folder)


def test_voita_without_distance(tmp_path):
    """The ellipsis sets have none; several files make one suite. Their names are the phenomena."""
    good = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e", "c _eos"], "true_ind": 2}
    names = ("ellipsis_vp_dev", "mine")
    suite = read_suite([written(tmp_path / f"{name}.json", [good]) for name in names])
    assert suite.tokenised and suite.langs == ("en", "ru")
    assert [(one.phenomenon, one.distance) for one in suite.items] == [
        (name, None) for name in names
    ]
    assert suite.items[0].candidates[2] == ("c", "") and suite.items[0].correct == 2


@pytest.mark.skipif(not CONTRAPRO.is_dir(), reason="the suite is not part of the repository")
def test_the_published_contrapro():
    suite = read_suite([CONTRAPRO])
    assert len(suite.items) == 12_000
    assert sum(len(example.candidates) for example in suite.items) == 36_031
    pronouns = [example.phenomenon for example in suite.items]
    assert all(3900 < pronouns.count(word) <= 4000 for word in ("er", "sie", "es")), (
        "4,000 of each gender"
    )
    assert max(len(example.source) for example in suite.items) == 2


def test_contrapro_for_generation(tmp_path, capsys):
    """Documents end in the item's sentence, empty context is left out; the expected word is as in
    the text.
    """
    folder, output = write_text_form(tmp_path / "c"), tmp_path / "out"
    assert convert(["contrapro", str(output), "--split=test", "--items", str(folder)]) == 0
    documents = "<d>\none\ntwo\nIt was old.\n<d>\nthree\nI see it.\n"
    assert (output / "concatenated_en2de_test_en.txt").read_text(encoding="utf-8") == documents
    assert [(one.expected, one.phenomenon) for one in read_suite([folder]).items] == [
        ("es", "es"),
        ("ihn", "ihn"),
    ]
    wrong = {"ref segment": "Ich sehe ihn", "errors": [{"contrastive": "Ich sehe sie"}]}
    path = written(tmp_path / "contrapro.json", [contrapro_entry(**wrong, **{"ref pronoun": "er"})])
    (item,) = read_suite([path], 0).items
    assert item.source == ("line 2",) and item.expected == "ihn"
    assert (item.phenomenon, item.distance, item.film) == ("it:er", 1, "d")
