"""Text that Unicode lets be written in several ways has one form, and with it the same tokens and the full score."""

from __future__ import annotations

import unicodedata

import pytest

from gtransformer.evaluation.score import score_text
from gtransformer.files import read_lines
from gtransformer.preprocess.clean import clean_files, clean_line
from gtransformer.preprocess.encode import TextEncoder
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.unicode_forms import one_form
from tests.support import ROOT

TEXT = "Das Mädchen ist größer, der Café-Besitzer älter."


@pytest.mark.parametrize(
    "same",
    [
        unicodedata.normalize("NFD", TEXT),
        TEXT.replace("Mädchen", "Mäd\u00adchen").replace("größer", "größer\u200b"),
        TEXT.replace("Café-B", "Café\u2011B"),
        TEXT.replace("Café-B", "Café\u2010B"),
        "\u200e" + TEXT.replace("der", "der\u2060") + "\u202c",
        TEXT.replace("älter", "äl\u200cter"),
    ],
)
def test_the_same_text_is_one_text(same, tmp_path):
    """As corpus, as new text of a model, and as translation and reference."""
    assert same != TEXT and clean_line(same) == TEXT
    assert Tokeniser("de")([clean_line(same)]) == Tokeniser("de")([TEXT])
    encode = TextEncoder(ROOT / "tests" / "compatibility" / "prepared", "de")
    assert encode([same]) == encode([TEXT])
    (tmp_path / "one").write_text(f"{TEXT}\n", encoding="utf-8")
    (tmp_path / "other").write_text(f"{same}\n", encoding="utf-8")
    for pair in (("one", "other"), ("other", "one")):
        found = score_text(*(tmp_path / name for name in pair), metrics=("bleu", "chrf", "ter")).scores["raw"].values
        assert found["s_bleu"].score == pytest.approx(100) and found["ter"].score == 0


def test_of_a_corpus(tmp_path):
    for lang, text in (("en", "The girl."), ("de", unicodedata.normalize("NFD", TEXT))):
        (tmp_path / lang).write_text(f"<d>\n{text}\n", encoding="utf-8")
    clean_files(tmp_path / "en", tmp_path / "de", tmp_path / "out.en", tmp_path / "out.de")
    assert list(read_lines(tmp_path / "out.de")) == ["<d>", TEXT]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("\ufb01nden, e\ufb00ektiv, \ufb04", "finden, effektiv, ffl"),
        ("\ufee3\ufeae\ufea3\ufe92\ufe8e", "\u0645\u0631\u062d\u0628\u0627"),
        ("\u212b, \u2126, \u212a", "\u00c5, \u03a9, K"),
    ],
)
def test_letters_in_other_shapes(text, form):
    assert one_form(text) == form == one_form(form)


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: the sign parts what would be joined
        "\u0915\u094d\u200d\u0937",  # Hindi
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",  # emoji
        "\u1797\u17b6\u179f\u17b6\u200b\u1781\u17d2\u1798\u17c2\u179a",  # Khmer: between words
        "\u0437\u0430\u0301\u043c\u043e\u043a",  # Russian with a stress mark: there is no such letter
        "„Ja“, m², ½ l, ２０１９年，１月…",
    ],
)
def test_what_says_something_stays(text):
    assert one_form(text) == text
