"""gtransformer translate on files in other formats: what the text alone gives, in its place, and nothing lost."""

from __future__ import annotations

import re

import pytest

from gtransformer.cli.translate import main
from gtransformer.preprocess.formats import read
from gtransformer.preprocess.formats.documents import Reading, Side
from gtransformer.preprocess.formats.tables import add_translation
from tests.core.translation.test_resuming import stop_after
from tests.support import without_limit_remarks

pytestmark = pytest.mark.slow

DOCUMENTS = [["The old dog sleeps.", "Mary finds her book."], ["The river sleeps near a house."]]
XML = """<?xml version="1.0" encoding="utf-8"?>
<dataset id="x">
<doc id="a"><src lang="en"><p><seg id="1">The old dog sleeps.</seg></p>
<p><seg id="2">Mary finds
 <i>her</i> book.</seg></p></src><ref lang="de" translator="A"><seg id="1">x</seg><seg id="2">y</seg></ref></doc>
<doc id="b"><src lang="fr"><seg id="1">z</seg></src>
<src lang="en"><seg id="1">The river sleeps near a house.</seg></src></doc>
</dataset>
"""
TSV = "docid\tsrc\tgenre\na\tThe old dog sleeps.\tx\na\tMary finds her book.\ty\nb\tThe river sleeps near a house.\tz\n"
JSONL = """{"docid": "a", "en": ["The old dog sleeps.", "Mary finds her book."], "more": 1}
{"docid": "b", "en": ["The river sleeps near a house."], "more": null}
"""
SGM = """<srcset srclang="en"><doc docid="a"><seg>The old dog sleeps.</seg><seg>Mary finds her book.</seg></doc>
<doc docid="b"><seg>The river sleeps near a house.</seg></doc></srcset>"""


@pytest.fixture
def write(tmp_path):
    def make(name: str, text: str):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


@pytest.fixture
def translate(saved_model, tmp_path, capsys):
    def run(*options, status: int = 0) -> str:
        assert main(["--model", str(saved_model), "--cpu", "--quiet", *map(str, options)]) == status
        shown = capsys.readouterr()
        if status:
            assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
        return shown.out + without_limit_remarks(shown.err)

    return run


@pytest.fixture
def expected(translate, tmp_path) -> list[list[str]]:
    path = tmp_path / "text"
    path.write_text("".join("<d>\n" + "".join(f"{one}\n" for one in document) for document in DOCUMENTS))
    parts = translate(path).split("<d>\n")[1:]
    return [part.splitlines() for part in parts]


def test_text_may_have_tokens_of_the_raw_format(translate, write):
    path = write("in", TSV.replace("old", "<s>old</s>"))
    assert "error" not in translate(path, "--format", "input", "-o", path.with_name("out"))
    assert path.with_name("out").read_text().splitlines()[1].startswith("a\tThe <s>old</s> dog sleeps.\tx\t")


@pytest.mark.parametrize(("text", "name"), [(XML, "model"), (TSV, ""), (JSONL, "")])
def test_formats(translate, expected, saved_model, tmp_path, write, text, name):
    path, out = write("in", text), tmp_path / "out"
    lines = [line for document in expected for line in ("<d>", *document)]
    assert translate(path).splitlines() == lines
    translate(path, "--format=input", "-o", out)
    side = Side("hypothesis", "de" if name else "", name and saved_model.name)
    found = list(read(out, Reading()))
    assert [document.sides.pop(side).sentences for document in found] == expected
    before = list(read(path, Reading()))
    assert [(one.id, {s: t.sentences for s, t in one.sides.items()}) for one in found] == [
        (one.id, {s: t.sentences for s, t in one.sides.items()}) for one in before
    ]
    if name:
        assert re.sub(r"<hyp.*?</hyp>\n", "", out.read_text(), flags=re.DOTALL) == XML
        assert re.findall("</?p>", out.read_text()) == ["<p>", "</p>"] * 4
    assert {one.name for one in tmp_path.iterdir()} == {"in", "out", "text"}
    assert "already" in translate(out, "--format=input", "-o", tmp_path / "again", status=1)
    assert not (tmp_path / "again").exists()


def test_interrupted(translate, expected, tmp_path, write, monkeypatch, saved_model):
    path, out = write("in.xml", XML), tmp_path / "out"
    options = [path, "--format=input", "--max-tokens=1", "-o", out]
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(OSError, match="machine"):
            main(["--model", str(saved_model), "--cpu", *map(str, options)])
    assert not out.exists() and (tmp_path / "out.part").exists()
    translate(*options)
    assert [one.sides[Side("hypothesis", "de", saved_model.name)].sentences for one in read(out, Reading())] == expected
    assert not (tmp_path / "out.part").exists()


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (SGM, ["-o", "out"], "in: is SGM; only WMT XML, TSV, JSON lines can be written back"),
        ("The old dog sleeps.\n", ["-o", "out"], "in: is text; only WMT XML"),
        (XML, [], "name it with --output FILE"),
        (XML, ["-o", "/dev/null"], "name it with --output FILE"),
        (XML, ["-o", "out", "--nbest=2"], "leave out --nbest"),
        (
            XML.replace('lang="en"', 'lang="es"'),
            ["-o", "out"],
            "in, line 3: document a has no source (en); it has source (es)",
        ),
        (XML.replace("</seg>", "", 1), ["-o", "out"], "in, line 3: damaged XML"),
        (TSV.replace("\tx\n", "\n"), ["-o", "out"], "in, line 2: 2 columns, but 3 are expected"),
    ],
)
def test_what_users_run_into(translate, tmp_path, write, monkeypatch, text, options, said):
    monkeypatch.chdir(tmp_path)
    assert said in translate(write("in", text), "--format=input", *options, status=1)
    assert {one.name for one in tmp_path.iterdir()} == {"in"}


def test_what_is_written_back_stays_as_it_was(write):
    """Numbers, escapes and half characters of other keys, too; texts are found by the keys of the first line."""
    lines = [
        r'{"docid": "a", "en": "One.", "score": 1.50, "n": 12345678901234567890.1, "meta": "\ud83d"} ',
        r'{"docid": "a", "de": "x", "en": "\u0032.", "docid": "a"}',
        '{"de": ["a", "b"], "docid": "a", "en": "Three."}',
    ]
    made = "".join(add_translation(write("in", "\n".join(lines)), [["Eins „1“.", "Zwei.", "Drei."]], True))
    assert made.splitlines() == [
        f'{line.rstrip()[:-1]}, "hyp": "{text}"}}'
        for line, text in zip(lines, ("Eins „1“.", "Zwei.", "Drei."), strict=True)
    ]
