"""Byte pair encoding."""

from __future__ import annotations

import pytest
import subword_nmt.apply_bpe

from gtransformer.files import read_lines
from gtransformer.preprocess.tokenisers import (
    apply_bpe,
    learn_codes,
    read_bpe,
    read_codes,
    remove_bpe_lines,
)
from tests.support import write_lines

TEXT = [
    "low low low low low lower lower",
    "newest newest newest newest newest newest",
    "widest widest widest",
]


@pytest.fixture
def codes(tmp_path):
    assert learn_codes(TEXT, tmp_path / "codes", 10) == 10
    return tmp_path / "codes"


def test_apply_and_undo(codes):
    lines = ["lowest newer", "", "low"]
    found = apply_bpe(read_bpe(codes), lines)
    assert found == ["lo@@ west ne@@ w@@ e@@ r", "", "low"] and remove_bpe_lines(found) == lines


def test_fewer_merges_than_asked_for(tmp_path, capsys):
    assert learn_codes(["ab ab c"], tmp_path / "codes", 1000) == 1
    assert apply_bpe(read_bpe(tmp_path / "codes"), ["ab bc"]) == ["ab b@@ c"]
    assert "Stopping" not in capsys.readouterr().err


def test_codes_of_fastbpe(tmp_path, codes):
    """Its lines end in a count, and there is no version; words are cut as by the same codes of
    subword-nmt.
    """
    merges = list(read_lines(codes))[1:]
    write_lines(tmp_path / "fast", (f"{merge} {100 - n}" for n, merge in enumerate(merges)))
    for given in (tmp_path / "fast", codes):
        assert read_codes(given) == list(read_lines(codes))


def test_pieces_that_a_dictionary_lacks_are_cut_further(tmp_path):
    """As subword-nmt itself does with a vocabulary."""
    codes, known = tmp_path / "codes", tmp_path / "known"
    codes.write_text("#version: 0.2\nl o\nlo w\ne s\nes t</w>\nlow est</w>\nlow e\nn e\nne w</w>\n")
    known.write_text("low@@ 9\nest 8\nne@@ 5\nw 4\nl@@ 3\no@@ 3\nlow 2\n")
    text = "lowest low new lower newest slow x"
    with open(codes) as merges:
        theirs = subword_nmt.apply_bpe.BPE(
            merges, vocab={line.split()[0] for line in known.read_text().splitlines()}
        )
    expected = theirs.process_line(text)
    assert expected.startswith("low@@ est ")
    words = [line.split()[0] for line in known.read_text().splitlines()]
    assert (
        apply_bpe(read_bpe(codes, words), [text])
        == [expected]
        != apply_bpe(read_bpe(codes), [text])
    )
    assert remove_bpe_lines([expected, "a@@ b@@", "a @ b@c", ""]) == [text, "ab", "a @ b@c", ""]
