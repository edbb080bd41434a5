"""Attention and gates by word in compact form: each word's strongest keys, in 16 bits.

The decoder predicts a token at the token before it. So a target word has the attention of the tokens before its own; a
source word has the attention of its own tokens.
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
from gtransformer.lab.analysis.watching import AttentionSite
from gtransformer.modules.ragged import Ragged
from gtransformer.preprocess.bpe import SEPARATOR
from gtransformer.preprocess.pieces import SPACE, spelled

KEYS_KEPT = 12  # keys kept per query
UNIT_WEIGHT = (1 << 16) - 1  # stored form of the weight 1; each of 65,536 equal weights is still stored as 1
WEIGHED = "weighed"  # group and global attention weighted by the gates, mean of the layers with a gate
# The sides of each part's queries and keys.
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
        words: their texts; boundary tokens (``<s>``, ``</s>``) are separate words.
        sentences: (words,) the sentence of each, from 0.
        of_token: (tokens,) the word of each token.
        start: position of its first sentence relative to the first translated one; None: it has no sentence.
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
    """Return subwords joined to words.

    Args:
        sentences: (tokens,) the sentence of each symbol, from 0.
        marks: symbols that are not part of a word.
        sentencepiece: a word starts with a blank; else ``@@`` (BPE) or ``##`` (BERT) mark continuations.
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
        side.words[:] = (spelled(word.removeprefix(SPACE) or word) for word in side.words)  # a single blank stays
    return side


@dataclass
class Rows:
    """The strongest keys of each query: ``found[i]`` is (keys int, weights in 1/``UNIT_WEIGHT``), strongest first."""

    found: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, weights: np.ndarray) -> Rows:
        """Return the strongest keys of (queries, keys) weights from 0 to 1; weights that round to 0 are left out."""
        if weights.shape[1] > 1 << 16:
            raise UserError(f"{weights.shape[1]} words are more than a page shows; inspect a shorter document")
        found = []
        for row in np.clip(weights, 0, 1):
            keys = np.argsort(-row, kind="stable")[:KEYS_KEPT]  # by exact weights, as rounded ones may be equal
            kept = np.rint(UNIT_WEIGHT * row[keys]).astype(int)
            found.append((keys[kept > 0], kept[kept > 0]))
        return cls(found)

    def packed(self, most: int) -> str:
        """Return base64 of, for each query, the number of keys (1 byte), and each key's number and weight (2 bytes
        each, little-endian).
        """
        parts = []
        for keys, weights in self.found:
            kept = np.stack([keys[:most], weights[:most]], axis=1).astype("<u2")
            parts.append(bytes([len(kept)]) + kept.tobytes())
        return base64.b64encode(b"".join(parts)).decode()


@dataclass(frozen=True)
class WordMap:
    """Attention of one layer (0: several, ``WEIGHED``), averaged over heads, by word and by sentence."""

    part: str
    reach: str
    layer: int
    words: Rows
    sentences: Rows


@dataclass
class WordWatch:
    """Receiver of every attention and gate of one instance; see ``attention.recording``.

    Attributes:
        sides: by the names in ``SIDES``.
        maps: of all layers, lowest first.
        gates: part, layer and (words,) values; 0 for a word without a query.
    """

    sides: dict[str, Side]
    maps: list[WordMap] = field(default_factory=list)
    gates: list[tuple[str, int, np.ndarray]] = field(default_factory=list)
    _layer: dict[str, dict[str, np.ndarray]] = field(default_factory=dict, repr=False)
    _weighed: dict[str, list] = field(default_factory=dict, repr=False)
    _queries: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def see(self, site: AttentionSite, weights: Tensor, queries: Ragged, keys: Ragged) -> None:
        """Record ``weights``, (query tokens, key tokens), the mean over heads."""
        if site.part not in SIDES:
            return
        query_side, key_side = (self.sides[name] for name in SIDES[site.part])
        rows = _choosing(query_side, _tokens(query_side, queries), SIDES[site.part][0] == "target")
        by_word = np.zeros((len(query_side.words), len(key_side.words)))
        np.add.at(by_word.T, np.array(key_side.of_token)[_tokens(key_side, keys)], (rows @ weights.numpy()).T)
        mass = (weights @ memberships(torch.from_numpy(keys.tag))).numpy()
        by_sentence = self._sentences(site.part, token_means(mass, queries.tag))
        self.maps.append(WordMap(site.part, site.reach, site.layer, Rows.of(by_word), by_sentence))
        self._layer.setdefault(site.part, {})[site.reach] = by_word
        self._queries[site.part] = rows

    def see_gate(self, part: str, layer: int, tokens: np.ndarray) -> None:
        """Record ``tokens``, (query tokens,), the mean over channels. A gate follows the attention that it weighs."""
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
        """Return for each part with gates group and global attention, weighted by them; ``found``: the same by
        sentence.
        """
        return [
            WordMap(part, WEIGHED, 0, Rows.of(np.mean(layers, axis=0)), self._sentences(part, found.drawn_from(part)))
            for part, layers in self._weighed.items()
        ]

    def _sentences(self, part: str, weights: np.ndarray) -> Rows:
        """Return (query sentences, key sentences) of all sentences, from layers that may have only the last ones."""
        query_side, key_side = (self.sides[name].sentences[-1] + 1 for name in SIDES[part])
        full = np.zeros((query_side, key_side))
        full[query_side - weights.shape[0] :, key_side - weights.shape[1] :] = weights
        return Rows.of(full)


def _tokens(side: Side, layout: Ragged) -> np.ndarray:
    """Return the tokens of a side in a layout; with fewer tokens it has only the last sentence (Flat-Transformer)."""
    return layout.index.cpu().numpy() + len(side.of_token) - layout.length


def _choosing(side: Side, positions: np.ndarray, before: bool) -> np.ndarray:
    """Return (words, queries) float64 that average a word's queries; 0 for a word without one.

    ``positions``: (queries,), each query's token of the side; ``before``: a token's query is the token before it.
    """
    of_query = positions + 1 if before else positions
    rows = np.zeros((len(side.words), len(positions)))
    for number, token in enumerate(of_query):
        if token < len(side.of_token):  # nothing is shown behind the last token
            rows[side.of_token[token], number] = 1
    return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
