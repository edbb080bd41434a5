"""The symbols that the task's dictionaries end in: languages and ``<mask>``."""

from __future__ import annotations

from fairseq.data import Dictionary

from gtransformer.errors import UserError


def add_symbols(dictionary: Dictionary, langs: list[str]) -> None:
    """Append ``[xx]`` for every language and ``<mask>`` where the dictionary lacks them."""
    for symbol in [f"[{lang}]" for lang in langs] + ["<mask>"]:
        dictionary.add_symbol(symbol)


def language_index(dictionary: Dictionary, lang: str, langs: list[str]) -> int:
    """Index of a language's symbol; UserError if ``--langs`` does not name the language."""
    if lang not in langs:
        raise UserError(f"--langs {','.join(langs)} does not name the target language '{lang}'")
    return dictionary.index(f"[{lang}]")
