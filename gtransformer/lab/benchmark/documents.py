"""Random documents of a given length; contents do not matter for time and memory."""

from __future__ import annotations

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.batch_fields import FIRST_SENTENCE, counted, with_counted_targets

LANGS = ("en", "de")
EQUAL_LENGTHS, VARIED_LENGTHS = (1.0,), (0.75, 1.25)


def make_dictionary(vocabulary: int) -> Dictionary:
    """Return a dictionary of ``vocabulary`` entries, ending with the language symbols and ``<mask>``."""
    dictionary = Dictionary()
    symbols = [f"[{lang}]" for lang in LANGS] + ["<mask>"]
    for number in range(vocabulary - len(dictionary) - len(symbols)):
        dictionary.add_symbol(f"w{number}")
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


def make_document(
    tokens: int,
    sentence: int,
    dictionary: Dictionary,
    generator: torch.Generator,
    turns: tuple[float, ...] = EQUAL_LENGTHS,
) -> Tensor:
    """Return (tokens,) int64: sentences of ``sentence`` tokens with ``<s>`` and ``</s>``; the last has the rest.

    Lengths alternate between these multiples of ``sentence``.
    """
    words = torch.randint(dictionary.nspecial, len(dictionary) - 3, (tokens,), generator=generator)
    lengths = torch.tensor([round(sentence * times) for times in turns]).repeat(1 + tokens // sentence)
    starts = lengths.cumsum(0) - lengths
    starts = starts[starts < max(1, tokens - sentence // 2)]
    words[starts] = dictionary.bos()
    words[torch.cat([starts[1:], torch.tensor([tokens])]) - 1] = dictionary.eos()
    return words


def make_batch(
    documents: int, tokens: int, sentence: int, dictionary: Dictionary, uneven: bool = False, before: int = 0
) -> dict:
    """Return a sample for fairseq's criterions: ``documents`` pairs of ``tokens`` tokens on each side.

    ``uneven``: source sentences are alternately a quarter shorter and longer than target sentences; ``before``: number
    of source sentences added in front of each pair, which does not change otherwise.
    """
    generator = torch.Generator().manual_seed(1)
    turns = VARIED_LENGTHS if uneven else EQUAL_LENGTHS
    source = torch.stack([make_document(tokens, sentence, dictionary, generator, turns) for _ in range(documents)])
    read = torch.stack([make_document(tokens, sentence, dictionary, generator) for _ in range(documents)])
    if before:
        context = [make_document(before * sentence, sentence, dictionary, generator) for _ in range(documents)]
        source = torch.cat([torch.stack(context), source], dim=1)
    return _sample(source, read, dictionary)


def _sample(source: Tensor, read: Tensor, dictionary: Dictionary) -> dict:
    """Return a sample from the inputs of encoder and decoder, (rows, tokens) each, with shifted targets."""
    language = torch.full((len(read), 1), dictionary.index(f"[{LANGS[1]}]"))
    return {
        "id": torch.arange(len(read)),
        "nsentences": len(read),
        "ntokens": read.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((len(read),), source.shape[1]),
            "prev_output_tokens": read,
        },
        "target": torch.cat([read[:, 1:], language], dim=1),
    }


def make_stretch(sentences: int, sentence: int, local: int, dictionary: Dictionary) -> dict:
    """Return a sample for fairseq's criterions: a document's consecutive sentences, each with ``local`` previous ones.

    ``sentence``: tokens of each, including ``<s>`` and ``</s>``. Only current sentences count in the loss; they do not
    depend on ``local``.
    """
    generator = torch.Generator().manual_seed(1)
    current, before = (
        torch.stack([make_document(sentence, sentence, dictionary, generator) for _ in range(2 * count)])
        for count in (sentences, max(1, local))
    )
    number = torch.arange(sentences).unsqueeze(1) + torch.arange(local + 1)  # of the sentences of each instance
    source, read = (
        torch.cat([before.chunk(2)[side][:local], current.chunk(2)[side]])[number].flatten(1) for side in (0, 1)
    )
    sample = _sample(source, read, dictionary) | {FIRST_SENTENCE: torch.arange(sentences) + 1}
    return counted(with_counted_targets(sample, dictionary.pad(), torch.full((sentences,), local * sentence)))
