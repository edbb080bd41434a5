"""Tokenising and the way back."""

from __future__ import annotations

import pytest

from gtransformer.files import read_lines
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser, disarm


@pytest.mark.parametrize(
    ("lang", "plain", "tokens"),
    [
        ("en", "Hello, world!", "Hello , world !"),
        ("en", "It's Mr. Smith's e-mail (new).", "It 's Mr. Smith 's e-mail ( new ) ."),
        ("de", "Das ist z. B. „gut“, oder?", "Das ist z. B. „ gut “ , oder ?"),
        ("en", "AT&T <b> [x] |", "AT & T < b > [ x ] |"),
    ],
)
def test_tokens(lang, plain, tokens):
    assert Tokeniser(lang)([plain]) == [tokens]


@pytest.mark.parametrize("text", ["A <mask> b", "[en] [de]", "x <pad> <unk> <s> </s> <d>", "<mask>", "a[de]"])
def test_no_token_is_a_control_symbol_and_text_comes_back(text):
    tokens = Tokeniser("en")([text])[0].split()
    assert not {"<mask>", "[en]", "[de]", "<pad>", "<unk>", "<s>", "</s>", "<d>"} & set(tokens)
    assert "".join(tokens) == text.replace(" ", "")


def test_disarm_whatever_the_tokeniser():
    assert disarm("a <mask> [de] </s> b") == "a < mask > [ de ] < /s > b"
    assert disarm("a<mask> [ de ] <3 [1]") == "a<mask> [ de ] <3 [1]"


@pytest.mark.parametrize("lang", ["fr_FR", "fr-CA"])
def test_a_country_changes_no_rule(lang):
    text = ["Bonjour ! C'est « lui » ?"]
    assert Tokeniser(lang, exact=True)(text) == Tokeniser("fr", exact=True)(text)
    assert Detokeniser(lang, exact=True)(Tokeniser(lang, exact=True)(text)) == text


def test_a_line_keeps_its_place():
    lines = ["\x01", "", "a\u00a0b\u3000 c"]  # the tokeniser drops control characters
    assert Tokeniser("en")(lines) == ["\x01", "", "a b c"]


def test_normalising_is_an_option():
    assert Tokeniser("de")(["„Ja“"]) == ["„ Ja “"]
    assert Tokeniser("de", normalise=True)(["„Ja“"]) == ['" Ja "']


@pytest.mark.parametrize(("corpus", "lang"), [("techdocs", "en"), ("ted", "de")])
def test_round_trip_of_real_text(shared, corpus, lang):
    raw = [line for line in read_lines(shared / corpus / f"concatenated_en2de_dev_{lang}.txt.xz") if line != "<d>"]
    raw = [" ".join(line.split()) for line in raw[:1000]]
    tokens = Tokeniser(lang)(raw)
    back = Detokeniser(lang)(tokens)
    assert sum(a == b for a, b in zip(raw, back, strict=True)) > 0.9 * len(raw)
    # Nothing but blanks is ever changed.
    for before, after in zip(raw, back, strict=True):
        assert before.replace(" ", "") == after.replace(" ", "")
