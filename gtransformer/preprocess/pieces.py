"""Subwords of pretrained models, from plain text: SentencePiece (mBART25) and wordpieces (BERT).

Text is not tokenised or truecased before, since a pretrained model knows only its own pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gtransformer.data.dictionaries import RESERVED, control_symbols, dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.tokenise import disarm, one_token

SPACE = "\u2581"  # SentencePiece's symbol for the blank before a word
SENTENCEPIECE_FILE = "sentencepiece.model"  # in a prepared directory; of both sides, or of the source
TARGET_PIECES = "sentencepiece.target.model"
WORDPIECE_FILE = "wordpieces.json"
_BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")  # its byte fallback for characters without a piece


class SentencePieces:
    """A SentencePiece model that splits plain sentences and joins pieces.

    ``prefix``: a word before the pieces of every sentence, such as the language of multilingual models; joining removes
    it.
    """

    def __init__(self, model: str | Path, prefix: str | None = None):
        from sentencepiece import SentencePieceProcessor

        if not Path(model).is_file():
            raise UserError(f"{model}: no such file; give a SentencePiece model, as it comes with a pretrained model")
        self.processor = SentencePieceProcessor(model_file=str(model))
        self._prefix = "" if prefix is None else f"{prefix} "

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into pieces.

        Blanks of all kinds separate words, even if the model takes some for letters: a token must not contain any. A
        piece like ``<mask>`` or ``[de_DE]`` is split further (``disarm``), so that it is no control symbol.
        """
        plain = [" ".join(line.split()) for line in lines]
        cut = self.processor.encode(plain, out_type=str)
        found = (disarm(" ".join(pieces)) or one_token(line) for pieces, line in zip(cut, plain, strict=True))
        return [self._prefix + line for line in found]

    def words(self) -> list[str]:
        """Return all pieces in their order."""
        return [self.processor.id_to_piece(number) for number in range(self.processor.get_piece_size())]

    def join(self, lines: Sequence[str]) -> list[str]:
        """Join pieces as the library does, bytes included: ``"\u2581Das \u2581Haus boot ."``, ``"Das Hausboot."``.

        Line breaks among the bytes become blanks. Blanks before pieces that are not the model's count, too.
        """
        pieces = [f"{line} ".removeprefix(self._prefix).split() for line in lines]
        plain = self.processor.decode(pieces) if lines else []
        return [" ".join(line.replace(SPACE, " ").split()) for line in plain]


class WordPieces:
    """BERT's tokeniser of plain sentences, from a file that ``save_wordpieces`` wrote."""

    def __init__(self, file: str | Path):
        from tokenizers import Tokenizer  # comes with the optional extra

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into wordpieces."""
        self._tokenizer.encode_special_tokens = True  # a [SEP] in text is no symbol; pickling loses this setting
        cut = self._tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return [" ".join(found.tokens) or one_token(line) for found, line in zip(cut, lines, strict=True)]

    def words(self) -> list[str]:
        """Return the vocabulary in its order."""
        vocabulary = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=vocabulary.get)


def spelled(word: str) -> str:
    """Return a word of joined SentencePiece pieces for display, with its bytes (``<0xC3><0xA4>``) as text."""
    return _BYTES.sub(lambda run: bytes.fromhex(re.sub("<0x|>", "", run[0])).decode("utf-8", "replace"), word)


def save_wordpieces(folder: str | Path, output: str | Path) -> None:
    """Write the tokeniser of a BERT in Hugging Face's format as one file. Raises UserError if there is none."""
    tokenizer = read_wordpiece_tokeniser(folder)
    with atomic_write(output) as stream:
        stream.write(tokenizer.backend_tokenizer.to_str(pretty=True))


def given_dictionary(source: str | Path, langs: Sequence[str], output: str | Path) -> int:
    """Write a pretrained model's dictionary with the language symbols and ``<mask>`` at its end, as in mBART.

    ``source``: a dictionary file, or BERT's wordpieces, whose special tokens are replaced by fairseq's. Returns the
    size, fairseq's four symbols included. Raises UserError if ``source`` is neither.
    """
    symbols = control_symbols(langs)
    if Path(source).name == WORDPIECE_FILE:
        words, without = WordPieces(source).words(), {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    else:
        words, without = dictionary_words(source), set(symbols)
    words = [*(word for word in words if word not in without), *symbols]
    with atomic_write(output) as stream:
        stream.writelines(f"{word} 1\n" for word in words)
    return len(words) + len(RESERVED)
