"""Conversion of plain text to the subwords of a prepared corpus, and back.

Text is tokenised, truecased and split by the corpus's BPE, or split by the subword model of a pretrained model. A
model directory has files of the same names as a prepared corpus and can be used like one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.preprocess.bpe import Encoder, remove_bpe_lines
from gtransformer.preprocess.characters import one_form
from gtransformer.preprocess.pieces import (
    SENTENCEPIECE_FILE,
    TARGET_PIECES,
    WORDPIECE_FILE,
    SentencePieces,
    WordPieces,
)
from gtransformer.preprocess.tokenise import Detokeniser, Tokeniser
from gtransformer.preprocess.truecase import Truecaser, detruecase

CODES = "bpe.codes"


def read_settings(prepared: str | Path) -> dict[str, Any]:
    """Read the settings that a corpus was prepared with. Raise UserError if it is not a prepared corpus."""
    manifest = Path(prepared) / "manifest.json"
    try:
        settings = read_json(manifest)["settings"]
        if {"source_lang", "target_lang", "normalise_punctuation", "moses_rules"} <= settings.keys():
            return settings
    except (AttributeError, KeyError, TypeError):
        pass
    raise UserError(f"{manifest}: no manifest of a prepared corpus; give one that gtransformer prepare has made")


def is_exact(prepared: str | Path) -> bool:
    """Return whether a corpus or model directory uses our reversible tokenisation and truecasing (``spacing``)."""
    return (Path(prepared) / "manifest.json").is_file() and not read_settings(prepared)["moses_rules"]


def never_truecased(prepared: str | Path, lang: str) -> bool:
    """Return whether a prepared corpus applies given BPE codes to a language without truecasing."""
    return (Path(prepared) / CODES).is_file() and not (Path(prepared) / f"truecase.{lang}").is_file()


def text_files(settings: Mapping[str, Any]) -> list[str]:
    """Return the files of a prepared directory that encoding new text of both languages needs.

    ``settings``: those of its manifest. mBART splits both sides by its SentencePiece model. With BERT the source has
    wordpieces, and only the target has truecaser and BPE. Given BPE codes have no truecasers.
    """
    pair = settings["source_lang"], settings["target_lang"]
    if settings.get("sentencepiece"):
        return [SENTENCEPIECE_FILE, *([TARGET_PIECES] if settings.get("sentencepiece_target") else [])]
    if settings.get("bert"):
        return [WORDPIECE_FILE, CODES, f"truecase.{pair[1]}"]
    if settings.get("bpe_codes"):
        return [CODES]
    return [CODES, *(f"truecase.{lang}" for lang in pair)]


class TextEncoder:
    """An encoder of plain sentences of one language to subwords, as ``gtransformer prepare`` made a corpus.

    Args:
        prepared: the corpus, or a model directory.
        lang: one of its two languages.
        tokenised: whether sentences are tokenised already.
        prefix: whether to add the prefix that the corpus has on each sentence (``Settings``), if any.

    Raises UserError if ``prepared`` is not a prepared corpus, or lacks the language or one of the files.
    """

    def __init__(
        self,
        prepared: str | Path,
        lang: str,
        tokenised: bool = False,
        prefix: bool = True,
    ):
        prepared = Path(prepared)
        settings = read_settings(prepared)
        pair = settings["source_lang"], settings["target_lang"]
        if lang not in pair:
            raise UserError(f"{prepared}: prepared for {'-'.join(pair)}, which lacks {lang}")
        exact = not settings["moses_rules"]
        cutter = None
        if settings.get("sentencepiece"):
            cutter = side_pieces(prepared, settings, lang == pair[1], prefix)
        elif settings.get("bert") and lang == pair[0]:
            cutter = WordPieces(prepared / WORDPIECE_FILE)
        self._steps: list[Callable[[Sequence[str]], list[str]]]
        if cutter is not None:
            # A pretrained model has seen plain text.
            detokeniser = Detokeniser(lang, exact=exact)
            self._steps = [detokeniser, cutter] if tokenised else [cutter]
        else:
            given = bool(settings.get("bpe_codes"))
            tokeniser = Tokeniser(lang, settings["normalise_punctuation"], given, exact)
            self._steps = [] if tokenised else [tokeniser]
            if tokenised and (given or exact):  # by other rules
                self._steps = [Detokeniser(lang, exact=exact), tokeniser]
            self._steps += [] if given else [Truecaser(prepared / f"truecase.{lang}", exact)]
            known = None
            if given:
                dictionary = prepared / "bin" / f"dict.{lang}.txt"  # in a model directory there is no bin/
                known = dictionary_words(dictionary if dictionary.is_file() else prepared / dictionary.name)
            self._steps.append(Encoder(prepared / CODES, known))

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Encode plain sentences, one by one."""
        lines = [one_form(line) for line in lines]
        for step in self._steps:
            lines = step(lines)
        return lines


def side_pieces(prepared: Path, settings: Mapping[str, Any], target: bool, prefix: bool = True) -> SentencePieces:
    """Return the SentencePiece model of one side of a prepared corpus or model directory with these settings."""
    file = TARGET_PIECES if target and settings.get("sentencepiece_target") else SENTENCEPIECE_FILE
    word = settings.get("target_prefix" if target else "source_prefix") if prefix else None
    return SentencePieces(prepared / file, word)


class Postprocessor:
    """A converter of BPE (or tokenised, truecased) sentences of one language to plain text.

    Args:
        given: the text was not truecased, and tokenised for a given model (``Tokeniser`` with ``escaped``).
        exact: the text was tokenised and truecased reversibly (``spacing``).
    """

    def __init__(self, lang: str, given: bool = False, exact: bool = False):
        self.given, self.exact = given, exact
        self._detokeniser = Detokeniser(lang, given, exact)

    def plain_lines(self, lines: Sequence[str]) -> list[str]:
        """Return the plain text of sentences without ``<s>`` and ``</s>``."""
        words = remove_bpe_lines(lines)
        return self._detokeniser(words if self.given else detruecase(words, self.exact))

class PieceJoiner:
    """A converter of SentencePiece's pieces to plain text; such text is not tokenised or truecased."""

    def __init__(self, prepared: str | Path, lang: str):
        settings = read_settings(prepared)
        self.plain_lines = side_pieces(Path(prepared), settings, target=lang != settings["source_lang"]).join


def postprocessor_for(prepared: str | Path, lang: str) -> Postprocessor | PieceJoiner:
    """Return the converter of translations of a prepared corpus to plain text."""
    if (Path(prepared) / SENTENCEPIECE_FILE).is_file():
        return PieceJoiner(prepared, lang)
    return Postprocessor(lang, never_truecased(prepared, lang), is_exact(prepared))
