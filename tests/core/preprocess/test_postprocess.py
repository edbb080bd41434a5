"""The way back to plain text."""

from __future__ import annotations

from gtransformer.cli.postprocess import main
from gtransformer.preprocess.bpe import remove_bpe
from gtransformer.preprocess.postprocess import Postprocessor


def test_plain():
    german = Postprocessor("de")
    assert (
        german.plain("das Haus@@ boot , sagte er , ist ( sehr ) al@@ t .") == "Das Hausboot, sagte er, ist (sehr) alt."
    )
    assert german.plain("") == ""
    assert Postprocessor("en").plain("it 's AT & T &amp; < b >") == "It's AT & T &amp; < b >"
    assert remove_bpe("al@@ t") == "alt"


def test_lines_one_by_one_and_together():
    lines = ["a b@@ c .", "", '" x "', "( y"]
    english = Postprocessor("en")
    assert english.plain_lines(lines) == [english.plain(line) for line in lines]


def test_command(write, tmp_path, capsys):
    source = write("in", "<d>\nein Haus@@ boot .\n<d>\nja !\n")
    assert main(["--lang", "de", "--input", str(source), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == "<d>\nEin Hausboot.\n<d>\nJa!\n"
    source = write("in", "<s> ein Haus@@ boot . </s> <s> ja ! </s>\n")
    assert main(["--lang", "de", "--input", str(source), "--instances", "--workers", "1"]) == 0
    assert capsys.readouterr().out == "Ein Hausboot.\nJa!\n"
    assert main(["--lang", "de", "--input", str(tmp_path / "nothing")]) == 1
    assert "nothing: no such file" in capsys.readouterr().err
