"""A sentence model of any toolkit in this package's terms: structure, parameters, vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtransformer.data.dictionaries import OVERWRITE, RESERVED, UNUSED

# What fairseq's first four entries are here: <s>, <pad>, </s>, <unk>.
SPECIAL = (
    "start",
    "pad",
    "eos",
    "unk",
)
OUTPUT = "decoder.output_projection"
# Reads the pieces of a SentencePiece model, in the order of their numbers.
PiecesOf = Callable[[Path], list[str]]
ZERO = None  # of a special word without an embedding: the vector is zero


@dataclass
class ModelVocabulary:
    """The words of one side, in the order of the model's rows.

    Attributes:
        words: SentencePiece's pieces and the model's own symbols; as many as rows.
        special: the row of each of ``SPECIAL``, ZERO where the model has none. What ``start`` names
            is the vector that the decoder begins with.
        pieces: the SentencePiece model that splits this side.
        prefix: the word that its sentences begin with; None: none.
    """

    words: list[str]
    special: Mapping[str, int | None]
    pieces: Path
    prefix: str | None = None

    def order(self) -> list[int | None]:
        """Return the rows in this package's order: the special ones, then the others as they
        are.
        """
        # fairseq's dictionaries begin with <s>, <pad>, </s>, <unk>; the model's own order comes
        # after them.
        first = [self.special[name] for name in SPECIAL]
        start = self.special["start"]
        special = {self.special[name] for name in ("pad", "eos", "unk")}
        # Where decoding begins with another word's vector, that word stays among the others.
        if start is not ZERO and self.words[start] == "<s>":
            special.add(start)
        return [*first, *(row for row in range(len(self.words)) if row not in special)]

    def entries(self, symbols: Sequence[str]) -> list[str]:
        """Return the words after the special ones, as a dictionary of fairseq can hold them;
        ``symbols`` follow.

        Pieces with blanks and names of symbols are renamed: no text is split into them.
        """
        known, entries = {*RESERVED, *symbols}, []
        for row in self.order()[len(SPECIAL) :]:
            word = self.words[row]
            # fairseq splits the lines of a dictionary at blanks.
            if word in known or word.split() != [word] or word.endswith(OVERWRITE):
                word = UNUSED.format(row)
            known.add(word)
            entries.append(word)
        return entries


@dataclass
class SentenceModel:
    """What was read.

    Attributes:
        kind: in words, for messages.
        structure: options of ``GTransformerConfig``.
        parameters: those of the layers, by this package's names.
        source, target: the vocabularies; where embeddings are shared, they have the same words.
        tables: embeddings (words, channels) of encoder and decoder, and the output layer's, in the
            model's order; None where it is the decoder's.
        bias: (words,) of the output layer; None: it has none.
        first_output: how many of ``SPECIAL``, from the first on, are not among the words that it
            predicts.
        file: name of the main file that was read.
    """

    kind: str
    structure: dict[str, Any]
    parameters: dict[str, Tensor]
    source: ModelVocabulary
    target: ModelVocabulary
    tables: tuple[Tensor, Tensor, Tensor | None]
    bias: Tensor | None
    first_output: int
    file: str

    def __post_init__(self) -> None:
        encoder, decoder, output = self.tables
        shared = encoder is decoder and output is None and self.source.words == self.target.words
        self.structure |= {
            "share_all_embeddings": shared,
            "share_decoder_input_output_embed": output is None and not shared,
            "output_bias": self.bias is not None,
        }

    def state(self) -> dict[str, Tensor]:
        """Return all parameters, the tables in this package's order, without the symbols that it
        appends.
        """
        encoder, decoder, output = self.tables
        state = dict(self.parameters)
        # Of many languages a table has a gigabyte: once if shared.
        source = target = reordered(encoder, self.source)
        if decoder is not encoder or self.source.order() != self.target.order():
            target = reordered(decoder, self.target)
        state["encoder.embed_tokens.weight"] = source
        state["decoder.embed_tokens.weight"] = target
        state[f"{OUTPUT}.weight"] = target if output is None else reordered(output, self.target)
        if self.bias is not None:
            state[f"{OUTPUT}.bias"] = reordered(self.bias[:, None], self.target)[:, 0]
        return state


def reordered(table: Tensor, vocabulary: ModelVocabulary) -> Tensor:
    """Return the rows (words, channels) in the order of ``ModelVocabulary.order``, with zeros for
    ZERO.
    """
    order = vocabulary.order()
    rows = torch.tensor([-1 if row is ZERO else row for row in order])
    result = table.float()[rows]
    result[rows < 0] = 0.0
    return result
