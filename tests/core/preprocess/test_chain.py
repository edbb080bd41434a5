"""New text goes the way of its corpus, and back: which files it needs, what pretrained pieces
do.
"""

from __future__ import annotations

import pytest
from sentencepiece import SentencePieceProcessor

from gtransformer.evaluation.sentence_scores import sentence_encoder
from gtransformer.files import write_json
from gtransformer.preprocess.chain import TEXT_FILES, open_text
from gtransformer.preprocess.manifest import vocabulary_digest
from gtransformer.preprocess.tokenisers import Moses, learn_truecaser
from tests.support import train_pieces, write_lines

LINES = ["It's old, isn't it?", "Das Haus, das wir sehen, ist grün.", "Anna sees it!"]


@pytest.fixture
def pieces(tmp_path):
    """A prepared directory of mBART's kind: a SentencePiece model and a manifest."""
    train_pieces(tmp_path / "sentencepiece.model", LINES * 20, 50)
    settings = {"source_lang": "en_XX", "target_lang": "de_DE"}
    write_json(tmp_path / "manifest.json", {"settings": settings})
    return tmp_path


class Words:
    """A dictionary that numbers words by their text."""

    @staticmethod
    def index(word):
        return word


def test_tokenised_text_is_detokenised_before_pieces_are_cut(pieces):
    """Published suites are tokenised; a pretrained model has seen plain text."""
    processor = SentencePieceProcessor(model_file=str(pieces / "sentencepiece.model"))
    expected = [processor.encode(line, out_type=str) for line in LINES]
    for lang in ("en_XX", "de_DE"):
        assert sentence_encoder(pieces, lang, Words)(LINES) == expected
    tokenised = [
        "It 's old , isn 't it ?",
        "Das Haus , das wir sehen , ist grün .",
        "Anna sees it !",
    ]
    assert sentence_encoder(pieces, "en_XX", Words, tokenised=True)(tokenised) == expected


@pytest.mark.parametrize(
    ("lang", "plain", "tokens"),
    [
        ("en", "Hello, world!", "Hello , world !"),
        ("eng_Latn", "It's Mr. Smith's e-mail (new).", "It 's Mr. Smith 's e-mail ( new ) ."),
        ("de", "Das ist z. B. „gut“, oder?", "Das ist z. B. „ gut “ , oder ?"),
        ("en-GB", "AT&T <b> [x] |", "AT & T < b > [ x ] |"),
    ],
)
def test_moses_tokens(lang, plain, tokens):
    assert Moses(lang).tokenise([plain]) == [tokens]


@pytest.mark.parametrize(
    "text", ["A <mask> b", "[en] [de]", "x <pad> <unk> <s> </s> <d>", "<mask>", "a[de] b@@"]
)
def test_no_token_is_a_control_symbol(text):
    tokens = Moses("en").tokenise([text])[0].split()
    assert not {"<mask>", "[en]", "[de]", "<pad>", "<unk>", "<s>", "</s>", "<d>", "b@@"} & set(
        tokens
    )
    assert "".join(tokens) == text.replace(" ", "")


def test_moses_back_to_plain_text(tmp_path):
    learn_truecaser([], tmp_path / "truecase")
    german, english = (Moses(lang, tmp_path / "truecase") for lang in ("de", "en"))
    line = "das Haus@@ boot , sagte er , ist ( sehr ) al@@ t ."
    assert german.join([line]) == ["Das Hausboot, sagte er, ist (sehr) alt."]
    lines = ["it 's AT & T &amp; < b >", "a b@@ c .", "", '" x "', "( y"]
    assert english.join(lines)[0] == "It's AT & T &amp; < b >"
    assert english.join(lines) == [text for line in lines for text in english.join([line])]


def test_a_known_casing_stays_within_a_sentence(tmp_path):
    """At its beginning the most frequent one is written."""
    learn_truecaser(["We sold an Apple , an apple and an apple ."], tmp_path / "truecase")
    truecased = Moses("en", tmp_path / "truecase").truecase(["We see an Apple .", "Apple ."])
    assert truecased == ["We see an Apple .", "apple ."]


def test_text_of_a_given_model(tmp_path):
    """Each side's subwords are in its own dictionary; punctuation is as its corpus had it."""
    (tmp_path / "bpe.codes").write_text("#version: 0.2\na b</w>\n", encoding="utf-8")
    for lang, words in {"en": ["ab"], "de": ["a@@", "b"]}.items():
        write_lines(tmp_path / f"dict.{lang}.txt", (f"{word} 1" for word in words))
    for normalise, dash in ((True, "-"), (False, "–")):
        settings = {
            "source_lang": "en",
            "target_lang": "de",
            "normalise_punctuation": normalise,
        }
        write_json(tmp_path / "manifest.json", {"settings": settings})
        for lang, word in (("en", "ab"), ("de", "a@@ b")):
            assert open_text(tmp_path, lang).encode(["ab –"]) == [f"{word} {dash}"]


@pytest.mark.parametrize("name", TEXT_FILES)
def test_another_file_that_splits_text_is_another_vocabulary(tmp_path, name):
    digests = set()
    for sha in "12":
        write_json(tmp_path / "manifest.json", {"outputs": {name: sha}})
        digests.add(vocabulary_digest(tmp_path))
    assert len(digests) == 2
