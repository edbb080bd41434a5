"""How many operations a training step needs, and how many a second the machine can do."""

from __future__ import annotations

import time

import torch

from gtransformer.lab.benchmark.systems import BESIDE, GTRANSFORMER, LST, WINDOWS, Setting, now
from gtransformer.models.gtransformer.architectures import ARCHITECTURES
from gtransformer.modules.linear import product


def training_operations(setting: Setting) -> float:
    """Floating-point operations of one training step on ``setting.documents`` documents (a multiply-add is two).

    Forward pass by formula, times three (backward is twice the forward); nothing for recomputation, softmax, norms,
    dropout and the optimizer. Causal attention counts half the keys. Attention that has no narrower reach, and all of
    the dense engine's and of fairseq's, counts every key of the document. Frozen layers have no gradient of weights.
    """
    sizes = ARCHITECTURES[setting.arch]
    tokens, document = setting.documents * setting.tokens, setting.tokens
    sentence, window = min(setting.sentence, document), min(2 * setting.window + 1, document)
    # Keys of self- and of cross-attention. Relative positions are half as much again; LST attention sees two scopes.
    kinds = {"packed": (sentence, sentence), LST: (document + sentence, document), WINDOWS: (1.5 * window, window)}
    own, cross = kinds.get(setting.system, (document, document))
    d, ffn = sizes["encoder_embed_dim"], sizes["encoder_ffn_embed_dim"]
    e, effn = sizes["decoder_embed_dim"], sizes["decoder_ffn_embed_dim"]

    def attention(dim: int, memory: int, keys: float) -> float:
        """Projections of queries and output, of keys and values, scores and their sum with the values."""
        return 2 * (2 * dim * dim + 2 * memory * dim + 2 * dim * keys)

    def layers(count: int, one: float, over_document: float, gate: float) -> float:
        context = min(setting.context, count) if setting.system in GTRANSFORMER else 0
        return count * one + context * (over_document + gate)

    encoder = layers(sizes["encoder_layers"], attention(d, d, own), attention(d, d, document), 4 * d * d)
    encoder += sizes["encoder_layers"] * 4 * d * ffn
    count = sizes["decoder_layers"]
    decoder = layers(count, attention(e, e, own / 2), attention(e, e, document / 2), 4 * e * e)
    decoder += layers(count, attention(e, d, cross), attention(e, d, document), 4 * e * e)
    decoder += count * 4 * e * effn + 2 * e * setting.vocabulary
    if setting.system == LST:  # its output projections take two vectors
        encoder, decoder = encoder + 2 * d * d * sizes["encoder_layers"], decoder + 2 * e * e * count
    if setting.system != BESIDE:
        return 3.0 * tokens * (encoder + decoder)
    words = setting.beside * (sentence - 2) + 1  # of the context, with its </s>

    def beside(dim: int) -> float:
        """Context attention and its gate, for each token of the sentence."""
        return 2 * (2 * dim * dim + 2 * dim * words) + 4 * dim * dim + words / document * 4 * d * dim

    own = sizes["encoder_layers"] * beside(d) + count * beside(e)
    own += words / document * (attention(d, d, words) + 4 * d * ffn)  # the context encoder
    return tokens * (2.0 * (encoder + decoder) + 3.0 * own)


def matrix_rate(device: str, precision: str, size: int = 4096, seconds: float = 1.0) -> float:
    """Operations a second of large matrix products, the best of several: size x 512 by 512 x size on a CPU, square on a
    GPU.
    """
    inner = size if device == "cuda" else 512
    dtype = getattr(torch, precision)
    a, b = (torch.randn(size, inner, device=device).to(dtype) for _ in range(2))
    best, until = float("inf"), now(device) + seconds
    while best == float("inf") or time.perf_counter() < until:
        began = now(device)
        product(a, b)
        best = min(best, now(device) - began)
    return 2.0 * size * size * inner / best
