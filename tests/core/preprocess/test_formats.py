"""Every format against a difficult file written by hand and against sacrebleu's readers; what is refused."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from gtransformer.cli.convert import main
from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import find_splits, read_documents
from gtransformer.preprocess.formats import FORMATS, LAYOUT, detect, read
from gtransformer.preprocess.formats.documents import Reading, Side
from gtransformer.preprocess.formats.tables import add_translation
from gtransformer.preprocess.formats.wmt import add_hypothesis, layout_files
from gtransformer.preprocess.plain_text import read_plain, read_shaped

# A byte order mark, line ends of Windows, a document type, comments, attributes in any order, entities, tags within
# segments, segments over two lines, an empty segment, no paragraphs, a name of a system with a quote.
WMT_XML = """\ufeff<?xml version='1.0' encoding='utf-8'?>\r
<!DOCTYPE dataset [<!ENTITY firm "R&#38;#38;D">]>\r
<!-- <doc id="no"> -->\r
<dataset id="wmt">\r
<collection id="general">\r
  <doc origlang="en" id="a &amp; b" domain="news">\r
    <src lang="en"><p>\r
      <seg id="1">&firm; &lt;b&gt; costs\r
        5&#xA0;€</seg>\r
      <seg id="2">See <b>it <i>all</i></b>.</seg></p>\r
    <p><seg id="3"/></p></src>\r
    <ref translator="B" lang="de"><p><seg id="1">F&amp;E</seg><seg id="2">Sieh.</seg><seg id="3"></seg></p></ref>\r
    <ref lang="de" translator="A"><seg id="1">FE</seg><seg id="2">Da!</seg><seg id="3">Ja</seg></ref>\r
    <hyp system="x &quot;y&quot;" lang="de"><seg id="1">1</seg><seg id="2">2</seg><seg id="3">3</seg></hyp>\r
  </doc>\r
</collection>\r
<doc id="c" origlang="de" testsuite="none"><src lang="en"><seg id="1">No.</seg></src></doc>\r
</dataset>\r
"""
SOURCE = ["R&D <b> costs 5\xa0€", "See it all.", ""]
REFERENCES = {"A": ["FE", "Da!", "Ja"], "B": ["F&E", "Sieh.", ""]}

SGM = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE srcset SYSTEM "ftp://example.org/mteval.dtd">
<srcset srclang=any setid="newstest">
<doc genre="news" docid="b" sysid=source>
<hl>
<seg id="1">AT&T &copy2 &amp;lt; a < b, I <3 it</seg>
</hl>
<p>
<seg id="2"> Caf&eacute; </seg>
</doc>
<DOC sysid="source" DOCID='a'>
<p><seg id="1">One</seg></p>
</DOC>
</srcset>
"""
SGM_DOCUMENTS = [("b", ["AT&T &copy2 &lt; a < b, I <3 it", "Café"]), ("a", ["One"])]
REFSET = """<refset setid="newstest" srclang="any" trglang="de">\r
<doc docid="a" sysid="ref"><seg id="1">Eins</seg></doc>\r
<doc docid="b" sysid="ref"><seg id="1">AT</seg>\r
<seg id="2">Cafe</seg></doc>\r
</refset>\r
"""
IWSLT = """<mteval>
<srcset setid="iwslt" srclang="english">
<doc docid="535" genre="lectures">
<url>http://example.org/a?b&c</url>
<keywords>talks, text</keywords>
<title>A title</title>
<seg id="1"> One. </seg>
<seg id="2"> Two & three. </seg>
</doc>
</srcset>
</mteval>
"""
TALKS = """<url>http://example.org/a</url>
<keywords>talks</keywords>
<speaker>Ann</speaker>
<talkid>1</talkid>
<title>A title</title>
<description>TED Talk: about it</description>
One &amp; two.
AT&T three.
<reviewer>Ben</reviewer>
<url>http://example.org/b</url>
<talkid>2</talkid>

Four.
"""
DOC_TALKS = """<doc docid="1" genre="lectures">\r
<url>http://example.org/a</url>\r
<talkid>7</talkid>\r
<transcript>\r
One.\r
</transcript>\r
</doc>\r
<doc genre='lectures' docid='8'>\r
<url>http://example.org/b</url>\r
Two.\r
</doc>\r
"""
EUROPARL = """<CHAPTER ID="011">
Agenda
<SPEAKER ID=1 NAME="President">
Ladies and gentlemen,
the agenda is AT&T.
<P>

The vote.
<SPEAKER NAME="de Jong (PSE)" LANGUAGE="NL" ID="2">
Thank you.
<CHAPTER ID=2>
<CHAPTER ID='3'>
<SPEAKER ID="1" LANGUAGE="">
End.
"""
TMX = """<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" segtype="sentence"><prop type="x-document">header</prop></header><body>
<tu tuid="1"><prop type="x-note">n</prop><prop type="x-Document">a.html</prop>
 <note>no text</note>
 <tuv xml:lang="de-DE"><seg>Hallo <hi>du</hi>!</seg></tuv>
 <tuv xml:lang="EN-us"><seg><bpt i="1">&lt;b <sub>title</sub>></bpt>Hi<ept i="1">&lt;/b></ept> <hi>you</hi> &amp;
  me!</seg></tuv></tu>
<tu tuid="2"><tuv lang="en"><prop type="x-document">a.html</prop><seg>Two</seg></tuv>
 <tuv lang="de"><seg>Zwei</seg></tuv><tuv lang="fr"><seg>Deux</seg></tuv></tu>
<tu tuid="3"><tuv xml:lang="en"><seg>Only.</seg></tuv></tu>
<tu><prop type="x-document">b</prop><tuv xml:lang="en"><seg/></tuv><tuv xml:lang="de"><seg>Drei</seg></tuv></tu>
</body></tmx>
"""
TMX_8 = TMX.replace("UTF-16", "UTF-8")
TSV = (
    '\ufeffgenre\tref:A\tdoc_id\tsrc\tref:B\r\nnews\tEins\ta\tOne "x" &amp;\tEin\r\n'
    "x\t\ta\tTwo\t\r\nx\tDrei\tb\tThree\tIII\r\n"
)
JSONL = (
    '{"translation": {"de": "Eins", "en": "One\\n1"}, "docid": 7, "domain": null}\n\n'
    '{"docid": 7, "translation": {"en": "Two", "de": "Zwei \\u00fc"}}\n'
    '{"docid": "8", "translation": {"en": "", "de": "Drei"}}\n'
)
WHOLE = (
    '{"src": ["One", "Two"], "document": "a", "tgt": ["Eins", "Zwei"]}\n'
    '{"src": ["Three"], "document": "b", "tgt": ["Drei"]}\n'
)


def found(path, *langs: str, **more) -> list[tuple[str, dict[Side, list[str]]]]:
    """The documents of a file: ids, and sentences by side."""
    documents = read(path, Reading(langs, **more))
    return [(one.id, {side: text.sentences for side, text in one.sides.items()}) for one in documents]


def one_sided(path, *langs: str, **more) -> list[tuple[str, list[str]]]:
    return [(name, *sides.values()) for name, sides in found(path, *langs, **more)]


def test_wmt_xml(write, tmp_path):
    """With sacrebleu's reader as the oracle, which leaves out test suites and text after a tag in a segment."""
    path = write("x.xml", WMT_XML)
    sides = {
        Side("source", "en"): SOURCE,
        Side("reference", "de", "B"): REFERENCES["B"],
        Side("reference", "de", "A"): REFERENCES["A"],
        Side("hypothesis", "de", 'x "y"'): ["1", "2", "3"],
    }
    assert found(path) == [("a & b", sides), ("c", {Side("source", "en"): ["No."]})]
    plain = write("plain.xml", WMT_XML.replace("<b>it <i>all</i></b>", "it all").lstrip("\ufeff"))
    theirs = WMTXMLDataset._unwrap_wmt21_or_later(str(plain))
    clean = {name: [" ".join((text or "").split()) for text in texts] for name, texts in theirs.items()}
    assert clean["src"] == [" ".join(one.split()) for one in SOURCE]
    assert {name: clean[f"ref:{name}"] for name in REFERENCES} == REFERENCES
    compressed = tmp_path / "x.xml.gz"
    compressed.write_bytes(gzip.compress(WMT_XML.encode()))
    assert found(compressed) == found(path)


@pytest.mark.parametrize(("text", "expected"), [(SGM, SGM_DOCUMENTS), (REFSET, None), (IWSLT, None)])
def test_sgm(write, text, expected):
    """With sacrebleu's expression as the oracle where there are no entities; it does not resolve them."""
    ours = one_sided(write("x.sgm", text))
    assert expected is None or ours == expected
    clean = FakeSGMLDataset._clean
    theirs = [clean(one) for one in re.findall(r"<seg.*?>(.*)</seg>", text)]
    if expected:
        theirs = [one.replace("&amp;", "&").replace("&eacute;", "é") for one in theirs]
    assert [one for _, document in ours for one in document] == theirs


def test_sides_of_sgm(write):
    """Several systems in one file are sides of the same documents."""
    text = (
        '<tstset trglang="de"><doc docid="a" sysid="x"><seg id=1>1</seg></doc>'
        '<doc sysid="y" docid="a"><seg id=1>2</seg></doc></tstset>'
    )
    assert found(write("x", text)) == [
        ("a", {Side("hypothesis", "de", "x"): ["1"], Side("hypothesis", "de", "y"): ["2"]})
    ]
    assert [one.id for one in read(write("y", SGM.replace("docid", "x").replace("DOCID", "x")), Reading())] == ["", ""]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        (TALKS, [("1", ["One & two.", "AT&T three."]), ("2", ["", "Four."])]),
        (DOC_TALKS, [("7", ["One."]), ("8", ["Two."])]),
        (
            EUROPARL,
            [
                ("011", ["Agenda", "Ladies and gentlemen,", "the agenda is AT&T.", "", "The vote.", "Thank you."]),
                ("3", ["End."]),
            ],
        ),
    ],
)
def test_tagged_text(write, text, documents):
    assert one_sided(write("x", text)) == documents


def test_speakers_of_europarl(write):
    text = EUROPARL.replace("<CHAPTER ID='3'>", "<CHAPTER ID='3'>\nVote")
    assert [name for name, _ in one_sided(write("x", text), by="speaker")] == ["", "1", "2", "", "1"]


def test_tmx(write):
    """In UTF-16; German first; languages with regions; codes left out; a unit without German."""
    reading = Reading(("en", "de"))
    path = write("x.tmx", TMX.encode("utf-16"))
    documents = [
        ("a.html", {Side("", "en"): ["Hi you & me!", "Two"], Side("", "de"): ["Hallo du!", "Zwei"]}),
        ("b", {Side("", "en"): [""], Side("", "de"): ["Drei"]}),
    ]
    texts = [(one.id, {s: t.sentences for s, t in one.sides.items()}) for one in read(path, reading)]
    assert texts == documents and reading.left_out.units == 1
    with pytest.raises(UserError, match=r"x\.tmx, line 9: languages en, de, fr, but"):
        found(path)


def test_tables(write):
    a, b = Side("reference", "", "A"), Side("reference", "", "B")
    assert found(write("x.tsv", TSV)) == [
        ("a", {a: ["Eins", ""], Side("source"): ['One "x" &amp;', "Two"], b: ["Ein", ""]}),
        ("b", {a: ["Drei"], Side("source"): ["Three"], b: ["III"]}),
    ]
    echo = write("echo", "a\tOne\tEins\nb\tTwo\tZwei\n")  # sacrebleu --echo docid src ref
    assert detect(echo) is None
    assert found(echo, columns=("docid", "src", "ref")) == [
        ("a", {Side("source"): ["One"], Side("reference"): ["Eins"]}),
        ("b", {Side("source"): ["Two"], Side("reference"): ["Zwei"]}),
    ]
    en, de = Side("", "en"), Side("", "de")
    assert found(write("x.jsonl", JSONL)) == [
        ("7", {de: ["Eins", "Zwei ü"], en: ["One 1", "Two"]}),
        ("8", {de: ["Drei"], en: [""]}),
    ]
    assert found(write("y.jsonl", WHOLE)) == [
        ("a", {Side("source"): ["One", "Two"], Side("reference"): ["Eins", "Zwei"]}),
        ("b", {Side("source"): ["Three"], Side("reference"): ["Drei"]}),
    ]
    returning = write("z.tsv", "docid\tsrc\na\t1\nb\t2\na\t3\n")
    assert one_sided(returning, returning="gather") == [("a", ["1", "3"]), ("b", ["2"])]
    assert one_sided(returning, returning="new") == [("a", ["1"]), ("b", ["2"]), ("a", ["3"])]


@pytest.mark.parametrize("root", ["doc", "collection"])
def test_wmt_xml_without_dataset(write, root):
    """A single document or collection is no SGM, which would read both sides as one text."""
    inner = re.search(r"<doc origlang.*?</doc>", WMT_XML, re.DOTALL)[0].replace("&firm;", "R&amp;D")
    text = inner if root == "doc" else f'<collection id="general">{inner}</collection>'
    assert found(write("x", text)) == found(write("y", WMT_XML))[:1]


def test_a_long_first_line(write):
    """A document of more text than the beginning that tells the format."""
    sentences = ["word " * 20] * 1000
    path = write("x", "\n" + json.dumps({"docid": "a", "src": sentences, "ref": sentences}) + "\n")
    assert detect(path) == "JSON lines" and len(found(path)[0][1][Side("source")]) == 1000


@pytest.mark.parametrize(
    "first", ["<url> is down again", "<speaker> Hello!", "<p> Hello", "{docid} is a key", "docid src"]
)
def test_text_is_no_format(write, first):
    """It may begin with what opens a format: placeholders of social media, names of speakers."""
    path = write("x", f"{first}\nNext.\n")
    assert read_plain(path)[0] == [[first, "Next."]]


def test_other_columns(write):
    """Names of two or three letters that are no languages: numbers, language pairs. A wanted language is a text."""
    rows = '{"lp": "en-de", "docid": "a", "seg": 1, "id": 2, "src": ["One", "Two"]}\n'
    assert found(write("x", rows), "en") == [("a", {Side("source"): ["One", "Two"]})] == found(write("x", rows))
    table = "docid\tid\ten-US\tde\na\t1\tOne\tEins\n"
    english, german = (Side("", "en-US"), ["One"]), (Side("", "de"), ["Eins"])
    assert found(write("y", table)) == [("a", dict([english, german]))]
    assert found(write("y", table), "id") == [("a", dict([(Side("", "id"), ["1"]), english, german]))]
    assert detect(write("z", "docid\tid\ttext\na\t1\tOne\n")) is None, "of which only the numbers would be read"
    both = write("w", "docid\tsrc\tde\na\tOne\tEins\n")
    assert found(both, "en", "de") == [("a", {Side("source"): ["One"], Side("", "de"): ["Eins"]})]


WRONG = {  # file -> (content, message)
    "seg in seg": (WMT_XML.replace('"3"/>', '"3"><seg id="4"/></seg>'), "line 11: <seg> is not closed"),
    "damaged": (WMT_XML.replace("</collection>", ""), "line 18: damaged XML"),
    "text outside": (WMT_XML.replace("<p><seg id=\"3\"", 'lost<p><seg id="3"'), "line 11: text outside <seg> .'lost'"),
    "no src": (WMT_XML.replace('<src lang="en"><seg id="1">No.</seg></src>', "<seg/>"), "line 17: <seg> outside <src>"),
    "twice": (WMT_XML.replace('id="c"', 'id="a &amp; b"'), "line 17: document a & b occurs again, after line 6"),
    "same side": (WMT_XML.replace('translator="B"', 'translator="A"'), "line 13: document a & b has a reference A"),
    "no segment": (WMT_XML.replace('<seg id="1">No.</seg>', ""), "line 17: document c has no segment"),
    "reserved": (WMT_XML.replace("No.", "&lt;d>"), "line 17: the sentence <d> is reserved"),
    "text in side": (WMT_XML.replace('<seg id="3"/>', "<s2>lost</s2>"), "line 11: text outside <seg> .'lost'"),
    "of a DTD": (WMT_XML.replace(" [", ' SYSTEM "x" [').replace("No.", "N&ograve;"), "line 17: the entity &ograve;"),
    "of a file": (WMT_XML.replace('"R&#38;#38;D"', 'SYSTEM "x"'), "line 8: the entity &firm;"),
    "entity of TMX": (TMX_8.replace("Hallo ", "Hall&ograve; "), "line 6: the entity &ograve;"),
    "encoding": (WMT_XML.replace("'utf-8'", "'utf-99'").lstrip("\ufeff"), "line 1: damaged XML|its encoding"),
    "unclosed": (SGM.replace("a < b", "a <unk> b"), "line 6: </seg>, but <unk> of line 6 is open"),
    "open seg": (SGM.replace("Caf&eacute; </seg>", "Caf"), "line 10: </doc>, but <seg> of line 9 is open"),
    "heart": (SGM.replace("I <3 it", "I </3 it > her"), "line 6: '</3 it"),
    "cdata": (SGM.replace("One", "<![CDATA[One]]>"), r"line 12: <!\[CDATA"),
    "end": (SGM.replace("</DOC>\n</srcset>\n", ""), "line 11: <doc> is not closed"),
    "doc in doc": (SGM.replace("</doc>", ""), "line 11: <doc> within document b"),
    "talk": (TALKS.replace("AT&T", "<b>AT"), "line 8: '<b>AT"),
    "before": ("<speaker>Ann</speaker>\n<title>x</title>\n", "line 1: read as IWSLT's training text, but no document"),
    "chapter": (EUROPARL.replace("<CHAPTER ID=2>", "<CHAPTER>"), "line 11: <CHAPTER> without ID"),
    "europarl": (EUROPARL.replace("End.", "<EVENT ID=2>"), "line 14: '<EVENT ID=2>'"),
    "no document": (TMX_8.replace("x-Document", "x-other"), "line 4: the unit names no document"),
    "no language": (TMX_8.replace('xml:lang="de-DE"', ""), "line 6: a text without xml:lang"),
    "same language": (TMX_8.replace("fr", "en"), "line 10: two texts in en"),
    "cells": (TSV.replace("\ta\tTwo", "\tTwo"), "line 3: 4 columns, but 5 are expected"),
    "no id": (TSV.replace("x\t\ta\tTwo", "x\t\t\tTwo"), "line 3: no document id"),
    "again": (TSV + "x\tx\ta\tx\tx\n", "line 5: document a occurs again, after it ended on line 3"),
    "two ids": (TSV.replace("genre", "docid"), "line 1: column 'docid' is there twice"),
    "two refs": (TSV.replace("ref:B", "reference:A"), "line 1: column 'ref:A' is there twice"),
    "quoted": (TSV.replace("\tTwo", '\t"He said ""two"""'), "line 3: '\"He said .* is quoted as in CSV"),
    "no json": (JSONL + "{\n", "line 5: not valid JSON"),
    "list": (JSONL + "[1]\n", "line 5: no JSON object"),
    "null": (JSONL + '{"docid": 9, "translation": {"en": null, "de": "x"}}\n', "line 5: no text 'en'"),
    "half": (WHOLE.replace("Drei", "\\ud83d"), "line 2: 'tgt' has half a character"),
    "counts": (WHOLE.replace('["Drei"]', '["Drei", "Vier"]'), "line 2: texts of unequal numbers of sentences"),
    "json id": (JSONL + '{"docid": [], "translation": {"en": "x", "de": "x"}}\n', "line 5: no text 'docid'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(write, name):
    text, message = WRONG[name]
    path = write("wrong", text)
    assert detect(path) in FORMATS
    with pytest.raises(UserError, match=f"wrong(, |: ){message}"):
        found(path)


def test_truncated_files(write):
    """A file cut anywhere is refused or read up to whole lines of a table; nothing else happens."""
    for text in (WMT_XML, SGM, TMX_8, JSONL):
        for end in range(1, len(text), 7):
            path = write("cut", text[:end])
            if detect(path):
                try:
                    found(path, "en", "de")
                except UserError as error:
                    assert str(path) in str(error) and "\n" not in str(error)


def converted(folder, source="en", target="de") -> list[list[tuple[str, str]]]:
    return list(read_documents(*find_splits(folder / "out", source, target)["test"]))


@pytest.fixture
def convert(tmp_path, capsys):
    """Runs the command on files; returns its documents, or what it says if it fails."""

    def run(*files, more=()):
        status = main(["files", str(tmp_path / "out"), "--split=test", *more, "--input", *map(str, files)])
        shown = capsys.readouterr()
        if status:
            assert shown.err.count("\n") == 1 and not list((tmp_path / "out").glob("*"))
            return shown.err
        return converted(tmp_path), shown.out

    return run


def test_convert_one_file(write, convert):
    documents, said = convert(write("x", WMT_XML), more=["--reference=A"])
    assert documents == [list(zip(SOURCE, REFERENCES["A"], strict=True))] and "note: 1 documents that lack" in said
    assert "name one" in (error := convert_error(convert, write, WMT_XML)) and "x, line 6: " in error
    assert "<s> inside a sentence" in convert_error(convert, write, TSV.replace("Two", "<s>"), ["--reference=A"])
    documents, said = convert(write("x", TMX.encode("utf-16")))
    assert documents == [[("Hi you & me!", "Hallo du!"), ("Two", "Zwei")], [("", "Drei")]]
    assert "note: 1 translation units that lack a language" in said and "note: 1 sentence pairs have an empty" in said
    whole = convert(write("x", TMX_8.replace("x-Document", "x-other")), more=["--one-document"])[0]
    assert whole == [[("Hi you & me!", "Hallo du!"), ("Two", "Zwei"), ("", "Drei")]]
    assert "is TSV, but --one-document is for TMX" in convert_error(convert, write, TSV, ["--one-document"])
    assert convert(write("x", JSONL))[0] == [[("One 1", "Eins"), ("Two", "Zwei ü")], [("", "Drei")]]
    assert convert(write("x", WHOLE))[0] == [[("One", "Eins"), ("Two", "Zwei")], [("Three", "Drei")]]
    echo = ["--columns", "docid", "src", "ref"]
    assert convert(write("x", "a\tOne\tEins\nb\tTwo\tZwei\n"), more=echo)[0] == [[("One", "Eins")], [("Two", "Zwei")]]
    assert "is WMT XML, but --columns is for TSV" in convert_error(convert, write, WMT_XML, echo)
    assert "is TSV, but --by is for Europarl" in convert_error(convert, write, TSV, ["--by=speaker"])
    assert "is TSV, but --document-property is for TMX" in convert_error(convert, write, TSV, ["--document-property=x"])


def convert_error(convert, write, text, more=()):
    folder = write("x", text).parent / "out"
    for path in folder.glob("*"):
        path.unlink()
    return convert(folder.parent / "x", more=more)


def test_convert_two_files(write, convert):
    """The reference's documents are in another order."""
    documents, _ = convert(write("x", SGM), write("y", REFSET))
    assert documents == [[(SGM_DOCUMENTS[0][1][0], "AT"), ("Café", "Cafe")], [("One", "Eins")]]
    german = EUROPARL.replace("AT&T", "XY").replace('ID="2"', "ID=2")
    documents, _ = convert(write("x", EUROPARL), write("y", german))
    assert [len(one) for one in documents] == [6, 1] and documents[0][2] == ("the agenda is AT&T.", "the agenda is XY.")
    assert len(convert(write("x", TALKS), write("y", TALKS))[0]) == 2
    assert convert(write("x", "a\n\nb\n"), write("y", "A\n\nB\n"))[0] == [[("a", "A")], [("b", "B")]]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            SGM,
            REFSET.replace('<seg id="2">Cafe</seg>', ""),
            "y, line 3: 1 segments end here, but the other side has 2 in ",
        ),
        (
            SGM,
            REFSET.replace('id="2"', 'id="3"'),
            "y, line 4: segment 3, but the other side has segment 2 here, in line 9 of ",
        ),
        (SGM, REFSET.replace('docid="a"', 'docid="x"'), "x, line 11: document a is not in "),
        (
            SGM,
            REFSET.replace("</refset>", '<doc docid="x"><seg>x</seg></doc></refset>'),
            "y, line 5: document x is not in ",
        ),
        (EUROPARL, EUROPARL.replace("the agenda", "the\nagenda"), "y, line 6: segment 1/0/3, but the other"),
        (EUROPARL, EUROPARL.replace("ID='3'", "ID=4"), "x, line 12: document 3 is not in "),
        (TALKS, TALKS.replace("Four.", "Four.\nFive."), "y, line 14: 3 segments end here, but the other side has 2"),
        (SGM, "Eins\n", "y: plain text"),
    ],
)
def test_sides_that_do_not_fit(write, convert, source, target, message):
    assert message in convert(write("x", source), write("y", target))


def test_moses_and_ids_of_opus(write, tmp_path, capsys):
    ids = (
        "en/1/a.xml.gz\tde/2/b.xml.gz\t1\t1 2\nen/1/a.xml.gz\tde/2/b.xml.gz\t2\t3\nen/1/c.xml.gz\tde/2/d.xml.gz\t1\t1\n"
    )
    paths = write("en", "A\nB\nC\n"), write("de", "a\nb\nc\n"), write("ids", ids)
    files = [f"--{name}={path}" for name, path in zip(("source", "target", "ids"), paths, strict=True)]
    assert main(["ids", str(tmp_path / "out"), "--split=test", *files]) == 0
    assert converted(tmp_path) == [[("A", "a"), ("B", "b")], [("C", "c")]]
    write("ids", ids.replace("\t1\t1\n", "\n"))
    assert main(["ids", str(tmp_path / "out"), "--split=test", *files]) == 1
    assert "ids, line 3: 2 columns, but 4 in the lines before" in capsys.readouterr().err


def layout(folder, pair="en-de"):
    """A small imitation of WMT's folder of systems' outputs."""
    files = {
        f"sources/{pair}.txt": "One.\nTwo.\nThree.\n",
        f"references/{pair}.refA.txt": "Eins.\nZwei.\nDrei.\n",
        f"references/{pair}.refB.txt": "Ein.\nZwei!\nIII.\n",
        f"documents/{pair}.docs": "news\ta\nnews\ta\nliterary\tb\n",
        f"system-outputs/{pair}/GPT-4.txt": "Eins.\nZwei.\nDrei.\n",
        f"system-outputs/{pair}/Claude-3.5.txt": "Eins.\n\nVier.\n",
        "sources/en-des.txt": "x\n",
    }
    for name, text in files.items():
        path = folder / "txt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_layout(tmp_path, convert):
    folder = layout(tmp_path / "wmt")
    assert detect(folder) == LAYOUT
    sides = {
        Side("source", "en"): (["One.", "Two."], ["Three."]),
        Side("reference", "de", "refA"): (["Eins.", "Zwei."], ["Drei."]),
        Side("reference", "de", "refB"): (["Ein.", "Zwei!"], ["III."]),
        Side("hypothesis", "de", "Claude-3.5"): (["Eins.", ""], ["Vier."]),
        Side("hypothesis", "de", "GPT-4"): (["Eins.", "Zwei."], ["Drei."]),
    }
    expected = [(name, {side: one[at] for side, one in sides.items()}) for at, name in enumerate("ab")]
    assert found(folder, "en", "de") == expected
    assert convert(folder, more=["--reference=refB"])[0] == [
        [("One.", "Ein."), ("Two.", "Zwei!")],
        [("Three.", "III.")],
    ]
    (folder / "txt" / "system-outputs" / "en-de" / "GPT-4.txt").write_text("Eins.\nZwei.\n")
    with pytest.raises(UserError, match=r"GPT-4.txt, line 2: the file ends here"):
        found(folder, "en", "de")
    assert len(convert(folder, more=["--reference=refB"])[0]) == 2, "outputs of systems are not read"
    with pytest.raises(
        UserError, match=r"documents: one file for the language pair en-fr is needed; it has en-de.docs"
    ):
        found(folder, "en", "fr")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Unbabel-Tower70B.txt", "Unbabel-Tower70B"),
        ("Aya-2.3.de", "Aya-2.3"),
        ("wmttest2023.en-de.hyp.GPT4-5shot.de", "GPT4-5shot"),
        ("newstest2021.en-de.ref.ref-C.de", "ref-C"),
        ("en-de.ours.txt", "ours"),
        ("GPT-5.en-de.txt", "GPT-5"),
    ],
)
def test_names_of_systems(name, expected, tmp_path):
    folder = layout(tmp_path)
    path = folder / "txt" / "system-outputs" / "x" / name if "en-de" in name else None
    path = path or folder / "txt" / "system-outputs" / "en-de" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("1\n2\n3\n")
    names = {file: side.name for side, file in layout_files(folder, "en-de")[0].items()}
    assert names[path] == expected


def test_round_trips(write):
    """What is written back has every byte of the input and one text more."""
    path = write("x.xml", WMT_XML)
    made = b"".join(add_hypothesis(path, [["F & <E>", "Sieh’s.", ""], ["Nein."]], "de", 'our "x"'))
    again = write("y.xml", made)
    expected = found(path)
    expected[0][1][Side("hypothesis", "de", 'our "x"')] = ["F & <E>", "Sieh’s.", ""]
    expected[1][1][Side("hypothesis", "de", 'our "x"')] = ["Nein."]
    assert found(again) == expected
    assert re.sub(rb'<hyp lang="de" system=\'our "x"\'>.*?</hyp>\n', b"", made, flags=re.DOTALL) == WMT_XML.encode()
    latin = WMT_XML.lstrip("\ufeff").replace("'utf-8'", "'iso-8859-1'").replace("€", "&#8364;").encode("latin-1")
    made = b"".join(add_hypothesis(write("l.xml", latin), [["ü", "’", ""], ["Nein."]], "de", "x"))
    assert found(write("m.xml", made))[0][1][Side("hypothesis", "de", "x")] == ["ü", "’", ""]

    for text, translations in ((TSV, [["1", "2"], ["3"]]), (JSONL, [["1", "2"], ["3"]]), (WHOLE, [["1", "2"], ["3"]])):
        path, is_json = write("in", text), text != TSV
        made = "".join(add_translation(path, translations, is_json))
        ours = found(write("out", made))
        assert [sides.pop(Side("hypothesis")) for _, sides in ours] == translations and ours == found(path)
        if is_json:
            rows = [json.loads(line) for line in made.splitlines() if line]
            assert [{k: v for k, v in row.items() if k != "hyp"} for row in rows] == [
                json.loads(line) for line in text.splitlines() if line
            ]
        with pytest.raises(UserError, match="out, line 1: .*'hyp' is there already"):
            list(add_translation(write("out", made), translations, is_json))


def test_lines_without_a_sentence(write):
    with pytest.raises(UserError, match="line 2: 'en' has no sentence"):
        list(read(write("in", '{"docid": 1, "en": ["a"]}\n{"docid": 2, "en": []}\n'), Reading()))
    # Lines that open documents, as ``translate --format json`` writes them.
    texts = [(None, "<d>"), (1, "A."), (1, "C."), (None, "<d>"), (2, "E.")]
    lines = [{"document": number, "source": text, "translation": text} for number, text in texts]
    for line in ("<d>", ""):
        rows = [row if row["document"] else {name: row[name] and line for name in row} for row in lines]
        path = write("x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        assert read_plain(path, Side("source"))[0] == [["A.", "C."], ["E."]]
    made = "".join(add_translation(path, [["1", "2"], ["3"]], True)).splitlines()
    assert [json.loads(row).get("hyp") for row in made] == [None, "1", "2", None, "3"]


def test_line_breaks_are_blanks(write):
    """A tag for a line break stands between two words."""
    path = write("x.xml", WMT_XML.replace(">No.<", ">No.<br/>One<"))
    assert read_plain(path, Side("source"))[0][1] == ["No. One"]
    for tag in ('<ph type="lb">x</ph>', "<ph>&lt;br/></ph>"):
        path = write("x.tmx", TMX_8.replace("Hallo ", f"Hallo{tag}"))
        assert found(path, "en", "de")[0][1][Side("", "de")][0] == "Hallo du!"


def test_plain_readers(write):
    """Texts are read from these files as from plain text, one side of them."""
    path, source = write("x", WMT_XML.replace(' testsuite="none"', "")), Side("source")
    assert read_plain(path, source) == ([["R&D <b> costs 5\xa0€", "See it all.", ""], ["No."]], "of WMT XML")
    assert read_shaped(path, [3, 1], "like", source)[1] == ["No."]
    with pytest.raises(UserError, match="x, line 17: document 1 has 1 sentences, but 2 in like"):
        read_shaped(path, [3, 2], "like", source)
    with pytest.raises(UserError, match="x, line 17: the file has 2 documents, but like has 3"):
        read_shaped(path, [3, 1, 1], "like", source)
    with pytest.raises(UserError, match="x, line 6: document a & b has several texts of the reference"):
        read_plain(path, Side("reference"))
    with pytest.raises(UserError, match="x, line 17: document c has no reference A"):
        read_plain(path, Side("reference", "", "A"))
    with pytest.raises(UserError, match=r"x, line 6: .* has no text; it has source \(en\), reference B \(de\)"):
        read_plain(path)
    assert read_plain(write("y", REFSET)) == ([["Eins"], ["AT", "Cafe"]], "of SGM")
