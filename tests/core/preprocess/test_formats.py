"""Every format against a difficult file written by hand and against sacrebleu's readers; what is refused."""

from __future__ import annotations

import gzip
import re

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from gtransformer.cli.convert import main
from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import find_splits, read_documents
from gtransformer.preprocess.formats import detect, read
from gtransformer.preprocess.formats.documents import Reading, Side

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


def found(path, **more) -> list[tuple[str, dict[Side, list[str]]]]:
    """The documents of a file: ids, and sentences by side."""
    documents = read(path, Reading(("en", "de"), **more))
    return [(one.id, {side: text.sentences for side, text in one.sides.items()}) for one in documents]


def one_sided(path) -> list[tuple[str, list[str]]]:
    return [(name, *sides.values()) for name, sides in found(path)]


def test_wmt_xml(write, tmp_path):
    """With sacrebleu's reader as the oracle, which leaves out test suites and text after a tag in a segment."""
    path = write("x.xml", WMT_XML)
    sides = {
        Side("source", "en"): SOURCE,
        Side("reference", "de", "B"): REFERENCES["B"],
        Side("reference", "de", "A"): REFERENCES["A"],
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


@pytest.mark.parametrize("root", ["doc", "collection"])
def test_wmt_xml_without_dataset(write, root):
    """A single document or collection is no SGM, which would read both sides as one text."""
    inner = re.search(r"<doc origlang.*?</doc>", WMT_XML, re.DOTALL)[0].replace("&firm;", "R&amp;D")
    text = inner if root == "doc" else f'<collection id="general">{inner}</collection>'
    assert found(write("x", text)) == found(write("y", WMT_XML))[:1]


@pytest.mark.parametrize(("text", "expected"), [(SGM, SGM_DOCUMENTS), (REFSET, None), (IWSLT, None)])
def test_sgm(write, text, expected):
    """With sacrebleu's expression as the oracle where there are no entities; it does not resolve them."""
    ours = one_sided(write("x.sgm", text))
    assert expected is None or ours == expected
    theirs = [FakeSGMLDataset._clean(segment) for segment in re.findall(r"<seg.*?>(.*)</seg>", text)]
    if expected:
        theirs = [text.replace("&amp;", "&").replace("&eacute;", "é") for text in theirs]
    assert [sentence for _, document in ours for sentence in document] == theirs


def test_several_references_of_sgm(write):
    """They are sides of the same documents."""
    text = (
        '<refset trglang="de"><doc docid="a" sysid="x"><seg id=1>1</seg></doc>'
        '<doc sysid="y" docid="a"><seg id=1>2</seg></doc></refset>'
    )
    sides = {Side("reference", "de", "x"): ["1"], Side("reference", "de", "y"): ["2"]}
    assert found(write("x", text)) == [("a", sides)]


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        (TALKS, [("1", ["One & two.", "AT&T three."]), ("2", ["", "Four."])]),
        (DOC_TALKS, [("7", ["One."]), ("", ["Two."])]),
    ],
)
def test_talks(write, text, documents):
    assert one_sided(write("x", text)) == documents


def test_tmx(write):
    """In UTF-16; German first; languages with regions; codes left out; a unit without German."""
    reading = Reading(("en", "de"))
    documents = [
        ("a.html", {Side("", "en"): ["Hi you & me!", "Two"], Side("", "de"): ["Hallo du!", "Zwei"]}),
        ("b", {Side("", "en"): [""], Side("", "de"): ["Drei"]}),
    ]
    texts = read(write("x.tmx", TMX.encode("utf-16")), reading)
    assert [(one.id, {side: text.sentences for side, text in one.sides.items()}) for one in texts] == documents
    assert reading.left_out.total() == 1


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
    by_language = write("y.tsv", "docid\tid\ten-US\tde\tfr\na\t1\tOne\tEins\tUn\n")
    assert found(by_language) == [("a", {Side("", "en-US"): ["One"], Side("", "de"): ["Eins"]})]


def test_line_breaks_are_blanks(write):
    """A tag for a line break stands between two words."""
    path = write("x.xml", WMT_XML.replace(">No.<", ">No.<br/>One<"))
    assert found(path)[1][1][Side("source", "en")] == ["No. One"]
    assert one_sided(write("x.sgm", SGM.replace(">One<", ">One<br/>two<br>three<")))[1][1] == ["One two three"]
    for tag in ('<ph type="lb">x</ph>', "<ph>&lt;br/></ph>"):
        path = write("x.tmx", TMX_8.replace("Hallo ", f"Hallo{tag}"))
        assert found(path)[0][1][Side("", "de")][0] == "Hallo du!"


WRONG = {  # file -> (content, message)
    "seg in seg": (WMT_XML.replace('"3"/>', '"3"><seg id="4"/></seg>'), "line 11: <seg> is not closed"),
    "damaged": (WMT_XML.replace("</collection>", ""), "line 18: damaged XML"),
    "twice": (WMT_XML.replace('id="c"', 'id="a &amp; b"'), "line 17: document a & b occurs again, after line 6"),
    "same side": (WMT_XML.replace('translator="B"', 'translator="A"'), "line 13: document a & b has a reference A"),
    "no segment": (WMT_XML.replace('<seg id="1">No.</seg>', ""), "line 17: document c has no segment"),
    "reserved": (WMT_XML.replace("No.", "&lt;d>"), "line 17: the sentence <d> is reserved"),
    "of a DTD": (WMT_XML.replace(" [", ' SYSTEM "x" [').replace("No.", "N&ograve;"), "line 17: the entity &ograve;"),
    "of a file": (WMT_XML.replace('"R&#38;#38;D"', 'SYSTEM "x"'), "line 8: the entity &firm;"),
    "unclosed": (SGM.replace("a < b", "a <unk> b"), "line 6: a tag within <seg> is not closed"),
    "open seg": (SGM.replace("Caf&eacute; </seg>", "Caf"), "line 9: <seg> is not closed before <doc>"),
    "heart": (SGM.replace("I <3 it", "I </3 it > her"), "line 6: '</3 it"),
    "cdata": (SGM.replace("One", "<![CDATA[One]]>"), r"line 12: '<!\[CDATA"),
    "end": (SGM.replace("</DOC>\n</srcset>\n", ""), "line 11: <doc> is not closed"),
    "doc in doc": (SGM.replace("</doc>", ""), "line 11: <doc> within document b"),
    "talk": (TALKS.replace("AT&T", "<b>AT"), "line 8: '<b>AT"),
    "no document": (TMX_8.replace("x-Document", "x-other"), "line 4: the unit names no document"),
    "same language": (TMX_8.replace("fr", "en"), "line 10: two texts in en"),
    "cells": (TSV.replace("\ta\tTwo", "\tTwo"), "line 3: 4 columns, but 5 are expected"),
    "no id": (TSV.replace("x\t\ta\tTwo", "x\t\t\tTwo"), "line 3: no document id"),
    "again": (TSV + "x\tx\ta\tx\tx\n", "line 5: document a occurs again"),
    "two ids": (TSV.replace("genre", "docid"), "line 1: two columns of the document"),
    "two refs": (TSV.replace("ref:B", "reference:A"), "line 1: two columns of the reference A"),
    "quoted": (TSV.replace("\tTwo", '\t"He said ""two"""'), "line 3: '\"He said .* is quoted as in CSV"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(write, name):
    text, message = WRONG[name]
    with pytest.raises(UserError, match=f"wrong(, |: ){message}"):
        found(write("wrong", text))


@pytest.fixture
def convert(tmp_path, capsys):
    """Runs the command on files; returns its documents and what it prints, or the error."""

    def run(*files, more=()):
        status = main(["files", str(tmp_path / "out"), "--split=test", *more, "--input", *map(str, files)])
        shown = capsys.readouterr()
        if status:
            return shown.err
        return list(read_documents(*find_splits(tmp_path / "out", "en", "de")["test"])), shown.out

    return run


def test_convert_one_file(write, convert):
    documents, said = convert(write("x", WMT_XML), more=["--reference=A"])
    assert documents == [list(zip(SOURCE, REFERENCES["A"], strict=True))]
    assert "note: 1 documents that lack a side were left out" in said
    assert "has several texts of the reference" in convert(write("x", WMT_XML))
    assert "<s> inside a sentence" in convert(write("x", TSV.replace("Two", "<s>")), more=["--reference=A"])
    documents, said = convert(write("x", TMX.encode("utf-16")))
    assert documents == [[("Hi you & me!", "Hallo du!"), ("Two", "Zwei")], [("", "Drei")]]
    assert "note: 1 translation units that lack a language" in said and "note: 1 sentence pairs have an empty" in said
    whole = convert(write("x", TMX_8.replace("x-Document", "x-other")), more=["--one-document"])[0]
    assert whole == [[("Hi you & me!", "Hallo du!"), ("Two", "Zwei"), ("", "Drei")]]
    assert "document a has no reference (de); it has source" in convert(write("x", "docid\tsrc\na\tb\n"))


def test_convert_two_files(write, convert):
    """The reference's documents are in another order."""
    documents, _ = convert(write("x", SGM), write("y", REFSET))
    assert documents == [[(SGM_DOCUMENTS[0][1][0], "AT"), ("Café", "Cafe")], [("One", "Eins")]]
    assert len(convert(write("x", TALKS), write("y", TALKS))[0]) == 2
    assert convert(write("x", "a\n\nb\n"), write("y", "A\n\nB\n"))[0] == [[("a", "A")], [("b", "B")]]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (SGM, REFSET.replace('<seg id="2">Cafe</seg>', ""), "y, line 3: document b has 1 segments here, but 2 in "),
        (SGM, REFSET.replace('id="2"', 'id="3"'), "y, line 4: segment 3, but "),
        (SGM, REFSET.replace('docid="a"', 'docid="x"'), "x, line 11: document a is not in "),
        (SGM, REFSET.replace("</refset>", '<doc docid="x"><seg>x</seg></doc></refset>'), "y, line 5: document x is"),
        (TALKS, TALKS.replace("Four.", "Four.\nFive."), "y, line 10: document 2 has 3 segments here, but 2 in "),
        (SGM, "Eins\n", "y: none of the formats"),
        (REFSET, SGM, "document a has no source (en)"),
    ],
)
def test_sides_that_do_not_fit(write, convert, source, target, message):
    assert message in convert(write("x", source), write("y", target))
