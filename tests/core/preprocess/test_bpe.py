"""Byte pair encoding."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.bpe import Encoder, learn, remove_bpe_lines, take_codes
from gtransformer.preprocess.tokenise import Tokeniser

TEXT = "<d>\nlow low low low low lower lower\nnewest newest newest newest newest newest\n<d>\nwidest widest widest\n"


@pytest.fixture
def codes(write, tmp_path):
    assert learn([write("text", TEXT)], tmp_path / "codes", 10) == 10
    return tmp_path / "codes"


def test_merges_are_those_of_subword_nmt(codes):
    plain, wanted = io.StringIO(TEXT.replace("<d>\n", "")), io.StringIO()
    learn_bpe(plain, wanted, 10)
    assert codes.read_text() == wanted.getvalue()


def test_joint_learning_counts_all_files_in_any_order(write, tmp_path, codes):
    lines = TEXT.splitlines(keepends=True)
    halves = [write("b", "".join(lines[2:])), write("a", "".join(lines[:2]))]
    assert learn(halves, tmp_path / "joint", 10, workers=2) == 10
    assert (tmp_path / "joint").read_bytes() == codes.read_bytes()


def test_apply_and_undo(codes):
    encoder = Encoder(codes)
    assert encoder(["lowest newer", "", "low"]) == ["lo@@ west ne@@ w@@ e@@ r", "", "low"]
    assert remove_bpe_lines(encoder(["lowest newer", "", "low"])) == ["lowest newer", "", "low"]


@pytest.mark.parametrize("symbol", ["<pad>", "<unk>", "<mask>", "[de]"])
def test_the_end_of_a_word_is_no_control_symbol(write, tmp_path, symbol):
    learn([write("text", f"row{symbol} tok{symbol} a{symbol}\n" * 3)], tmp_path / "codes", 20)
    with open(tmp_path / "codes") as stream:
        assert symbol in BPE(stream).segment_tokens([f"bib{symbol}"])
    (line,) = Encoder(tmp_path / "codes")([f"bib{symbol}"])
    assert symbol not in line.split() and remove_bpe_lines([line]) == [f"bib{symbol}"]


def test_remove_bpe():
    assert remove_bpe_lines(["Haus@@ boot .", "a@@ b@@", "a @ b@c", ""]) == ["Hausboot .", "ab", "a @ b@c", ""]


def test_fewer_merges_than_asked_for(write, tmp_path, capsys):
    assert learn([write("text", "ab ab c\n")], tmp_path / "codes", 1000) == 1
    assert Encoder(tmp_path / "codes")(["ab bc"]) == ["ab b@@ c"]
    assert "Stopping" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#version: 0.2\na b c\n", "codes, line 2: not a BPE merge"),
        ("no codes at all\n", "codes, line 1: not a BPE merge"),
    ],
)
def test_damaged_codes(write, text, says):
    with pytest.raises(UserError, match=says):
        Encoder(write("codes", text))


@pytest.mark.parametrize("text", ["<d>\n\n", "a b c\n", "ab cd\n"])
def test_too_little_text(write, tmp_path, text):
    with pytest.raises(UserError, match="text: too little text to learn BPE from"):
        learn([write("text", text)], tmp_path / "codes", 10)
    assert not (tmp_path / "codes").exists()


def test_real_text(shared, tmp_path):
    raw = [line for line in read_lines(shared / "ted" / "concatenated_en2de_dev_de.txt.xz") if line != "<d>"]
    lines = Tokeniser("de")(raw[:1500])
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    learn([tmp_path / "text"], tmp_path / "codes", 500)
    encoded = Encoder(tmp_path / "codes")(lines)
    with open(tmp_path / "codes", encoding="utf-8") as stream:
        other = BPE(stream)
    assert encoded == [other.process_line(line) for line in lines]
    assert remove_bpe_lines(encoded) == lines
    assert sum(line.count("@@ ") for line in encoded) > 5000


def test_codes_of_fastbpe(tmp_path, codes):
    """Its lines end in a count, and there is no version; words are cut as by the same codes of subword-nmt."""
    merges = list(read_lines(codes))[1:]
    (tmp_path / "fast").write_text("".join(f"{merge} {100 - n}\n" for n, merge in enumerate(merges)), encoding="utf-8")
    for given in (tmp_path / "fast", codes):
        take_codes(given, tmp_path / "taken")
        assert (tmp_path / "taken").read_text() == codes.read_text()


def test_pieces_that_a_dictionary_lacks_are_cut_further(tmp_path):
    """As subword-nmt's own command does with a vocabulary."""
    codes, known = tmp_path / "codes", tmp_path / "known"
    codes.write_text("#version: 0.2\nl o\nlo w\ne s\nes t</w>\nlow est</w>\nlow e\nn e\nne w</w>\n")
    known.write_text("low@@ 9\nest 8\nne@@ 5\nw 4\nl@@ 3\no@@ 3\nlow 2\n")
    text = "lowest low new lower newest slow x"
    command = [sys.executable, "-m", "subword_nmt.apply_bpe", "-c", codes, "--vocabulary", known]
    expected = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()
    assert expected.startswith("low@@ est ")
    words = [line.split()[0] for line in known.read_text().splitlines()]
    assert Encoder(codes, words)([text]) == [expected] != Encoder(codes)([text])
