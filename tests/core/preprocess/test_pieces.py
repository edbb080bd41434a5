"""Subwords of pretrained models: cutting, undoing, dictionaries."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gtransformer.preprocess.tokenisers import (
    SentencePieces,
    WordPieces,
    save_wordpieces,
)
from tests.bert import save_bert, skip_without_transformers
from tests.support import train_pieces

LINES = [
    "Das Haus ist alt.",
    "Die Häuser, die wir sehen, sind grün.",
    "Anna sieht Berlin!",
    "Es war (sehr) neu?",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model that falls back to bytes, and has what may be control symbols in a dictionary among
    its pieces.
    """
    path, symbols = tmp_path_factory.mktemp("pieces") / "m.model", ["<mask>", "[de_DE]"]
    lines = (f"{line} x[de_DE] [de_DE]" for line in LINES * 50)
    return train_pieces(path, lines, 330, byte_fallback=True, user_defined_symbols=symbols)


@pytest.fixture(scope="module")
def wordpieces(tmp_path_factory) -> Path:
    skip_without_transformers()
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder)
    save_wordpieces(folder, folder / "wordpieces.json")
    return folder / "wordpieces.json"


def test_cut_and_undone(model: Path):
    """Also from another process, for which the work is pickled."""
    cut = pickle.loads(pickle.dumps(SentencePieces(model))).split(LINES)
    assert all(line.startswith("\u2581") for line in cut)
    assert SentencePieces(model).join(cut) == LINES
    assert SentencePieces(model).join([""]) == [""] and SentencePieces(model).join([]) == []


def test_bytes_are_the_librarys_to_join(model: Path):
    """What is not among the pieces is cut into bytes, and comes back; bytes that are no text do as
    little harm.
    """
    pieces = SentencePieces(model)
    text = ["Café in 中国, naïve Häuser", "😀 <0x43> x"]
    cut = pieces.split(text)
    assert "<0xC3>" in cut[0] and "af<" not in " ".join(cut)
    assert pieces.join(cut) == text
    assert pieces.join(["\u2581Das <0xC3> \u2581Haus", "\u2581neu \u2581unbekannt es"]) == [
        " Das\ufffd Haus",
        " neu unbekanntes",
    ]


@pytest.mark.parametrize(
    "text", ["A <mask> b", "x[de_DE] [de_DE]", "x <s> </s> <pad> <unk>", "<mask>"]
)
def test_no_piece_is_a_control_symbol_and_text_comes_back(model: Path, text: str):
    """As of the tokeniser (``test_tokenise``)."""
    pieces = SentencePieces(model)
    cut = pieces.split([text])
    assert not {"<mask>", "[de_DE]", "<pad>", "<unk>", "<s>", "</s>"} & set(cut[0].split())
    assert pieces.join(cut) == [text]


def test_no_piece_holds_a_blank(tmp_path: Path):
    """A model that normalises nothing takes a no-break space for a letter; whoever reads the line
    does not.
    """
    lines = ["ein\u00a0Haus und 5\u202f% davon"] * 50
    path = train_pieces(tmp_path / "m.model", lines, 40, normalization_rule_name="identity")
    pieces = SentencePieces(path)
    cut = pieces.split(["ein\u00a0Haus \u2028 5\u202f%"])
    assert cut[0].split(" ") == cut[0].split() and pieces.join(cut) == ["ein Haus 5 %"]


def test_wordpieces_are_berts(wordpieces: Path):
    """Lower case, punctuation apart, ## inside a word; no special tokens, however long the line."""
    cut = pickle.loads(pickle.dumps(WordPieces(wordpieces))).split(
        ["The dogs, hearing", "cat " * 600]
    )
    assert cut[0] == "the dog ##s , [UNK]"
    assert cut[1].split() == ["cat"] * 600
    (cut,) = pickle.loads(pickle.dumps(WordPieces(wordpieces))).split(["[CLS] the [MASK]"])
    assert not {"[CLS]", "[MASK]"} & set(cut.split())


def test_a_sentence_is_never_without_words(model: Path, wordpieces: Path):
    """What nothing is left of becomes one unknown token, as with the tokeniser: a place in the
    alignment is kept.
    """
    assert SentencePieces(model).split(["\u200b", "Das"])[0] == "\u200b"
    assert WordPieces(wordpieces).split(["\u0301 \u0301", "a cat"]) == ["\u0301\u0301", "a cat"]
