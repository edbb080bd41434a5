"""A model's name of a language to that of corpora and rules."""

from __future__ import annotations

from gtransformer.data.languages import two_letters
from gtransformer.data.unspaced import bleu_tokenizer


def test_two_letters():
    names = ("jpn", "jpn_Jpan", "ja_XX", "ja", "cmn_Hans", "zho", "zh_CN", "pt-BR", "tlh", "")
    assert [two_letters(name) for name in names] == [
        "ja",
        "ja",
        "ja",
        "ja",
        "zh",
        "zh",
        "zh",
        "pt",
        "tlh",
        "",
    ]


def test_the_tokeniser_of_a_pretrained_models_language():
    found = [
        bleu_tokenizer(lang)
        for lang in ("zho_Hans", "zh_CN", "jpn_Jpan", "kor_Hang", "tha_Thai", "deu_Latn")
    ]
    assert found == ["zh", "zh", "char", "char", "char", "13a"]
