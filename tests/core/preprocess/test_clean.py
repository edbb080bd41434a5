"""Cleaning: what goes, what stays, what is counted."""

from __future__ import annotations

from gtransformer.files import read_lines
from gtransformer.preprocess.clean import CleanReport, clean_files


def test_counts(write, tmp_path):
    source = write(
        "en", "<d>\nOne.\r \r\n\nThree.\n<d>\n \n\n<d>\nSix\x07.\n\x0c\nEight\n\t\nTen\n"
    )
    target = write(
        "de",
        "<d>\nEins.\nZwei.\n\n<d>\nVier.\n\r\n<d>\nSechs.\nSieben.\nAcht\u2028!\nNeun\r\n "
        "__NULL__\n",
    )
    out = tmp_path / "out" / "en", tmp_path / "out" / "de"
    report = clean_files(source, target, out)
    assert report == CleanReport(
        dropped=7,
        dropped_documents=1,
        documents=2,
        sentences=3,
        borders="opened by <d>",
    )
    assert list(read_lines(out[0])) == ["<d>", "One.", "<d>", "Six.", "Eight"]
    assert list(read_lines(out[1])) == ["<d>", "Eins.", "<d>", "Sechs.", "Acht !"]


def test_every_line_of_a_test_set_is_kept(write, tmp_path):
    source = write("en", "<d>\nOne.\n\n<d>\nThree.\nFour.\n")
    target = write("de", "<d>\nEins.\nZwei.\n<d>\n\nVier.\n")
    out = tmp_path / "x.en", tmp_path / "x.de"
    report = clean_files(source, target, out, every_line=True)
    assert (report.kept_empty_source, report.kept_empty_target, report.sentences) == (1, 1, 4)
    assert [path.read_text() for path in out] == [source.read_text(), target.read_text()]
