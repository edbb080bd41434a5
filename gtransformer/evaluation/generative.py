"""Generative accuracy: does a system's translation contain the form that the context requires?

A translation is right if its last sentence, lower-cased and without ASCII punctuation, contains the
lower-cased expected word, as in the scorer of ctxpro (Wicks and Post 2023).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from pathlib import Path

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import Outcome
from gtransformer.evaluation.suite_files import Item
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.ctxpro import SEPARATOR
from gtransformer.preprocess.plain_text import divided, read_sentences

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def contains(text: str, expected: str) -> bool:
    """Return whether a text contains a word, by the rule of ctxpro's scorer, which leaves the
    word's punctuation.

    An elided ``t'`` is never found therefore, in no system and not in the reference.
    """
    words = " ".join(one_form(text).lower().translate(WITHOUT_PUNCTUATION).split())
    return f" {one_form(expected).lower()} " in f" {words} "


def last_sentence(lang: str) -> Callable[[str], str]:
    """Return a function from a line to its last sentence, found by the splitter of ctxpro's scorer
    for this language.

    Text before ctxpro's separator ``<eos>`` is left out first. Raises UserError for a language
    that the splitter does not know.
    """
    from sentence_splitter import SentenceSplitter, SentenceSplitterException  # slow to import

    try:
        splitter = SentenceSplitter(language=two_letters(lang))
    except SentenceSplitterException:
        what = f"the sentence splitter of ctxpro's scorer does not know the language {lang}"
        raise UserError(f"-t {lang}: {what}") from None

    def last(line: str) -> str:
        text = line.rpartition(SEPARATOR)[2].strip()
        return (splitter.split(text) or [text])[-1]

    return last


def judge(items: Sequence[Item], outputs: Sequence[str]) -> list[Outcome]:
    """Judge the translation of each item's sentence; items that expect no word are left out."""
    pairs = zip(items, outputs, strict=True)
    return [
        Outcome(item, contains(text, item.expected), {"output": text})
        for item, text in pairs
        if is_judged(item)
    ]


def is_judged(item: Item) -> bool:
    """Return whether an item expects a word; a few of the published ones have a dash."""
    return bool(item.expected.translate(WITHOUT_PUNCTUATION).strip())


def read_outputs(path: Path, items: Sequence[Item]) -> list[str]:
    """Return the line, or the last line of the document, of each item. Raise UserError for another
    number of them.
    """
    lines = read_sentences(path)  # once: it may be a pipe
    outputs = [document[-1] for document in divided(path, lines)[0]] if None in lines else lines
    if len(outputs) != len(items):
        raise UserError(
            f"{path}: {len(outputs)} lines or documents, but the suite has {len(items)} items; "
            "write the translation "
            "of each item on a line, or documents that each start with <d>"
        )
    return outputs
