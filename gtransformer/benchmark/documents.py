"""Random documents of a given length; what they say does not matter for time and memory."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary
from torch import Tensor

LANGS = ("en", "de")


def make_dictionary(vocabulary: int) -> Dictionary:
    """A dictionary of ``vocabulary`` entries in all, ending in the language symbols and ``<mask>``."""
    dictionary = Dictionary()
    symbols = [f"[{lang}]" for lang in LANGS] + ["<mask>"]
    for number in range(vocabulary - len(dictionary) - len(symbols)):
        dictionary.add_symbol(f"w{number}")
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


def make_document(tokens: int, sentence: int, dictionary: Dictionary, generator: torch.Generator) -> Tensor:
    """(tokens,) int64: sentences of ``sentence`` tokens with ``<s>`` and ``</s>``, the last one takes what is left."""
    words = torch.randint(dictionary.nspecial, len(dictionary) - 3, (tokens,), generator=generator)
    starts = torch.arange(0, max(1, tokens - sentence // 2), sentence)
    words[starts] = dictionary.bos()
    words[torch.cat([starts[1:], torch.tensor([tokens])]) - 1] = dictionary.eos()
    return words


def make_batch(documents: int, tokens: int, sentence: int, dictionary: Dictionary, seed: int = 1) -> dict:
    """A sample as fairseq's criteria take it: ``documents`` pairs of ``tokens`` tokens a side."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.stack([make_document(tokens, sentence, dictionary, generator) for _ in range(documents)])
    language = torch.full((documents, 1), dictionary.index(f"[{LANGS[1]}]"))
    read = torch.stack([make_document(tokens, sentence, dictionary, generator) for _ in range(documents)])
    target = torch.cat([read[:, 1:], language], dim=1)
    return {
        "id": torch.arange(documents),
        "nsentences": documents,
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((documents,), tokens),
            "prev_output_tokens": read,
        },
        "target": target,
    }
