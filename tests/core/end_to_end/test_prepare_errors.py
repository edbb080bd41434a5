"""What cannot be prepared is said in one line, and leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gtransformer.cli.prepare import main
from tests.raw_corpus import LIMITS, OPTIONS, lines, make_raw


def failure(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 1
    return capsys.readouterr().err.splitlines()[-1]


def test_vocabulary_that_cannot_be_borrowed(raw, prepared, tmp_path, capsys):
    output = str(tmp_path / "out")
    for lender, more, shown in (
        (tmp_path, [], "manifest.json: no such file"),
        (prepared, ["-t", "fr"], "of en-de; give these languages"),
    ):
        assert shown in failure(capsys, str(raw), output, "--vocabulary", str(lender), *more)
    assert not Path(output).exists()


@pytest.mark.parametrize(
    ("side", "change", "message"),
    [
        ("de", lambda text: text + b"Noch eins.\n", "concatenated_en2de_test_en.txt, line {n}: "),
        ("en", lambda text: text[4:], "concatenated_en2de_test_en.txt, line 1: "),
        ("de", lambda text: text[:-20] + b" <s> \n", "concatenated_en2de_test_de.txt, line {n}: <s>"),
        ("en", lambda text: text[:-2] + b"\xe4\n", "concatenated_en2de_test_en.txt, line {n}: byte 0xe4"),
        ("de", None, "concatenated_en2de_test_de.txt: no such file"),
    ],
)
def test_bad_input_leaves_nothing(raw, tmp_path, capsys, side, change, message):
    broken, output = tmp_path / "raw", tmp_path / "out"
    shutil.copytree(raw, broken)
    path = broken / f"concatenated_en2de_test_{side}.txt"
    number = len(lines(path))
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    assert message.format(n=number) in failure(capsys, str(broken), str(output))
    assert not output.exists()


def test_another_corpus_is_kept_unless_told(raw, prepared, tmp_path, capsys):
    """Models need the corpus as it was prepared: other options, text or vocabulary replace it only with --overwrite."""
    small, output, lender = make_raw(tmp_path / "raw", {"dev": 2}), tmp_path / "out", tmp_path / "lender"
    shutil.copytree(prepared, lender)
    given = [str(small), str(output), *LIMITS, "--vocabulary", str(lender)]
    assert main(given) == 0
    before = (output / "manifest.json").read_bytes()
    assert "other options: max_sents" in failure(capsys, *given, "--max-sents", "1")
    with open(small / "concatenated_en2de_dev_en.txt", "a") as english:
        english.write("<d>\nAnna.\n")
    with open(small / "concatenated_en2de_dev_de.txt", "a") as german:
        german.write("<d>\nAnna.\n")
    assert "other raw files: concatenated_en2de_dev_de.txt, concatenated_en2de_dev_en.txt" in failure(capsys, *given)
    assert (output / "manifest.json").read_bytes() == before
    assert main([*given, "--overwrite"]) == 0
    assert lines(output / "text" / "valid.de")[-2:] == ["<d>", "Anna."]
    with open(lender / "bpe.codes", "a") as codes:
        codes.write("x y\n")
    assert "other vocabulary: bpe.codes" in failure(capsys, *given)


def test_a_directory_with_other_files_is_left_alone(raw, tmp_path, capsys):
    mine = tmp_path / "out" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    for place in (mine.parent, raw):
        assert "holds something else" in failure(capsys, str(raw), str(place), *OPTIONS, "--overwrite")
    assert mine.exists()
