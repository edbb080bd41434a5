"""Other formats into the raw one: what is written, and what users run into."""

from __future__ import annotations

import json

import pytest

from gtransformer.files import read_json
from gtransformer.preprocess.corpus import find_splits, read_documents
from tests.support import command

main = command("convert")


@pytest.fixture
def convert(tmp_path, write):
    """Runs the command on two texts; returns its status."""

    def run(*more: str, source="a\n\nb\n\nc\n", target="A\n\nB\n\nC\n") -> int:
        files = [str(write("en", source)), str(write("de", target))]
        return main(["files", str(tmp_path / "out"), *more, "--input", *files])

    return run


def test_files(tmp_path, convert, capsys):
    """An existing split is replaced only on demand; after an error nothing is written."""
    assert (
        convert("--split=test") == 0 and "test: 3 documents, 3 sentences" in capsys.readouterr().out
    )
    assert list(read_documents(*find_splits(tmp_path / "out", "en", "de")["test"])) == [
        [(x, x.upper())] for x in "abc"
    ]
    assert convert("--split=test") == 1 and "--overwrite" in capsys.readouterr().err
    assert convert("--split=test", "--overwrite") == 0 and convert("--split=dev", source="a\n") == 1
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_divide(tmp_path, convert):
    """Documents are drawn, always the same ones, and stay in their order."""
    text = "".join(f"{number}\n\n" for number in range(100))
    found = []
    for more in ([], ["--overwrite"]):
        assert convert("--divide=0.8,0.1,0.1", *more, source=text, target=text) == 0
        splits = find_splits(tmp_path / "out", "en", "de")
        found.append(
            {
                split: [int(one[0][0]) for one in read_documents(*pair)]
                for split, pair in splits.items()
            }
        )
    assert found[0] == found[1] and {split: len(part) for split, part in found[0].items()} == {
        "train": 80, "valid": 10, "test": 10,
    }  # fmt: skip
    assert sorted(sum(found[0].values(), [])) == list(range(100)) and found[0]["train"] != list(
        range(80)
    )
    assert all(part == sorted(part) for part in found[0].values())


ITEMS = [
    {"expected": "vi", "rule": "DO.ELL", "ante distance": 2, "document id": "film a",
     "src segment": "I did.",
     "ref segment": "Eu vi.", "src ante segment": "Did you see  it?",
     "ref ante segment": "Viste isso?"},
    {"expected": "te", "rule": "SING", "document id": "film b", "src segment": "I know you.",
     "ref segment": "Conheço-te."},
    {"expected": "fui", "rule": "DO.ELL", "ante distance": 1, "document id": "film a",
     "src segment": "- I did.",
     "ref segment": "Fui.", "src ante segment": "Did you go?", "ref ante segment": "Foste?"},
]  # fmt: skip
INPUTS = "Hello.<eos> Did you see it?<eos> Who?<eos> I did.\nI know you.\nElse.<eos> - I did.\n"


@pytest.fixture
def ctxpro(tmp_path, write):
    """Runs the command over these items; returns its status."""

    def run(items=ITEMS, inputs=INPUTS, *more: str) -> int:
        files = [
            f"--items={write('items.json', json.dumps(items))}",
            f"--inputs={write('items.inputs', inputs)}",
        ]
        return main(["ctxpro", str(tmp_path / "out"), "--split=test", "-t=pt", *files, *more])

    return run


def test_ctxpro(tmp_path, write, ctxpro, capsys):
    """Sources alone with what is scored; then both sides: references where there are some, else the
    translation.
    """
    assert ctxpro() == 0
    source, items = (
        tmp_path / "out" / "concatenated_en2pt_test_en.txt",
        tmp_path / "out" / "ctxpro_test.json",
    )
    documents = [
        ["Hello.", "Did you see it?", "Who?", "I did."],
        ["I know you."],
        ["Else.", "- I did."],
    ]
    assert source.read_text() == "".join(
        "<d>\n" + "".join(f"{one}\n" for one in part) for part in documents
    )
    assert {path.name for path in source.parent.iterdir()} == {source.name, items.name}
    entries = read_json(items)
    assert [one["scored sentence"] for one in entries] == [3, 0, 1]
    assert [one.get("antecedent sentence") for one in entries] == [1, None, None]
    said = capsys.readouterr().out
    assert "test: 3 documents, 7 sentences" in said

    parted = [{**ITEMS[0], "ref segment": "Eu\nvi."}, *ITEMS[1:]]
    translated = write("pt", "<d>\nOlá.\nx\nQuem?\nx\n<d>\nx\n<d>\nOutro.\nx\n")
    assert ctxpro(parted, INPUTS, f"--context-translations={translated}") == 0
    sides = find_splits(tmp_path / "out", "en", "pt")["test"]
    targets = [["Olá.", "Viste isso?", "Quem?", "Eu vi."], ["Conheço-te."], ["Outro.", "Fui."]]
    expected = [list(zip(*pair, strict=True)) for pair in zip(documents, targets, strict=True)]
    assert list(read_documents(*sides)) == expected


def test_what_is_left_out_of_ctxpro(tmp_path, write, ctxpro, capsys):
    """Items of films that are in other files, and items without an expected word; both are
    named.
    """
    other = write("other.json", json.dumps(ITEMS[:1]))
    assert ctxpro(ITEMS, INPUTS, f"--without={other}") == 0
    said = capsys.readouterr().out
    assert "test: 1 documents, 1 sentences" in said and "entry 0 of items.json, entry 2 of" in said
    assert [one["document id"] for one in read_json(tmp_path / "out" / "ctxpro_test.json")] == [
        "film b"
    ]
    assert ctxpro([ITEMS[0], {**ITEMS[1], "expected": "-"}, ITEMS[2]], INPUTS, "--overwrite") == 0
    said = capsys.readouterr().out
    assert "test: 2 documents" in said and "entry 1 of items" in said
