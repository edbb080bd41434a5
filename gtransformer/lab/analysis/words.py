"""Attention and gates word by word, small enough to be shown: of each word what it looked at most, in 16 bits.

A token of the translation is chosen by what the decoder knows at the token before it. So what a word of the translation
drew on is what the tokens before its own looked at; what a word of the source looked at, its own tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import Inspection, memberships, token_means
from gtransformer.models.common.watching import AttentionSite
from gtransformer.modules.ragged import Ragged
from gtransformer.preprocess.bpe import SEPARATOR
from gtransformer.preprocess.pieces import SPACE, spelled

MOST = 12  # keys kept of a row
ONE = (1 << 16) - 1  # a weight of 1, as it is kept; each of 65,536 equal ones is still kept as 1
WEIGHED = "weighed"  # group and global attention as the gates weigh them, the mean of the layers with a gate
# Which sides the queries and keys of each part are of.
SIDES = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
    "context": ("context", "context"),
    "encoder_context": ("source", "context"),
    "decoder_context": ("target", "context"),
}


@dataclass(frozen=True)
class Side:
    """The tokens of one side as words.

    Attributes:
        words: their texts; marks (``<s>``, ``</s>``) are words of their own.
        sentences: (words,) of which sentence each is, from 0.
        of_token: (tokens,) which word each token belongs to.
        start: how far its first sentence is from the first that is translated, in the document; None: it has none.
    """

    words: list[str]
    sentences: list[int]
    of_token: list[int]
    start: int | None = 0

    def by_sentence(self) -> list[list[str]]:
        """Return the words, sentence by sentence."""
        found: list[list[str]] = [[] for _ in range(self.sentences[-1] + 1)] if self.words else []
        for word, sentence in zip(self.words, self.sentences, strict=True):
            found[sentence].append(word)
        return found


def side_of(
    symbols: Sequence[str], sentences: Sequence[int], marks: Sequence[str], sentencepiece: bool, start: int | None = 0
) -> Side:
    """Subwords joined to words.

    Args:
        sentences: (tokens,) of which sentence each symbol is, from 0.
        marks: symbols that are no part of a word.
        sentencepiece: a word begins with a blank; else it goes on behind ``@@`` (BPE) and with ``##`` (BERT).
    """
    side, before = Side([], [], [], start), ""
    for symbol, sentence in zip(symbols, sentences, strict=True):
        if sentencepiece:
            goes_on = not symbol.startswith(SPACE)
        else:
            goes_on = before.endswith(SEPARATOR) or (symbol.startswith("##") and len(symbol) > 2)
        text = symbol.removesuffix(SEPARATOR).removeprefix("##" if goes_on else SPACE)
        if side.words and goes_on and not {symbol, before} & set(marks):
            side.words[-1] += text
        else:
            side.words.append(text or symbol)
            side.sentences.append(sentence)
        side.of_token.append(len(side.words) - 1)
        before = symbol
    if sentencepiece:
        side.words[:] = (spelled(word.removeprefix(SPACE) or word) for word in side.words)  # the blank alone stays
    return side


@dataclass
class Rows:
    """Of each query its strongest keys: ``found[i]`` is (keys int, weights in 1/``ONE``), strongest first."""

    found: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, weights: np.ndarray) -> Rows:
        """Return (queries, keys) weights of 0 to 1; those that round to 0 are left out."""
        if weights.shape[1] > 1 << 16:
            raise UserError(f"{weights.shape[1]} words are more than a page shows; inspect a shorter document")
        found = []
        for row in np.clip(weights, 0, 1):
            keys = np.argsort(-row, kind="stable")[:MOST]  # by the weights themselves: rounded ones may be equal
            kept = np.rint(ONE * row[keys]).astype(int)
            found.append((keys[kept > 0], kept[kept > 0]))
        return cls(found)

    def packed(self, most: int) -> str:
        """Base64 of, by query, how many keys (1 byte), and of each its number and weight (2 each, little-endian)."""
        parts = []
        for keys, weights in self.found:
            kept = np.stack([keys[:most], weights[:most]], axis=1).astype("<u2")
            parts.append(bytes([len(kept)]) + kept.tobytes())
        return base64.b64encode(b"".join(parts)).decode()


@dataclass(frozen=True)
class WordMap:
    """Attention of one layer (0: of several, ``WEIGHED``), averaged over its heads, by word and by sentence."""

    part: str
    reach: str
    layer: int
    words: Rows
    sentences: Rows


@dataclass
class WordWatch:
    """Told of every attention and gate of one instance; see ``attention.recording``.

    Attributes:
        sides: by the names in ``SIDES``.
        maps: of all layers, lowest first.
        gates: part, layer and (words,) values; of a word that no query stands for, 0.
    """

    sides: dict[str, Side]
    maps: list[WordMap] = field(default_factory=list)
    gates: list[tuple[str, int, np.ndarray]] = field(default_factory=list)
    _layer: dict[str, dict[str, np.ndarray]] = field(default_factory=dict, repr=False)
    _weighed: dict[str, list] = field(default_factory=dict, repr=False)
    _queries: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def see(self, site: AttentionSite, weights: Tensor, queries: Ragged, keys: Ragged) -> None:
        """``weights``: (query tokens, key tokens), the mean over heads."""
        if site.part not in SIDES:
            return
        asking, asked = (self.sides[name] for name in SIDES[site.part])
        rows = _choosing(asking, _tokens(asking, queries), SIDES[site.part][0] == "target")
        by_word = np.zeros((len(asking.words), len(asked.words)))
        np.add.at(by_word.T, np.array(asked.of_token)[_tokens(asked, keys)], (rows @ weights.numpy()).T)
        mass = (weights @ memberships(torch.from_numpy(keys.tag))).numpy()
        by_sentence = self._sentences(site.part, token_means(mass, queries.tag))
        self.maps.append(WordMap(site.part, site.reach, site.layer, Rows.of(by_word), by_sentence))
        self._layer.setdefault(site.part, {})[site.reach] = by_word
        self._queries[site.part] = rows

    def see_gate(self, part: str, layer: int, tokens: np.ndarray) -> None:
        """``tokens``: (query tokens,), the mean over channels. A gate runs behind the attention that it weighs."""
        if part not in SIDES:
            return
        values = self._queries[part] @ tokens
        self.gates.append((part, layer, values))
        here = self._layer.pop(part)
        if {"group", "global"} <= here.keys():
            self._weighed.setdefault(part, []).append(
                values[:, None] * here["group"] + (1 - values[:, None]) * here["global"]
            )

    def weighed(self, found: Inspection) -> list[WordMap]:
        """Of each part with gates group and global attention as they weigh it; ``found``: the same by sentence."""
        return [
            WordMap(part, WEIGHED, 0, Rows.of(np.mean(layers, axis=0)), self._sentences(part, found.drawn_from(part)))
            for part, layers in self._weighed.items()
        ]

    def _sentences(self, part: str, weights: np.ndarray) -> Rows:
        """Return (query sentences, key sentences) of layers that may have the last sentences alone, as rows of all."""
        asking, asked = (self.sides[name].sentences[-1] + 1 for name in SIDES[part])
        full = np.zeros((asking, asked))
        full[asking - weights.shape[0] :, asked - weights.shape[1] :] = weights
        return Rows.of(full)


def _tokens(side: Side, layout: Ragged) -> np.ndarray:
    """Return which tokens of a side a layout has; one of fewer has the last sentence alone (Flat-Transformer)."""
    return layout.index.cpu().numpy() + len(side.of_token) - layout.length


def _choosing(side: Side, positions: np.ndarray, before: bool) -> np.ndarray:
    """Return (words, queries) float64: the mean over a word's queries; 0 for a word that has none.

    ``positions``: (queries,), which token of the side each is; ``before``: a token's query is the token before it.
    """
    of_query = positions + 1 if before else positions
    rows = np.zeros((len(side.words), len(positions)))
    for number, token in enumerate(of_query):
        if token < len(side.of_token):  # behind the last token nothing is shown
            rows[side.of_token[token], number] = 1
    return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
