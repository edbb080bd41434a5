"""New text goes the way of its corpus, and back: which files it needs, what pretrained pieces do."""

from __future__ import annotations

import json

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from gtransformer.errors import UserError
from gtransformer.preprocess.chain import Postprocessor, TextEncoder

PLAIN = {"source_lang": "en_XX", "target_lang": "de_DE", "normalise_punctuation": False, "moses_rules": True}
LINES = ["It's old, isn't it?", "Das Haus, das wir sehen, ist grün.", "Anna sees it!"]


@pytest.fixture
def pieces(tmp_path):
    """A prepared directory of mBART's kind: a SentencePiece model and a manifest."""
    (tmp_path / "text").write_text("\n".join(LINES * 20), encoding="utf-8")
    SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "sentencepiece"), vocab_size=50,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    settings = PLAIN | {"sentencepiece": "/elsewhere/sentence.bpe.model"}
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": settings}))
    return tmp_path


def test_tokenised_text_is_detokenised_before_pieces_are_cut(pieces):
    """Published suites are tokenised; a pretrained model has seen plain text."""
    processor = SentencePieceProcessor(model_file=str(pieces / "sentencepiece.model"))
    expected = [" ".join(processor.encode(line, out_type=str)) for line in LINES]
    assert TextEncoder(pieces, "en_XX")(LINES) == TextEncoder(pieces, "de_DE")(LINES) == expected
    tokenised = ["It 's old , isn 't it ?", "Das Haus , das wir sehen , ist grün .", "Anna sees it !"]
    assert TextEncoder(pieces, "de_DE", tokenised=True)(tokenised[1:]) == expected[1:]
    assert TextEncoder(pieces, "en_XX", tokenised=True)(tokenised) == expected


def test_mistakes(pieces):
    with pytest.raises(UserError, match="en_XX-de_DE"):
        TextEncoder(pieces, "en")
    (pieces / "sentencepiece.model").unlink()
    with pytest.raises(UserError, match="sentencepiece.model"):
        TextEncoder(pieces, "en_XX")
    for damaged in ("{}", "[]", '{"settings": {"source_lang": "en"}}'):
        (pieces / "manifest.json").write_text(damaged)
        with pytest.raises(UserError, match="manifest.json"):
            TextEncoder(pieces, "en_XX")


def test_back_to_plain_text():
    german, english = Postprocessor("de"), Postprocessor("en")
    line = "das Haus@@ boot , sagte er , ist ( sehr ) al@@ t ."
    assert german.plain_lines([line]) == ["Das Hausboot, sagte er, ist (sehr) alt."]
    lines = ["it 's AT & T &amp; < b >", "a b@@ c .", "", '" x "', "( y"]
    assert english.plain_lines(lines)[0] == "It's AT & T &amp; < b >"
    assert english.plain_lines(lines) == [text for line in lines for text in english.plain_lines([line])]
