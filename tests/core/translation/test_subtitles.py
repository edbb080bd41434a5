"""Subtitles: as many cues with the same times, signs and tags in place, read again by pysubs2."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.preprocess.formats import Options, read
from gtransformer.preprocess.subtitles import divide, translate_file
from tests.support import command

main = command("translate")

pysubs2 = pytest.importorskip("pysubs2")

CUES = [
    "The old dog sleeps near",
    "the river and the trees.",
    "<i>Mary finds her book.</i>",
    "♪ The river sleeps ♪",
    "",
    "- The <b>red</b> house?\n- The dog\nunder two trees.",
]
SCENE = 60  # cues, followed by a long pause


def time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},{rest:03}"


@pytest.fixture
def film(tmp_path) -> Path:
    """A SubRip file of 300 cues."""
    blocks, begin = [], 1000
    for number in range(300):
        end = begin + 1500 + number
        blocks.append(f"{number + 1}\n{time(begin)} --> {time(end)}\n{CUES[number % len(CUES)]}\n")
        begin = end + (40_000 if number % SCENE == SCENE - 1 else 200)
    path = tmp_path / "film.srt"
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def times_of(path: Path) -> list[str]:
    """The lines with times, read without pysubs2."""
    return re.findall(r"^\S+ --> \S+$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def translated(path: Path, output: Path) -> list[str]:
    """Write a translation that has every word in capitals; return the lines of text."""
    seen = []

    def capitals(lines: list[str]) -> list[str]:
        seen.extend(lines)
        return [line.upper() for line in lines if line != "<d>"]

    output.write_text(translate_file(str(path), str(output), 30, capitals), encoding="utf-8")
    return seen


@pytest.mark.slow
def test_command(film, tmp_path, saved_model, capfd):
    output = tmp_path / "film.pt.srt"
    assert main(["--model", str(saved_model), "--cpu", str(film), "-o", str(output)]) == 0
    assert times_of(output) == times_of(film)
    cues = pysubs2.load(str(output), keep_html_tags=True)
    assert len(cues) == 300
    for number, cue in enumerate(cues):
        shape = ("", "", "<i>.*</i>", "♪ .* ♪", "", r"- .*\\N- .*")[number % len(CUES)]
        assert re.fullmatch(shape or ".*", cue.text) and bool(cue.text) == bool(
            CUES[number % len(CUES)]
        )
    assert "(5 documents)" in capfd.readouterr().err


def test_sentences_and_documents(film, tmp_path):
    output = tmp_path / "out.srt"
    lines = translated(film, output)
    sentence = "The old dog sleeps near the river and the trees."
    scene = [
        sentence,
        "Mary finds her book.",
        "The river sleeps",
        "The red house?",
        "The dog under two trees.",
    ]
    assert lines == 5 * ["<d>", *(SCENE // len(CUES)) * scene]
    texts = [cue.text for cue in pysubs2.load(str(output), keep_html_tags=True)]
    assert texts[:6] == [
        "THE OLD DOG SLEEPS NEAR", "THE RIVER AND THE TREES.", "<i>MARY FINDS HER "
                                                               "BOOK.</i>", "♪ THE RIVER SLEEPS ♪",
        "", r"- THE RED HOUSE?\N- THE DOG UNDER TWO TREES.",
    ]  # fmt: skip
    assert times_of(output) == times_of(film)


@pytest.mark.parametrize("ending", ["vtt", "ass"])
def test_other_formats(film, tmp_path, ending):
    """From SubRip, within the format, and back."""
    first, second, third = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}", tmp_path / "c.srt"
    translated(film, first)
    translated(first, second)
    translated(second, third)
    found = [pysubs2.load(str(path)) for path in (film, first, second, third)]
    expected = [(cue.start, cue.end) for cue in found[0]]
    exact = 10 if ending == "ass" else 1  # hundredths of a second
    for one in found:
        assert all(
            abs(cue.start - start) < exact and abs(cue.end - end) < exact
            for cue, (start, end) in zip(one, expected, strict=True)
        )
    assert [cue.plaintext for cue in found[3]] == [cue.plaintext for cue in found[1]]
    assert "<i>MARY FINDS HER BOOK.</i>" in third.read_text(encoding="utf-8")


def test_comments_drawings_and_names_stay(tmp_path):
    """A comment and a drawing of ASS; a note and a cue's name of WebVTT."""
    film = pysubs2.SSAFile()
    film.events = [
        pysubs2.SSAEvent(0, 1000, "note", type="Comment"),
        pysubs2.SSAEvent(0, 1000, r"{\p1}m 0 0 l 1 1{\p0}"),
    ]
    film.save(str(tmp_path / "a.ass"))
    assert translated(tmp_path / "a.ass", tmp_path / "b.ass") == ["<d>"]
    assert (tmp_path / "b.ass").read_text().splitlines()[-2:] == (
        tmp_path / "a.ass"
    ).read_text().splitlines()[-2:]
    text = (
        "WEBVTT\n\nintro\n00:01.000 --> 00:02.000\nOne.\n\nNOTE no text\n\nend\n00:03.000 --> "
        "00:04.000\nTwo.\n"
    )
    (tmp_path / "a.vtt").write_text(text)
    assert translated(tmp_path / "a.vtt", tmp_path / "b.vtt") == ["<d>", "One.", "Two."]


@pytest.mark.parametrize(
    ("cue", "texts", "result"),
    [
        ("-Hi.\n<i>-Ho.</i>", ["Hi.", "Ho."], "-HI.\n<i>-HO.</i>"),
        ("<i>- Hi.\n- Ho.</i>", ["Hi.", "Ho."], "<i>- HI.\n- HO.</i>"),
        ("-¿Sí?\n-¡No!", ["¿Sí?", "¡No!"], "-¿SÍ?\n-¡NO!"),
        ('- <i>"Hi."</i>\n- <i>"Ho."</i>', ['"Hi."', '"Ho."'], '- <i>"HI."</i>\n- <i>"HO."</i>'),
        ("one\ntwo - three", ["one two - three"], "ONE TWO - THREE"),
        ("<i>One</i> two.", ["One two."], "ONE TWO."),
        ("One <i>two.</i>", ["One two."], "ONE TWO."),
        ("<b><i>One</i> two.</b>", ["One two."], "<b>ONE TWO.</b>"),
        ("<i>One</i> or <i>two.</i>", ["One or two."], "<i>ONE OR TWO.</i>"),
        ("<i>One <b>or</b> two.</i>", ["One or two."], "<i>ONE OR TWO.</i>"),
        ("<v Ann>One.", ["One."], "<v Ann>ONE."),
    ],
)
def test_speakers_and_tags(tmp_path, cue, texts, result):
    """A line for each speaker; tags of a cue's ends are kept, but not without their partner."""
    head = "1\n00:00:01,000 --> 00:00:02,000\n"
    (tmp_path / "a.srt").write_text(f"{head}{cue}\n\n", encoding="utf-8")
    assert translated(tmp_path / "a.srt", tmp_path / "b.srt") == ["<d>", *texts]
    assert (tmp_path / "b.srt").read_text(encoding="utf-8") == f"{head}{result}\n\n"


def test_signs_of_webvtt(tmp_path):
    """Entities are text, here and in other formats; times within a cue are left out."""
    cue = "00:01.000 --> 00:03.000\n{}\n"
    text = "R&amp;D:&nbsp;<00:01.500>1 &lt; 2 &amp; <00:02.000><c>so on</c>"
    (tmp_path / "a.vtt").write_text(f"WEBVTT\n\n{cue.format(text)}", encoding="utf-8")
    assert translated(tmp_path / "a.vtt", tmp_path / "b.vtt") == ["<d>", "R&D: 1 < 2 & so on"]
    assert "R&amp;D: 1 &lt; 2 &amp; SO ON\n" in (tmp_path / "b.vtt").read_text(encoding="utf-8")
    translated(tmp_path / "a.vtt", tmp_path / "b.srt")
    assert "\nR&D: 1 < 2 & SO ON\n" in (tmp_path / "b.srt").read_text(encoding="utf-8")
    pairs = list(read([tmp_path / "a.vtt"] * 2, Options(("en", "de"))))
    assert pairs == [[("R&D: 1 < 2 & so on",) * 2]]


def test_positions_and_cues_of_the_same_times(tmp_path):
    """Positions of ASS are not written to WebVTT; in a corpus such cues are one text."""
    cue = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n"
    (tmp_path / "a.srt").write_text(cue.format(r"{\an8}<i>Late</i>") + cue.format("news"))
    translated(tmp_path / "a.srt", tmp_path / "b.vtt")
    assert "\n<i>LATE</i>\n" in (tmp_path / "b.vtt").read_text()
    assert list(read([tmp_path / "a.srt"] * 2, Options(("en", "de")))) == [[("Late news",) * 2]]


def test_voices_of_webvtt(tmp_path):
    """Each is a text of its own."""
    head, cue = "WEBVTT\n\n00:01.000 --> 00:02.000\n", "<v Ann>Hi there\n<v.loud Bob>ho</v>"
    (tmp_path / "a.vtt").write_text(f"{head}{cue}\n")
    assert translated(tmp_path / "a.vtt", tmp_path / "b.vtt") == ["<d>", "Hi there", "ho"]
    assert "\n<v Ann>HI THERE\n<v.loud Bob>HO</v>\n" in (tmp_path / "b.vtt").read_text()


def test_signs_are_escaped_after_the_division(tmp_path):
    cues = "00:01.000 --> 00:02.000\none\n\n00:02.000 --> 00:03.000\ntwo\n"
    (tmp_path / "a.vtt").write_text(f"WEBVTT\n\n{cues}")
    path = str(tmp_path / "a.vtt")
    output = translate_file(path, path, 30, lambda lines: ["甲&乙<丙丁"])
    assert "\n甲&amp;乙\n" in output and "\n&lt;丙丁\n" in output


@pytest.mark.parametrize(
    ("cue", "result"),
    [
        (r"{\i1}One{\i0} two", "ONE TWO"),
        (r"{\an8\b1}One {\i1}two{\i0\b0} or{\b100}", r"{\an8}ONE TWO OR{\b100}"),
        (r"{\i1}One {\b1}or{\b0} two{\i0}", r"{\i1}ONE OR TWO{\i0}"),
    ],
)
def test_switches_of_ass(tmp_path, cue, result):
    film = pysubs2.SSAFile()
    film.events = [pysubs2.SSAEvent(9000, 9500, "Late"), pysubs2.SSAEvent(0, 1000, cue)]
    film.save(str(tmp_path / "a.ass"))
    assert translated(tmp_path / "a.ass", tmp_path / "b.ass")[-1] == "Late", "ordered by times"
    assert [cue.text for cue in pysubs2.load(str(tmp_path / "b.ass"))] == ["LATE", result]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
)
def test_divide_loses_nothing(lengths, words):
    text = " ".join("x" * length for length in words)
    parts = divide(text, lengths)
    assert len(parts) == len(lengths)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(parts) or len(words) < len(lengths)


def test_divide():
    assert divide("a b c d", [1, 3]) == ["a", "b c d"] and divide("今天天气", [5, 5]) == [
        "今天",
        "天气",
    ]
    assert divide("", [2, 3]) == ["", ""]


def test_parallel_corpus(film, tmp_path):
    """Cues of equal times are pairs; one that is moved is left out."""
    output = tmp_path / "film.de.srt"
    translated(film, output)
    moved = output.read_text(encoding="utf-8").replace("00:00:01,000", "00:00:00,900", 1)
    output.write_text(moved, encoding="utf-8")
    left_out = defaultdict(list)
    documents = list(read([film, output], Options(("en", "de"), left_out=left_out)))
    assert [len(document) for document in documents] == [
        49,
        50,
        50,
        50,
        50,
    ] and sum(map(len, left_out.values())) == 52
    assert documents[1][0] == ("The old dog sleeps near", "THE OLD DOG SLEEPS NEAR")
    assert documents[1][4] == (
        "- The red house? - The dog under two trees.",
        "- THE RED HOUSE? - THE DOG UNDER TWO TREES.",
    )
