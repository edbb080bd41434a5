"""Text without spaces between words: the sacrebleu tokeniser that counts its n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gtransformer.data.languages import two_letters

DEFAULT = "13a"
CHARACTERS = "char"
# sacrebleu's, by language.
TOKENIZERS = {
    "zh": "zh",
    "ja": CHARACTERS,
    "ko": CHARACTERS,
    "th": CHARACTERS,
}
# sacrebleu's tokenisers that cut words into pieces: of text with and without spaces alike.
SUBWORDS = frozenset({"spm", "flores101", "flores200", "spBLEU-1K"})
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
KANA = re.compile("[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
# Thai, Lao, Burmese, Khmer.
SOUTHEAST_ASIAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
# Blanks separate words, but it is also scored by characters.
HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7af]")
SCRIPTS = HAN, KANA, SOUTHEAST_ASIAN, HANGUL
SIGNS = "".join(script.pattern[1:-1] for script in SCRIPTS)  # all of them, within a pattern's []
WORD = re.compile(r"[^\W\d_]+")


def bleu_tokenizer(lang: str, sentences: Iterable[str] = ()) -> str:
    """Return sacrebleu's tokeniser for a language (mBART's ``de_DE`` is ``de``), for an unknown one
    by its script.

    BLEU with sacrebleu's default tokeniser would take a sentence without spaces for one word.
    """
    return TOKENIZERS.get(two_letters(lang)) or _tokenizer_of_script(" ".join(sentences))


def word_tokenizer(tokenizer: str, sentences: Iterable[str]) -> str:
    """Return the tokeniser itself if it tells whether spaces separate words, else the sentences' by
    their script.
    """
    return bleu_tokenizer("", sentences) if tokenizer in SUBWORDS else tokenizer


def _tokenizer_of_script(text: str) -> str:
    counts = []
    for script in SCRIPTS:
        text, count = script.subn(" ", text)
        counts.append(count)
    han, kana, *others = counts
    if sum(counts) <= len(
        WORD.findall(text)
    ):  # fewer such characters than words of other scripts: names, quotations
        return DEFAULT
    # Chinese has almost no kana, Japanese about as many as Chinese characters.
    return TOKENIZERS["zh"] if han > sum(others) and kana < 0.05 * han else TOKENIZERS["ja"]
