"""The dictionaries of a data directory, and the symbols of languages in them."""

from __future__ import annotations

from pathlib import Path

from fairseq.data import Dictionary, data_utils

from gtransformer.errors import UserError
from gtransformer.preprocess.binarise import dictionary_words


def load_dictionary(path: Path) -> Dictionary:
    """fairseq's dictionary of a file. Raises UserError, with the line, where it is damaged."""
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # of any kind: bare ones, too
        dictionary_words(path)
        cause = " ".join(str(error).split(". ")[0].split())[:120]
        raise UserError(f"{path}: cannot be read ({cause}); prepare the corpus again") from None


def add_symbols(dictionary: Dictionary, langs: list[str]) -> None:
    """Append ``[xx]`` for every language and ``<mask>`` where the dictionary lacks them."""
    for symbol in [f"[{lang}]" for lang in langs] + ["<mask>"]:
        dictionary.add_symbol(symbol)


def language_index(dictionary: Dictionary, lang: str, langs: list[str]) -> int:
    """Index of a language's symbol; UserError if ``--langs`` does not name the language."""
    if lang not in langs:
        raise UserError(f"--langs {','.join(langs)} does not name the target language '{lang}'")
    return dictionary.index(f"[{lang}]")


def languages_of(folder: Path, source: str | None, target: str | None) -> tuple[str | None, str | None]:
    """Source and target language: those given, and of the first pair in a data directory what is not given."""
    if (source is not None and target is not None) or not folder.is_dir():
        return source, target
    pair = data_utils.infer_language_pair(str(folder))
    if source == pair[1] or target == pair[0]:
        pair = pair[::-1]
    return source or pair[0], target or pair[1]
