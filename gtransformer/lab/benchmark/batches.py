"""Random documents as packed batches; their words do not matter for time and memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.packing import Packer, Symbols, capacity_of
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel

SIZES = ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
BASE = (512, 2048, 6, 8)


def vocabulary(words: int) -> Vocabulary:
    """Return a vocabulary of so many entries."""
    return Vocabulary([*(f"w{number}" for number in range(words - 7)), "[en]", "[de]", "<mask>"])


def model(words: Vocabulary, sizes: tuple[int, ...], **options) -> GTransformerModel:
    """Return a random G-Transformer with shared embeddings; ``sizes`` in the order of ``SIZES``."""
    for name, size in zip(SIZES, sizes, strict=True):
        options |= {f"{side}_{name}": size for side in ("encoder", "decoder")}
    cfg = GTransformerConfig(share_all_embeddings=True, **options)
    return GTransformerModel.build(cfg, words, words).train()


def documents(number: int, tokens: int, sentence: int, words: Vocabulary) -> list[Tensor]:
    """Return documents of ``tokens`` tokens, in sentences of about ``sentence`` tokens."""
    made = []
    for _ in range(number):
        row = torch.randint(4, len(words) - 3, (tokens,))
        row[::sentence] = words.bos()
        row[sentence - 1 :: sentence] = words.eos()
        row[-1] = words.eos()
        made.append(row)
    return made


def packed_batch(number: int, tokens: int, sentence: int, words: Vocabulary) -> dict:
    """Return a packed batch of ``number`` document pairs of ``tokens`` tokens on each side."""
    sources, inputs = (documents(number, tokens, sentence, words) for _ in "st")
    end = torch.tensor([words.index("[de]")])
    targets = [torch.cat([row[1:], end]) for row in inputs]
    sizes = [np.full(number, tokens)] * 2
    sentences = np.full(number, -(-tokens // sentence))
    capacity = capacity_of([np.arange(number)], sizes, sentences, sentence)
    symbols = Symbols(words.bos(), words.pad())
    return Packer(capacity, symbols, symbols)(sources, inputs, targets)
