"""Cleaning: what goes, what stays, what is counted."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.clean import CleanReport, clean_files, clean_line, is_blank


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain", "plain"),
        ("  outer blanks \t", "outer blanks"),
        ("end\r", "end"),
        ("in\rside", "in side"),
        ("tab\tand\x0bvertical", "tab and vertical"),
        ("a\u2028b\u2029c\x85d\x0ce\x1cf", "a b c d e f"),
        ("nul\x00l, bell\x07, c1\x9b", "null, bell, c1"),
        ("\ufeffmark", "mark"),
        ("kept: \u00a0no-break, „Anführung“", "kept: \u00a0no-break, „Anführung“"),
        ("zero\u200bwidth", "zerowidth"),
    ],
)
def test_clean_line(raw, clean):
    assert clean_line(raw) == clean
    assert len(clean_line(raw).splitlines()) == 1


def test_blank():
    assert all(map(is_blank, ["", " ", "\u00a0\u3000", "\u200b", "\u200d\u00ad"]))
    assert not any(map(is_blank, [".", "a", "\u200ba", "\u4e2d"]))
    assert not any(map(is_blank, ["\U0001fae8", "\ue000", " \U000313a0"])), "newer than Python's tables, or private"


def test_counts(write, tmp_path):
    source = write("en", "<d>\nOne.\r \r\n\nThree.\n<d>\n \n\n<d>\nSix\x07.\n\x0c\nEight\n\t\n")
    target = write("de", "<d>\nEins.\nZwei.\n\n<d>\nVier.\n\r\n<d>\nSechs.\nSieben.\nAcht\u2028!\nNeun\r\n")
    out = [tmp_path / "out" / "en", tmp_path / "out" / "de"]
    report = clean_files(source, target, *out)
    assert report == CleanReport(
        documents_read=3,
        sentences_read=9,
        dropped_empty_source=4,
        dropped_empty_target=1,
        dropped_empty_both=1,
        dropped_documents=1,
        lines_with_carriage_return=1,
        lines_with_control_character=3,
        documents=2,
        sentences=3,
        borders="opened by <d>",
    )
    assert list(read_lines(out[0])) == ["<d>", "One.", "<d>", "Six.", "Eight"]
    assert list(read_lines(out[1])) == ["<d>", "Eins.", "<d>", "Sechs.", "Acht !"]


def test_what_looks_wrong_with_many_lines(write, tmp_path):
    """Text encoded twice, by either of two encodings, and text as Moses escapes it; sound text has no warning."""
    text = ["Das Mädchen ist größer.", "„Über Öfen“", "Ärger", "R & D", "café", "Ÿ"]
    sound = write("en", "<d>\n" + "\n".join(text))
    for wrong, words in (
        ([line.encode().decode("latin-1") for line in text[:1]], "encoded again"),
        (["Größe".encode().decode("cp1252")], "encoded again"),
        (["Er sagte &quot; ja &quot; ."], "escaped characters"),
    ):
        other = write("de", "<d>\n" + "\n".join([*text[1:], *wrong]))
        report = clean_files(sound, other, tmp_path / "x.en", tmp_path / "x.de")
        (found,) = report.warnings()
        assert found.startswith("1 of 12 lines") and words in found
    assert not list(
        clean_files(sound, write("x", "<d>\n" + "ä\n" * 6), tmp_path / "x.en", tmp_path / "x.de").warnings()
    )
    (found,) = clean_files(sound, sound, tmp_path / "x.en", tmp_path / "x.de").warnings()
    assert found.startswith("6 of 6 sentences are the same on both sides")


@pytest.mark.parametrize("line", ["<\x01d>", "a </\ufeffs> b", "<s\x7f>", "<\u00add>"])
def test_marks_that_appear_when_control_characters_are_dropped(write, tmp_path, line):
    source, target = write("en", f"<d>\nOne.\n{line}\n"), write("de", "<d>\nEins.\nZwei.\n")
    with pytest.raises(UserError, match=r"en, line 3: <.*> inside a sentence is reserved; remove or rewrite it"):
        clean_files(source, target, tmp_path / "x.en", tmp_path / "x.de")


def test_nothing_left(write, tmp_path):
    with pytest.raises(UserError, match=r"en, line 1: no sentence pair has text on both sides"):
        clean_files(write("en", "<d>\n\na\n"), write("de", "<d>\nb\n\n"), tmp_path / "x.en", tmp_path / "x.de")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de", "en"]


def test_bad_input_leaves_nothing(write, tmp_path):
    source, target = write("en", "<d>\na\nb\n"), write("de", b"<d>\na\n\xff\n")
    with pytest.raises(UserError, match=r"de, line 3: byte 0xff"):
        clean_files(source, target, tmp_path / "x.en", tmp_path / "x.de")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["de", "en"]


@pytest.mark.parametrize("before", [0, 2])
def test_empty_sides_are_named_by_their_line(write, tmp_path, before):
    blank = "\n" * before
    source = write("en", f"{blank}<d>\nOne.\n\n<d>\nThree.\nFour.\n")
    target = write("de", f"{blank}<d>\nEins.\nZwei.\n<d>\n\nVier.\n")
    report = clean_files(source, target, tmp_path / "x.en", tmp_path / "x.de", every_line=True)
    assert report.empty == [(before + 3, True, False), (before + 5, False, True)]
