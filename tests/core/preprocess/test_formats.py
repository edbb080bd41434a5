"""Every format against a difficult file written by hand, sacrebleu's readers and ElementTree."""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from xml.etree import ElementTree

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from gtransformer.preprocess.formats import Options, read

# A byte order mark, line ends of Windows, a document type, comments, attributes in any order,
# entities, tags within segments, segments over two lines, an empty segment, no paragraphs, a name
# of a system with a quote.
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
"""  # noqa: E501
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
"""  # noqa: E501
TMX_8 = TMX.replace("UTF-16", "UTF-8")
TSV = (
    '\ufeffgenre\tref:A\tdoc_id\tsrc\tref:B\r\nnews\tEins\ta\tOne "x" &amp;\tEin\r\n'
    "x\t\ta\tTwo\t\r\nx\tDrei\tb\tThree\tIII\r\n"
)


def found(*paths, **more) -> list[list[tuple[str, str]]]:
    """The documents of files."""
    return list(read(paths, Options(("en", "de"), **more)))


def test_wmt_xml(write, tmp_path):
    """With sacrebleu's reader as the oracle, which leaves out text after a tag in a segment."""
    path = write("x.xml", WMT_XML)
    left_out = defaultdict(list)
    pairs = found(path, reference="A", left_out=left_out)
    assert pairs == [list(zip(SOURCE, REFERENCES["A"], strict=True))]
    assert sum(map(len, left_out.values())) == 1
    plain = write("plain.xml", WMT_XML.replace("<b>it <i>all</i></b>", "it all").lstrip("\ufeff"))
    theirs = WMTXMLDataset._unwrap_wmt21_or_later(str(plain))
    clean = {
        name: [" ".join((text or "").split()) for text in texts] for name, texts in theirs.items()
    }
    assert clean["src"] == [" ".join(one.split()) for one in SOURCE]
    assert {name: clean[f"ref:{name}"] for name in REFERENCES} == REFERENCES
    compressed = tmp_path / "x.xml.gz"
    compressed.write_bytes(gzip.compress(WMT_XML.encode()))
    assert found(compressed, reference="A") == pairs
    assert found(write("br.xml", WMT_XML.replace("See <b>", "See<br/><b>")), reference="A") == pairs


def test_sgm(write):
    """With sacrebleu's expression as the oracle; it does not resolve entities. Documents are in
    another order.
    """
    documents = found(write("x.sgm", SGM), write("y.sgm", REFSET))
    assert documents == [[(SGM_DOCUMENTS[0][1][0], "AT"), ("Café", "Cafe")], [("One", "Eins")]]
    theirs = [FakeSGMLDataset._clean(segment) for segment in re.findall(r"<seg.*?>(.*)</seg>", SGM)]
    theirs = [text.replace("&amp;", "&").replace("&eacute;", "é") for text in theirs]
    assert [source for document in documents for source, _ in document] == theirs
    two = REFSET.replace(
        "</refset>", REFSET.partition("\n")[2].replace('"ref"', '"B"').replace("Eins", "Ein")
    )
    assert found(write("x.sgm", SGM), write("y.sgm", two), reference="B")[1] == [("One", "Ein")]


def test_xml_of_iwslt(write):
    """Talks with a title; a lone & is no error."""
    target = (
        IWSLT.replace("srcset", "refset")
        .replace('srclang="english"', 'trglang="german"')
        .replace("One", "Eins")
    )
    assert found(write("x.xml", IWSLT), write("y.xml", target)) == [
        [("One.", "Eins."), ("Two & three.",) * 2]
    ]


def test_tmx(write):
    """In UTF-16, with ElementTree as the oracle; German first; languages with regions; codes; a
    unit without German.
    """
    left_out = defaultdict(list)
    documents = [[("Hi you & me!", "Hallo du!"), ("Two", "Zwei")], [("", "Drei")]]
    assert (
        found(write("x.tmx", TMX.encode("utf-16")), left_out=left_out) == documents
        and sum(map(len, left_out.values())) == 1
    )
    segments = ElementTree.fromstring(TMX_8.replace("<bpt", "<!--").replace("</bpt>", "-->")).iter(
        "seg"
    )
    theirs = {" ".join("".join(segment.itertext()).split()) for segment in segments}
    assert {text for document in documents for pair in document for text in pair} <= theirs | {
        "Hi you & me!"
    }
    whole = found(write("x.tmx", TMX_8.replace("x-Document", "x-other")), one_document=True)
    assert whole == [[pair for document in documents for pair in document]]
    for tag in ('<ph type="lb">x</ph>', "<ph>&lt;br/></ph>"):
        path = write("x.tmx", TMX_8.replace("Hallo ", f"Hallo{tag}"))
        assert found(path)[0][0][1] == "Hallo du!"


def test_tables(write):
    path = write("x.tsv", TSV)
    assert found(path, reference="A") == [
        [('One "x" &amp;', "Eins"), ("Two", "")],
        [("Three", "Drei")],
    ]
    echo = write("echo", "a\tOne\tEins\nb\tTwo\tZwei\n")  # sacrebleu --echo docid src ref
    names = {"format": "tsv", "columns": ("docid", "src", "ref")}
    assert found(echo, **names) == [[("One", "Eins")], [("Two", "Zwei")]]
    assert found(write("y.tsv", "docid\tid\ten-US\tde\tfr\na\t1\tOne\tEins\tUn\n")) == [
        [("One", "Eins")]
    ]


@pytest.mark.parametrize(
    "names",
    [
        "news a\nnews a\nb\nb\n",
        "en/1/a.gz\tde/1.gz\t1\t1 2\nen/1/a.gz\tde/1.gz\t2\t3\nx\ty\t1\t1\nx\ty\t2\t2\n",
    ],
    ids=["wmt", "opus"],
)
def test_ids(write, names):
    """Byte order marks and line ends of Windows are no text."""
    source, target = (
        write("en", "\ufeffOne.\nTwo.\nThree.\nFour.\n"),
        write("de", "Eins.\r\nZwei.\r\n\r\nVier.\r\n"),
    )
    documents = [[("One.", "Eins."), ("Two.", "Zwei.")], [("Three.", ""), ("Four.", "Vier.")]]
    assert found(source, target, ids=write("ids", names)) == documents
