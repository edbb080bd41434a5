"""Conversion of plain text to the subwords of a prepared corpus, and back.

The files of a prepared corpus or model directory tell how each side is split:

* ``wordpieces.json``: the source into BERT's wordpieces;
* ``sentencepiece.model``: both sides by SentencePiece, or the target with BERT. With
  ``sentencepiece.target.model`` the target has its own;
* ``tokenizer.json``: both sides by the library tokenizers, with SentencePiece's pieces;
* ``bpe.codes`` and ``truecase.LANG``: by Moses' rules and BPE. Without truecaser the codes are a
  given model's, whose text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.preprocess.characters import clean_line, one_form
from gtransformer.preprocess.tokenisers import Moses, SentencePieces, WordPieces

MODEL_KIND = "gtransformer model"  # in the manifest of a model directory
CODES, TRUECASER = "bpe.codes", "truecase."
SENTENCEPIECE_FILE, TARGET_PIECES = "sentencepiece.model", "sentencepiece.target.model"
TOKENIZER_FILE, WORDPIECE_FILE = "tokenizer.json", "wordpieces.json"
TYPED = re.compile(r"(>>[^<>\s]+<<)\s*")  # the target language, as OPUS-MT's models read it
PIECE_FILES = SENTENCEPIECE_FILE, TOKENIZER_FILE
TEXT_FILES = (CODES, f"{TRUECASER}*", *PIECE_FILES, TARGET_PIECES, WORDPIECE_FILE)


def prepared_settings(prepared: str | Path) -> dict[str, Any]:
    """Read the settings of a prepared corpus or model directory; UserError if it is neither."""
    manifest = Path(prepared) / "manifest.json"
    match read_json(manifest):
        case {"settings": {"source_lang": _, "target_lang": _} as settings}:
            return settings
    raise UserError(
        f"{manifest}: not of a corpus that gtransformer prepare has made, nor of a model directory"
    )


def text_files(prepared: Path) -> list[Path]:
    """Return the files that splitting new text needs, besides the dictionaries."""
    return sorted(path for name in TEXT_FILES for path in prepared.glob(name))


def pieces_file(prepared: Path) -> Path | None:
    """Return the file of a corpus or model whose text is split into SentencePiece's pieces."""
    return next((prepared / name for name in PIECE_FILES if (prepared / name).is_file()), None)


def dictionary_of(prepared: Path, lang: str) -> Path:
    """Return the dictionary of a side; a model directory has no ``bin``."""
    folder = prepared / "bin" if (prepared / "bin").is_dir() else prepared
    return folder / f"dict.{lang}.txt"


class Text:
    """Plain sentences of one language and their subwords, lines with blanks between tokens.

    ``prefix``: the word that the model's sentences begin with. Of OPUS-MT's models for many
    languages it is ``>>deu<<``; a sentence may begin with it, too.
    """

    def __init__(
        self,
        splitter: SentencePieces | WordPieces | Moses | None,
        lang: str,
        normalise: bool | None = False,
        prefix: str | None = None,
    ):
        self.splitter, self._normaliser, self._prefix = splitter, None, prefix
        if normalise:
            from sacremoses import MosesPunctNormalizer

            self._normaliser = MosesPunctNormalizer(two_letters(lang))

    def normalised(self, line: str) -> str:
        """Return a line with characters, and perhaps punctuation, as the corpus has them.

        Raises UserError for a sentence that asks for another language.
        """
        line = one_form(line)
        # Users of OPUS-MT type the language, as the model cards say. Here every sentence gets it
        # anyway, so it is no text.
        if TYPED.match(self._prefix or "") and (typed := TYPED.match(line)):
            if typed[1] != self._prefix:
                raise UserError(
                    f"{line[:60]}: asks for {typed[1]}, but the model was converted for "
                    f"{self._prefix}; convert it with that language as -t, too"
                )
            line = line[typed.end() :]
        return self._normaliser.normalize(line) if self._normaliser else line

    def encode(self, lines: Sequence[str]) -> list[str]:
        """Return the subwords of sentences."""
        return self.splitter.split([self.normalised(line) for line in lines])

    def decode(self, lines: Sequence[str]) -> list[str]:
        """Return sentences of subwords as plain text, each on one line."""
        return [clean_line(line) for line in self.splitter.join(lines)]


def open_text(prepared: str | Path, lang: str, prefix: bool = True) -> Text:
    """Return the conversion of a language's sentences for a prepared corpus or model directory.

    ``prefix``: whether ``encode`` adds the word that the side's sentences begin with, if any.
    Raises UserError if ``prepared`` is neither, or lacks the language.
    """
    prepared, settings = Path(prepared), prepared_settings(prepared)
    pair = settings["source_lang"], settings["target_lang"]
    if lang not in pair:
        raise UserError(f"{prepared}: prepared for {'-'.join(pair)}, which lacks {lang}")
    return text_of(prepared, settings, lang, prefix)


def text_of(folder: Path, settings: Mapping[str, Any], lang: str, prefix: bool = True) -> Text:
    """Return the conversion of a language's sentences by a folder's files (see above)."""
    is_target = lang == settings["target_lang"]
    model = pieces_file(folder)
    word = settings.get("target_prefix" if is_target else "source_prefix")
    # The more special file decides, as a corpus for BERT or Marian has several.
    if is_target and (folder / TARGET_PIECES).is_file():
        model = folder / TARGET_PIECES
    if not is_target and (folder / WORDPIECE_FILE).is_file():
        splitter = WordPieces(folder / WORDPIECE_FILE)
    elif model:
        splitter = SentencePieces(model, word if prefix else None)
    elif (folder / f"{TRUECASER}{lang}").is_file():
        splitter = Moses(lang, folder / f"{TRUECASER}{lang}", folder / CODES)
    else:
        # The codes of a given model make words that its dictionary lacks; these are split further.
        known = dictionary_words(dictionary_of(folder, lang))
        splitter = Moses(lang, None, folder / CODES, known, escaped=True)
    normalise = settings.get("normalise_punctuation") and lang != settings.get("kept_punctuation")
    return Text(splitter, lang, normalise, word)
