"""Subwords of plain text, without tokeniser and truecaser: SentencePiece, learnt or given, and
BERT's wordpieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.optional import read_wordpiece_tokeniser

SPACE = "\u2581"  # SentencePiece's symbol for the blank before a word
# What looks like a control symbol of instance files and dictionaries, and language symbols like
# [en].
_CONTROL = re.compile(r"(?<!\S)(</?[a-z]+>|\[[A-Za-z_-]+\])(?!\S)")


def as_tokens(tokens: Sequence[str], line: str) -> str:
    """Return the tokens of a line separated by blanks.

    Those that look like control symbols (``<mask>``, ``[de]``) are split: ``< mask >``; joining
    undoes it. A line of which a tokeniser left nothing is one token, so that alignment by line is
    kept.
    """
    joined = " ".join(tokens)
    if "<" in joined or "[" in joined:
        joined = _CONTROL.sub(
            lambda match: f"{match[0][0]} {match[0][1:-1]} {match[0][-1]}", joined
        )
    return joined or "".join(line.split())


class SentencePieces:
    """A SentencePiece model that splits plain sentences and joins pieces.

    ``prefix``: a word before the pieces of every sentence, such as the language of multilingual
    models; joining removes it.
    """

    def __init__(self, model: str | Path, prefix: str | None = None):
        from sentencepiece import SentencePieceProcessor

        if not Path(model).is_file():
            raise UserError(
                f"{model}: no such file; give a SentencePiece model, as pretrained models have"
            )
        self.processor = SentencePieceProcessor(model_file=str(model))
        self._prefix = "" if prefix is None else f"{prefix} "

    def split(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into pieces."""
        return [self._prefix + as_tokens(self._pieces(line), line) for line in lines]

    def _pieces(self, line: str) -> list[str]:
        pieces = self.processor.encode(line, out_type=str)
        if (
            " ".join(pieces).split() != pieces
        ):  # some models take blanks such as U+00A0 for letters, files do not
            pieces = self.processor.encode(" ".join(line.split()), out_type=str)
        return pieces

    def words(self) -> list[str]:
        """Return all pieces in their order."""
        return [
            self.processor.id_to_piece(number) for number in range(self.processor.get_piece_size())
        ]

    def join(self, lines: Sequence[str]) -> list[str]:
        """Join pieces as the library does, bytes included: ``"\u2581Das \u2581Haus boot ."``,
        ``"Das Hausboot."``.

        Blanks before pieces that are not the model's count, too.
        """
        pieces = [f"{line} ".removeprefix(self._prefix).split() for line in lines]
        plain = self.processor.decode(pieces) if lines else []
        return [line.replace(SPACE, " ") for line in plain]


def learn_sentencepiece(lines: Iterable[str], model: Path, size: int, threads: int = 1) -> None:
    """Learn a SentencePiece model with BPE from plain lines, such that all text comes back from its
    pieces.

    ``size``: pieces, at most; those of the 256 bytes, for characters without a piece, are among
    them.
    """
    from sentencepiece import SentencePieceTrainer

    with atomic_write(model, "wb") as stream:
        SentencePieceTrainer.train(
            # Other blanks than the usual one become bytes, since no piece may hold them.
            sentence_iterator=(" ".join(line.split()) for line in lines),
            model_writer=stream,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            num_threads=threads,
            minloglevel=2,
        )


class WordPieces:
    """BERT's tokeniser of plain sentences, from a file that ``save_wordpieces`` wrote."""

    def __init__(self, file: str | Path):
        from tokenizers import Tokenizer  # comes with the optional extra

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def split(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into wordpieces."""
        self._tokenizer.encode_special_tokens = (
            True  # a [SEP] in text is no symbol; pickling loses this setting
        )
        cut = self._tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return [
            " ".join(found.tokens) or "".join(line.split())
            for found, line in zip(cut, lines, strict=True)
        ]

    def words(self) -> list[str]:
        """Return the vocabulary in its order, without special tokens; fairseq has its own."""
        vocabulary = self._tokenizer.get_vocab()
        special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
        return [word for word in sorted(vocabulary, key=vocabulary.get) if word not in special]


def save_wordpieces(folder: str | Path, output: str | Path) -> None:
    """Write the tokeniser of a BERT in Hugging Face's format as one file. Raises UserError if there
    is none.
    """
    tokenizer = read_wordpiece_tokeniser(folder)
    with atomic_write(output) as stream:
        stream.write(tokenizer.backend_tokenizer.to_str(pretty=True))
