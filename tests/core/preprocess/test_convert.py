"""Other formats into the raw one: what is written, and what users run into."""

from __future__ import annotations

import gzip
import json

import pytest

from gtransformer.cli.convert import main
from gtransformer.preprocess.corpus import find_splits, read_documents

EN, DE, IDS = "One.\nTwo.\nThree.\nFour.\n", "Eins.\r\nZwei.\r\nDrei.\r\nVier.\r\n", "news a\nnews a\nb\nnews a\n"


def converted(folder) -> list[list[tuple[str, str]]]:
    """What the prepared corpus would be made of."""
    return list(read_documents(*find_splits(folder / "out", "en", "de")["test"]))


@pytest.fixture
def wmt(tmp_path, write):
    """Runs the command over files with these contents; returns its status."""

    def run(source=EN, target=DE, ids=IDS, target_ids=None, *more) -> int:
        line = ["ids", str(tmp_path / "out"), "--split=test", f"--source={write('en', source)}"]
        line += [f"--target={write('de', target)}", f"--ids={write('ids', ids)}"]
        return main([*line, *([f"--target-ids={write('ids.de', target_ids)}"] if target_ids else []), *more])

    return run


@pytest.mark.parametrize(
    ("returning", "expected"), [("gather", [[1, 2, 4], [3]]), ("new", [[1, 2], [3], [4]]), (None, [[1, 2], [3, 4]])]
)
def test_ids(tmp_path, wmt, capsys, returning, expected):
    """With those of the target, which have other names; byte order marks and line ends of Windows are no text."""
    ids = IDS if returning else "a\na\nb\nb\n"
    target_ids = "\ufeff" + "".join({"a": "x\r\n", "news a": "x\r\n", "b": "y\r\n"}[one] for one in ids.splitlines())
    assert wmt("\ufeff" + EN, DE, ids, target_ids, *([f"--returning={returning}"] if returning else [])) == 0
    left, right = EN.split(), DE.split()
    assert converted(tmp_path) == [[(left[n - 1], right[n - 1]) for n in one] for one in expected]
    assert f"test: {len(expected)} documents, 4 sentences" in capsys.readouterr().out


def test_empty_sides_are_counted(wmt, capsys):
    assert wmt("One.\n\nThree.\n\n", DE, "a\na\na\na\n") == 0
    assert "note: 2 sentence pairs have an empty side" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "ids, line 4: "),
        ({"target": "Eins.\nZwei.\n"}, "de, line 2: "),
        ({"ids": "a\n" * 5}, "en, line 4: "),
        ({"ids": "a\na\n\nb\n"}, "ids, line 3: "),
        ({"ids": "a\na\nb\nb\n", "target_ids": "x\nx\nx\ny\n"}, "ids, line 3: "),
        ({"ids": "a\na\na\na\n", "target_ids": "x\nx\ny\ny\n"}, "ids.de, line 3: "),
        ({"source": "One.\nTwo </s>.\nThree.\nFour.\n"}, "en, line 2: </s>"),
        ({"source": "", "target": "", "ids": ""}, "test"),
    ],
)
def test_what_users_run_into_with_ids(tmp_path, wmt, capsys, files, message):
    assert wmt(**files) == 1
    assert message in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))


LINKS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE cesAlign PUBLIC "-//CES//DTD XML cesAlign//EN" "">
<cesAlign version="1.0">
<linkGrp targType="s" fromDoc="de/1999/a.xml.gz" toDoc="en/1999/b.xml.gz">
<link id="SL1" xtargets="1;1 2" overlap="0.9" /><link id="SL2" xtargets="2;" /><link id="SL3" xtargets="3;4" />
</linkGrp>
<linkGrp fromDoc="de/1999/c.xml.gz" toDoc="en/1999/d.xml.gz"><link xtargets=";1" /></linkGrp>
<linkGrp fromDoc="de/1999/e.xml.gz" toDoc="en/1999/b.xml.gz"><link xtargets="1;1" /></linkGrp>
</cesAlign>
"""
DOCUMENTS = {
    "de/1999/a.xml": '<document><s id="1"><time id="T1S" />Gehen\n wir &amp; los. </s><s id="2">Ja.</s>'
    '<s id="3"><w id="3.1">Ende</w><w id="3.2">.</w></s></document>',
    "en/1999/b.xml.gz": '<d><s id="1">Let us</s><s id="2">go.</s><s id="3">-</s><s id="4">The end.</s></d>',
    "de/1999/c.xml": '<document><s id="1">Nein.</s></document>',
    "en/1999/d.xml": '<document><s id="1">No.</s></document>',
    "de/1999/e.xml": '<document><s id="1">Auf.</s></document>',
}


@pytest.fixture
def opus(tmp_path, capsys):
    """Runs the command over such files, changed as told; returns what it says."""

    def run(links: str = LINKS, documents: dict[str, str] | None = None, *more: str) -> str:
        (tmp_path / "de-en.xml").write_text(links, encoding="utf-8")
        for name, text in {**DOCUMENTS, **(documents or {})}.items():
            path = tmp_path / "xml" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        files = [f"--alignment={tmp_path / 'de-en.xml'}", f"--documents={tmp_path / 'xml'}"]
        status = main(["opus", str(tmp_path / "out"), "--split=test", *files, *more])
        shown = capsys.readouterr()
        assert bool(status) == bool(shown.err) == (not list((tmp_path / "out").glob("*.txt")))
        return shown.out + shown.err

    return run


def test_opus(tmp_path, opus):
    """German is the file's first side and our second; links of many sentences, one with nothing, words marked up."""
    shown = opus(LINKS, None, "--returning=first")
    assert converted(tmp_path) == [[("Let us go.", "Gehen wir & los."), ("The end.", "Ende .")]]
    for note in (
        "2 links with an empty side",
        "1 groups without any other",
        "1 groups of documents that occurred again",
    ):
        assert note in shown
    opus(LINKS, None, "--returning=new")
    assert converted(tmp_path)[1] == [("Let us", "Auf.")]


@pytest.mark.parametrize(
    ("links", "documents", "more", "message"),
    [
        (LINKS, {}, [], "document en/1999/b.xml.gz"),
        (LINKS.replace('"3;4"', '"3;9"'), {}, [], "sentence 9 of en/1999/b.xml.gz"),
        (LINKS.replace('"3;4"', '"3;2"'), {}, [], "sentence 2 of en/1999/b.xml.gz"),
        (LINKS.replace('"3;4"', '"3"'), {}, [], "xtargets"),
        (LINKS.replace("a.xml", "z.xml"), {}, [], "z.xml"),
        (LINKS.replace("</cesAlign>", ""), {}, ["--returning=new"], "de-en.xml, line 10: "),
        (LINKS.replace('"utf-8"', '"shift_jis"'), {}, [], "de-en.xml: "),
        (LINKS.replace('"utf-8"', '"foo"'), {}, [], "de-en.xml: "),
        (LINKS, {}, ["-t", "fr"], "en and fr"),
        (LINKS, {"de/1999/a.xml": '<d><s id="1">a</s><s id="1">b</s></d>'}, [], "sentence id '1'"),
        (LINKS, {"de/1999/a.xml": '<d><s id="1">a &lt;s></s></d>'}, [], "sentence 1: <s>"),
        ("<cesAlign></cesAlign>", {}, [], "test"),
    ],
)
def test_what_users_run_into_with_opus(opus, links, documents, more, message):
    assert message in opus(links, documents, *more)


@pytest.mark.parametrize("damaged", ["de-en.xml.xz", "xml/en/1999/b.xml.gz"])
def test_damaged_compression(tmp_path, opus, capsys, damaged):
    opus(LINKS, None, "--returning=first")
    path = tmp_path / damaged
    path.write_bytes(path.read_bytes()[:-20] if path.exists() else b"no such thing at all")
    links = path if path.suffix == ".xz" else tmp_path / "de-en.xml"
    line = ["opus", str(tmp_path / "again"), "--split=test", f"--alignment={links}", f"--documents={tmp_path / 'xml'}"]
    assert main(line) == 1
    assert f"{path.name}: " in capsys.readouterr().err


ITEMS = [
    {"expected": "vi", "rule": "DO.ELL", "ante distance": 2, "document id": "film a", "src segment": "I did.",
     "ref segment": "Eu vi.", "src ante segment": "Did you see  it?", "ref ante segment": "Viste isso?"},
    {"expected": "te", "rule": "SING", "document id": "film b", "src segment": "I know you.",
     "ref segment": "Conheço-te."},
    {"expected": "fui", "rule": "DO.ELL", "ante distance": 1, "document id": "film a", "src segment": "- I did.",
     "ref segment": "Fui.", "src ante segment": "Did you go?", "ref ante segment": "Foste?"},
]  # fmt: skip
INPUTS = "Hello.<eos> Did you see it?<eos> Who?<eos> I did.\nI know you.\nElse.<eos> - I did.\n"


@pytest.fixture
def ctxpro(tmp_path, write):
    """Runs the command over these items; returns its status."""

    def run(items=ITEMS, inputs=INPUTS, *more: str) -> int:
        files = [f"--items={write('items.json', json.dumps(items))}", f"--inputs={write('items.inputs', inputs)}"]
        return main(["ctxpro", str(tmp_path / "out"), "--split=test", "-t=pt", *files, *more])

    return run


def test_ctxpro(tmp_path, write, ctxpro, capsys):
    """Sources alone with what is scored; then both sides: references where there are some, else the translation."""
    assert ctxpro() == 0
    source, items = tmp_path / "out" / "concatenated_en2pt_test_en.txt", tmp_path / "out" / "ctxpro_test.json"
    documents = [["Hello.", "Did you see it?", "Who?", "I did."], ["I know you."], ["Else.", "- I did."]]
    assert source.read_text() == "".join("<d>\n" + "".join(f"{one}\n" for one in part) for part in documents)
    assert {path.name for path in source.parent.iterdir()} == {source.name, items.name}
    entries = json.loads(items.read_text())
    assert [one["scored sentence"] for one in entries] == [3, 0, 1]
    assert [one.get("antecedent sentence") for one in entries] == [1, None, None]
    said = capsys.readouterr().out
    assert "test: 3 documents, 7 sentences" in said and "note: for 1 items the sentence with the antecedent" in said

    translated = write("pt", "<d>\nOlá.\nx\nQuem?\nx\n<d>\nx\n<d>\nOutro.\nx\n")
    broken = [ITEMS[0], {**ITEMS[1], "ref segment": "Conheço-te. <d>"}, ITEMS[2]]
    assert ctxpro(broken, INPUTS, f"--context-translations={translated}") == 1
    assert "entry 1, 'ref segment': <d> inside a sentence is reserved" in capsys.readouterr().err
    parted = [{**ITEMS[0], "ref segment": "Eu\nvi."}, *ITEMS[1:]]
    assert ctxpro(parted, INPUTS, f"--context-translations={translated}") == 0
    sides = find_splits(tmp_path / "out", "en", "pt")["test"]
    targets = [["Olá.", "Viste isso?", "Quem?", "Eu vi."], ["Conheço-te."], ["Outro.", "Fui."]]
    expected = [list(zip(*pair, strict=True)) for pair in zip(documents, targets, strict=True)]
    assert list(read_documents(*sides)) == expected
    write("pt", "<d>\nOlá.\nx\nQuem?\n<d>\nx\n<d>\nOutro.\nx\n")
    assert ctxpro(ITEMS, INPUTS, f"--context-translations={translated}") == 1
    assert "document 0 has 3 sentences, but 4 in" in capsys.readouterr().err


def test_tables_that_do_not_tell_which_text_or_document(tmp_path, write, capsys):
    """A plain column is chosen by its name from several; a missing document column is said to be that."""

    def convert(text: str, *options: str) -> str:
        line = ["files", str(tmp_path / "out"), "--split=dev", "-s=en", "-t=de", f"--input={write('x.tsv', text)}"]
        status = main([*line, *options])
        shown = capsys.readouterr()
        return shown.err if status else (tmp_path / "out" / "concatenated_en2de_dev_de.txt").read_text()

    two = "docid\tsrc\tref\tref:B\nd\tA\tB\tC\n"
    assert "several texts of the reference (reference ref, reference B)" in convert(two)
    assert [convert(two, f"--reference={name}") for name in ("ref", "B")] == ["<d>\nB\n", "<d>\nC\n"]
    assert "x.tsv, line 1: a column docid is needed; the file has en, de" in convert("en\tde\nA\tB\n")


def test_several_files_of_ctxpro(tmp_path, write, ctxpro, capsys):
    other = [str(write("b.json", json.dumps(ITEMS[1:2]))), str(write("b.inputs", "Yes.<eos> I know you.\n"))]
    files = [str(write("a.json", json.dumps(ITEMS))), str(write("a.inputs", INPUTS))]
    line = [
        "ctxpro",
        str(tmp_path / "out"),
        "--split=train",
        "-t=pt",
        "--items",
        files[0],
        other[0],
        "--inputs",
        files[1],
    ]
    assert main([*line, other[1]]) == 0 and "train: 4 documents, 9 sentences" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "out" / "ctxpro_train.json").read_text())) == 4
    assert main(line) == 1 and "2 files of items, but 1 of inputs" in capsys.readouterr().err


def test_films_of_other_files_of_ctxpro_are_left_out(tmp_path, write, ctxpro, capsys):
    other = write("other.json", json.dumps(ITEMS[:1]))
    assert ctxpro(ITEMS, INPUTS, f"--without={other}") == 0
    said = capsys.readouterr().out
    assert (
        "test: 1 documents, 1 sentences" in said
        and "note: 2 items were left out, as their films are in other files" in said
    )
    assert [one["document id"] for one in json.loads((tmp_path / "out" / "ctxpro_test.json").read_text())] == ["film b"]
    assert ctxpro(ITEMS[:1], INPUTS.splitlines()[0] + "\n", f"--without={other}") == 1
    assert "no item is left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("items", "inputs", "message"),
    [
        (ITEMS, INPUTS + "More.\n", "items.inputs, line 4: the inputs go on"),
        (ITEMS, "Hello.<eos> I did.\n", "items.inputs, line 2: the inputs end"),
        (ITEMS, INPUTS.replace("I know you", "You know"), "items.inputs, line 2: its last sentence"),
        (ITEMS, INPUTS.replace("Who?", "<s>"), "items.inputs, line 1: <s>"),
        ([{**ITEMS[0], "ref segment": None}], INPUTS, "entry 0 has no valid 'ref segment'"),
        ([{"src segment": "I did."}], INPUTS, "no suite of ctxpro"),
    ],
)
def test_what_users_run_into_with_ctxpro(tmp_path, ctxpro, capsys, items, inputs, message):
    assert ctxpro(items, inputs) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list((tmp_path / "out").glob("*"))
