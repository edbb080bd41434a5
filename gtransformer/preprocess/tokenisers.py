"""Subwords of plain text, and the way back: SentencePiece, wordpieces, Moses' rules with BPE."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.optional import read_wordpiece_tokeniser
from gtransformer.preprocess.corpus import fault

UNKNOWN = "<unk>"
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


class TokenizerFile:
    """A file of the library tokenizers, with the methods of ``SentencePieceProcessor``."""

    def __init__(self, file: str | Path):
        from tokenizers import Tokenizer  # comes with the optional extra hf

        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, line: str, out_type: type = str) -> list[str]:
        """Return the pieces of a line; what has none stays as it is, as with SentencePiece."""
        # A [SEP] or <mask> in text is no symbol; pickling loses this setting.
        self._tokenizer.encode_special_tokens = True
        encoding = self._tokenizer.encode(line, add_special_tokens=False)
        return [
            line[slice(*span)].replace(" ", SPACE) if piece == UNKNOWN else piece
            for piece, span in zip(encoding.tokens, encoding.offsets, strict=True)
        ]

    def decode(self, sentences: Sequence[Sequence[str]]) -> list[str]:
        """Return the text of pieces."""
        # Tokenizer.decode would want indices, and pieces of another vocabulary have none.
        return [self._tokenizer.decoder.decode(list(pieces)) for pieces in sentences]

    def words(self) -> list[str]:
        """Return the vocabulary in its order."""
        rows = self._tokenizer.get_vocab()
        return sorted(rows, key=rows.get)


class SentencePieces:
    """A SentencePiece model, or a file of tokenizers (``.json``), that splits plain sentences and
    joins pieces.

    ``prefix``: a word before the pieces of every sentence, such as the language of multilingual
    models; joining removes it.
    """

    def __init__(self, model: str | Path, prefix: str | None = None):
        from sentencepiece import SentencePieceProcessor

        if not Path(model).is_file():
            raise UserError(
                f"{model}: no such file; give a SentencePiece model, as pretrained models have"
            )
        if Path(model).suffix == ".json":
            self.processor = TokenizerFile(model)
        else:
            self.processor = SentencePieceProcessor(model_file=str(model))
        self._prefix = "" if prefix is None else f"{prefix} "

    def split(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into pieces."""
        split = []
        for line in lines:
            pieces = self.processor.encode(line, out_type=str)
            # Some models take blanks such as U+00A0 for letters, files do not.
            if " ".join(pieces).split() != pieces:
                pieces = self.processor.encode(" ".join(line.split()), out_type=str)
            split.append(self._prefix + as_tokens(pieces, line))
        return split

    def words(self) -> list[str]:
        """Return all pieces in their order."""
        return self.processor.id_to_piece(list(range(self.processor.get_piece_size())))

    def join(self, lines: Sequence[str]) -> list[str]:
        """Join pieces as the library does, bytes included: ``"\u2581Das \u2581Haus boot ."``,
        ``"Das Hausboot."``.

        Blanks before pieces that are not the model's count, too.
        """
        # The blank, since a sentence may consist of the prefix alone.
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
            # A small corpus has fewer pieces than were asked for, which is no error.
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            # Text comes back as it was, also where blanks are doubled.
            remove_extra_whitespaces=False,
            num_threads=threads,
            minloglevel=2,
        )


class WordPieces:
    """BERT's tokeniser of plain sentences, from a file that ``save_wordpieces`` wrote."""

    def __init__(self, file: str | Path):
        self._tokenizer = TokenizerFile(file)

    def split(self, lines: Sequence[str]) -> list[str]:
        """Split each sentence into wordpieces."""
        return [" ".join(self._tokenizer.encode(line)) or "".join(line.split()) for line in lines]

    def words(self) -> list[str]:
        """Return the vocabulary in its order, without special tokens; fairseq has its own."""
        special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
        return [word for word in self._tokenizer.words() if word not in special]


def save_wordpieces(folder: str | Path, output: str | Path) -> None:
    """Write the tokeniser of a BERT in Hugging Face's format as one file. Raises UserError if there
    is none.
    """
    tokenizer = read_wordpiece_tokeniser(folder)
    with atomic_write(output) as stream:
        stream.write(tokenizer.backend_tokenizer.to_str(pretty=True))


SEPARATOR = "@@"
FAST = re.compile(r"\S+ \S+ \d+")  # a line of fastBPE's codes


def remove_bpe_lines(lines: Sequence[str]) -> list[str]:
    """Undo BPE: ``"Haus@@ boot ."`` becomes ``"Hausboot ."``; also at the end of a line."""
    return [f"{line} ".replace(f"{SEPARATOR} ", "").rstrip(" ") for line in lines]


def learn_codes(lines: Iterable[str], codes: Path, merges: int) -> int:
    """Learn at most ``merges`` operations from tokenised lines; write and count them.

    Learning stops when no pair of symbols occurs twice.
    """
    learnt = io.StringIO()
    with redirect_stderr(
        io.StringIO()
    ):  # in a log file its progress bar would be a line for every merge
        learn_bpe(lines, learnt, merges)
    with atomic_write(codes) as stream:
        stream.write(learnt.getvalue())
    return learnt.getvalue().count("\n") - 1


def read_codes(path: str | Path) -> list[str]:
    """Read the lines of BPE codes in subword-nmt's format.

    fastBPE's lines end in a count, and it has no line with a version; its word ends are those of
    version 0.2. Raises UserError for a line that is no merge.
    """
    lines = list(read_lines(path))
    if all(map(FAST.fullmatch, lines)):
        lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in lines)]
    for number, line in enumerate(lines, 1):  # subword-nmt would end the program
        if len(line.strip("\r ").split(" ")) != 2:
            raise fault(path, number, "not a BPE merge (two symbols)")
    return lines


def read_bpe(codes: Path, known: Iterable[str] | None = None) -> BPE:
    """Return subword-nmt's encoder.

    ``known``: the words of a dictionary. Merges of a subword that is not in it are undone until all
    parts are in it, as subword-nmt and fastBPE do with a vocabulary. None: subwords are not
    checked.
    """
    lines = "".join(f"{line}\n" for line in read_codes(codes))
    return BPE(
        io.StringIO(lines), separator=SEPARATOR, vocab=None if known is None else frozenset(known)
    )


def apply_bpe(bpe: BPE, lines: Sequence[str]) -> list[str]:
    """Split tokenised lines."""
    return [" ".join(bpe.segment_tokens(line.split())) for line in lines]


# A token that ends like a BPE subword would be joined with the next word.
_LIKE_BPE = re.compile(r"@@+(?!\S)")


class Moses:
    """Moses' rules for one language.

    Args:
        truecaser: a model of Moses' truecaser; None: text is not truecased.
        codes: BPE codes; None: words stay whole.
        known: the words of a dictionary, for the codes of a given model (``read_bpe``).
        escaped: tokenise as fairseq's examples and published models, with ``&quot;`` and split
            dashes (``@-@``).
    """

    def __init__(
        self,
        lang: str,
        truecaser: Path | None = None,
        codes: Path | None = None,
        known: Iterable[str] | None = None,
        escaped: bool = False,
    ):
        # The library takes a second to read its tables of characters.
        from sacremoses import MosesDetokenizer, MosesDetruecaser, MosesTokenizer, MosesTruecaser

        self.escaped = escaped
        self._tokenizer = MosesTokenizer(two_letters(lang))
        self._detokenizer = MosesDetokenizer(two_letters(lang))
        self._truecaser = MosesTruecaser(str(truecaser)) if truecaser else None
        self._detruecaser = MosesDetruecaser() if truecaser else None
        self._bpe = read_bpe(codes, known) if codes else None

    def split(self, lines: Sequence[str]) -> list[str]:
        """Tokenise, truecase and split plain lines."""
        return self.subwords(self.truecase(self.tokenise(lines)))

    def tokenise(self, lines: Sequence[str]) -> list[str]:
        """Tokenise plain lines; tokens are separated by single spaces."""
        # As tokenizer.perl -a for published models. Our own corpora have neither, so that text
        # comes back.
        form = {"escape": self.escaped, "aggressive_dash_splits": self.escaped}
        tokenised = [as_tokens(self._tokenizer.tokenize(line, **form), line) for line in lines]
        return [_LIKE_BPE.sub(lambda signs: " ".join(signs[0]), line) for line in tokenised]

    def truecase(self, lines: Sequence[str]) -> list[str]:
        """Truecase tokenised lines, as Moses does: words in a casing seen in training keep it
        within a sentence.
        """
        if self._truecaser is None:
            return list(lines)
        return [self._truecaser.truecase(line, return_str=True, use_known=True) for line in lines]

    def subwords(self, lines: Sequence[str]) -> list[str]:
        """Split tokenised, truecased lines by BPE."""
        return list(lines) if self._bpe is None else apply_bpe(self._bpe, lines)

    def join(self, lines: Sequence[str]) -> list[str]:
        """Return subwords as plain lines."""
        lines = remove_bpe_lines(lines)
        if self._detruecaser:
            lines = [self._detruecaser.detruecase(line, return_str=True) for line in lines]
        return [self._detokenizer.detokenize(line.split(), unescape=self.escaped) for line in lines]


def learn_truecaser(lines: Iterable[str], model: Path) -> None:
    """Learn Moses' truecaser from tokenised lines and write its model."""
    from sacremoses import MosesTruecaser

    truecaser, casing = MosesTruecaser(), defaultdict(Counter)
    for line in lines:  # the library's own loop holds all words of the corpus in memory
        for lower, word, weight in truecaser.learn_truecase_weights(line.split()):
            casing[lower][word] += weight
    truecaser.model = {"casing": casing}
    truecaser.save_model(str(model))
