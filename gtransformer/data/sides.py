"""The vocabularies of a translation direction, and their symbols that are no words of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gtransformer.data.dictionaries import UNUSED, Vocabulary, control_symbols
from gtransformer.errors import UserError

# The latter: a target language of Marian's models.
NO_WORD = re.compile(rf"{UNUSED.format('[0-9]+')}|>>[^<>]+<<")


class Sides:
    """Source and target vocabulary; symbols of the languages and ``<mask>`` are appended where they
    are missing.

    Args:
        source, target: the vocabularies, this package's or fairseq's.
        pair: source and target language.
        langs: the languages in the order of their symbols.

    Attributes:
        language: index of the target language symbol.
        prefix: index of the word that every target sentence begins with, once the model is known;
            None: there is none.

    Raises UserError if the target language is not among ``langs``.
    """

    def __init__(
        self, source: Vocabulary, target: Vocabulary, pair: tuple[str, str], langs: Sequence[str]
    ):
        self.source, self.target, self.pair, self.langs = source, target, pair, langs
        for vocabulary in (source, target):
            for symbol in control_symbols(langs):
                vocabulary.add_symbol(symbol)
        if pair[1] not in langs:
            raise UserError(
                f"--langs {','.join(langs)} does not name the target language '{pair[1]}'"
            )
        self.language = target.index(f"[{pair[1]}]")
        self.prefix: int | None = None

    def symbols(self, vocabulary: Vocabulary) -> list[int]:
        """Return the indices of ``<s>``, ``</s>``, padding, ``<mask>`` and the languages."""
        names = [f"[{lang}]" for lang in self.langs]
        v = vocabulary
        return [v.bos(), v.eos(), v.pad(), *map(v.index, ["<mask>", *names])]

    @property
    def unpredicted(self) -> list[int]:
        """The target symbols that search has no choice of: ``<s>``, the language symbol, the
        prefix.
        """
        return [self.target.bos(), self.language, *([] if self.prefix is None else [self.prefix])]

    @property
    def no_text(self) -> set[int]:
        """The symbols of the target that are no part of a translation's text, which ``<s>`` and
        ``</s>`` divide.
        """
        return {*self.symbols(self.target), *self.unpredicted} - {
            self.target.bos(),
            self.target.eos(),
        }

    def indices(self, words: Sequence[str], vocabulary: Vocabulary) -> list[int]:
        """Return the indices of subwords; the model's own symbols become ``<unk>``."""
        reserved, unk = self.symbols(vocabulary), vocabulary.unk()
        indices = map(vocabulary.index, words)
        return [unk if index in reserved else index for index in indices]


def never_text(vocabulary: Vocabulary, prefix: str | None, pair: tuple[str, str]) -> list[int]:
    """Return the indices of entries that are not text in a converted model: unused rows, and
    language tokens.

    ``prefix``: the word that every target sentence begins with.
    """
    indices = [index for index, word in enumerate(vocabulary.symbols) if NO_WORD.fullmatch(word)]
    if prefix is not None:
        indices += map(vocabulary.index, (prefix, prefix.replace(pair[1], pair[0])))
    return [index for index in indices if index != vocabulary.unk()]
