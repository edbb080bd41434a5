"""What of a line stays, what is blank, and one form for text that Unicode lets be written in
several ways.
"""

from __future__ import annotations

import unicodedata

import pytest

from gtransformer.evaluation.score import score_text
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.characters import clean_line, is_blank, one_form
from tests.support import ROOT

TEXT = "Das Mädchen ist größer, der Café-Besitzer älter."


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
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
    assert not any(map(is_blank, ["\U0001fae8", "\ue000", " \U000313a0"])), (
        "newer than Python's tables, or private"
    )


@pytest.mark.parametrize(
    "same",
    [
        unicodedata.normalize("NFD", TEXT),
        TEXT.replace("Mädchen", "Mäd\u00adchen").replace("größer", "größer\u200b"),
        TEXT.replace("Café-B", "Café\u2011B"),
        "\u200e" + TEXT.replace("der", "der\u2060") + "\u202c",
        TEXT.replace("älter", "äl\u200cter"),
    ],
)
def test_the_same_text_is_one_text(same, tmp_path):
    """As corpus, as new text of a model, and as translation and reference."""
    assert same != TEXT and clean_line(same) == TEXT
    encode = open_text(ROOT / "tests" / "prepared" / "len48", "de").encode
    assert encode([same]) == encode([TEXT])
    (tmp_path / "one").write_text(f"{TEXT}\n", encoding="utf-8")
    (tmp_path / "other").write_text(f"{same}\n", encoding="utf-8")
    for pair in (("one", "other"), ("other", "one")):
        found = (
            score_text(*(tmp_path / name for name in pair), metrics=("bleu", "chrf", "ter"))
            .scores["raw"]
            .values
        )
        assert found["s_bleu"].score == pytest.approx(100) and found["ter"].score == 0


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
        # Persian: the sign parts what would be joined
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",  # Hindi
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",  # emoji
        "\u1797\u17b6\u179f\u17b6\u200b\u1781\u17d2\u1798\u17c2\u179a",  # Khmer: between words
        # Russian with a stress mark: there is no such letter
        "\u0437\u0430\u0301\u043c\u043e\u043a",
        "„Ja“, m², ½ l, ２０１９年，１月…",
    ],
)
def test_what_says_something_stays(text):
    assert one_form(text) == text
