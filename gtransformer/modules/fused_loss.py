"""Label-smoothed cross-entropy directly from the top states, chunk by chunk.

The logits of a chunk of tokens become loss and gradients at once and are then discarded. So no (tokens, vocabulary)
tensor is stored, neither logits nor log probabilities. The products are those of the ordinary loss: logits, gradient of
the states, gradient of the output weights.

In float16 the gradients are sums that cannot overflow. They become float16 at the very end of the backward pass,
multiplied by the loss scale. So lowering that scale, as fairseq does, always removes an overflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtransformer.modules.kernels import GRAIN, LARGE_VOCABULARY, compiles_shapes, padded, product, rows_at_once

CHUNK_ELEMENTS = 1 << 24  # logits held at a time: 64 MiB in float32,
LARGER_ON_GPU = 4  # so many times as much on a GPU, where each chunk costs the start of its kernels,
FEWEST_ROWS = 256  # but at least of so many tokens, or 250,000 words would mean too many products
MOST_ROWS, LAST_GRAIN = 2048, 128  # of a chunk, if kernels are compiled for each shape; the last chunk is padded
HALF_LIMIT = 2.0**15  # bound of sums in float16, whose largest number is 65,504
SMALLEST_SUM = 1e-30  # smaller sums count as zero; HALF_LIMIT divided by it is still finite


def fused_cross_entropy(features: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the summed negative log likelihood of ``targets``.

    With V words and smoothing e, the target distribution is 1 - e at the target and e / (V - 1) elsewhere, as in
    fairseq's ``label_smoothed_cross_entropy``.

    Args:
        features: (tokens, channels) in any floating type.
        weight: (vocabulary, channels) output projection. In autocast, products have autocast's type, gradients that of
            the arguments.
        targets: (tokens,) int64, no padding.
        smoothing: e, between 0 and 1.

    Returns:
        two scalars, float32 (float64 for float64 input); only the first has a gradient.
    """
    if not torch.is_grad_enabled():  # else the function would compute gradients: it sees only its arguments
        features, weight = features.detach(), weight.detach()
    device = features.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
    with torch.autocast(device, enabled=False):
        return _FusedCrossEntropy.apply(features, weight, targets, smoothing, dtype)


class _FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features: Tensor, weight: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype):
        want_features, want_weight = ctx.needs_input_grad[:2]
        ctx.types = features.dtype, weight.dtype
        features, weight = features.to(dtype), weight.to(dtype)
        exact = torch.float64 if features.dtype == torch.float64 else torch.float32
        vocabulary = weight.shape[0]
        spread = smoothing / (vocabulary - 1)
        peak = 1.0 - smoothing - spread
        grad_features = torch.empty_like(features, dtype=exact) if want_features else None
        grad_weight = None
        loss = torch.zeros((), dtype=exact, device=features.device)
        nll = torch.zeros_like(loss)
        rows = max(FEWEST_ROWS, CHUNK_ELEMENTS * (LARGER_ON_GPU if features.is_cuda else 1) // vocabulary)
        compiled = dtype == torch.bfloat16 and compiles_shapes(features.device)
        if compiled:
            rows = min(rows - rows % GRAIN, MOST_ROWS)
        largest_weight = _largest(weight)
        for start in range(0, len(features), rows):
            h, target = features[start : start + rows], targets[start : start + rows].unsqueeze(1)
            tokens = len(h)
            if compiled and tokens < rows:
                h = padded(h, LAST_GRAIN)
            grad = product(h, weight)
            if grad.dtype == torch.float16:
                grad = grad.float()
            wanted = want_features or want_weight
            chunk_nll, total = _turn_into_gradient(grad[:tokens], target, exact, spread, peak, wanted)
            grad[tokens:] = 0
            nll += chunk_nll
            loss += peak * chunk_nll
            if smoothing:
                loss += spread * total
            if want_features:
                grad_features[start : start + rows] = _times(grad, weight, largest_weight)[:tokens]
            if want_weight:
                part = _times(grad.t(), h, _largest(h))
                grad_weight = part.to(exact) if grad_weight is None else grad_weight.add_(part)
        if want_weight and grad_weight is None:  # there was no token
            grad_weight = torch.zeros_like(weight, dtype=exact)
        ctx.save_for_backward(grad_features, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        unscaled = grad_loss.device.type == "cpu" and grad_loss.item() == 1.0  # reading it would synchronise with a GPU
        grads = [
            None if grad is None else (grad if unscaled else grad * grad_loss).to(dtype)
            for grad, dtype in zip(ctx.saved_tensors, ctx.types, strict=True)
        ]
        return *grads, None, None, None


def _turn_into_gradient(
    logits: Tensor, target: Tensor, exact: torch.dtype, spread: float, peak: float, wanted: bool
) -> tuple[Tensor, Tensor]:
    """Replace logits (tokens, words) by d loss / d logits = softmax - (peak at the target) - spread, if ``wanted``.

    It processes some rows at a time: on the CPU, all passes but the first then find them in the cache.

    Returns:
        two scalars of the type ``exact``, in which everything is computed: the summed negative log likelihood, and that
        of all words together.
    """
    vocabulary = logits.shape[1]
    rows = rows_at_once(logits)
    nlls, totals = [], []
    for part, words in zip(logits.split(rows), target.split(rows), strict=True):
        x = part.to(exact)
        at_target, total = x.gather(1, words), x.sum(dim=1, keepdim=True)
        if vocabulary < LARGE_VOCABULARY or not wanted:  # with more words, exponentials are taken once
            normaliser = x.logsumexp(dim=1, keepdim=True)
            x = x.sub_(normaliser).exp_() if wanted else x
        else:
            largest = x.amax(dim=1, keepdim=True)
            normaliser = x.sub_(largest).exp_().sum(dim=1, keepdim=True)
            x.div_(normaliser)
            normaliser = normaliser.log_().add_(largest)
        nlls.append(normaliser - at_target)
        totals.append(vocabulary * normaliser - total)
        if wanted:
            x.sub_(spread) if spread else None
            x.scatter_add_(1, words, torch.full_like(normaliser, -peak))
            part.copy_(x)  # x itself, if the types are equal
    return torch.cat(nlls).sum(), torch.cat(totals).sum()


def _largest(x: Tensor) -> Tensor | None:
    """Return the largest magnitude in float16 numbers, at least 1; None for other types, which need none."""
    return (
        torch.linalg.vector_norm(x, torch.inf, dtype=torch.float32).clamp_min(1.0) if x.dtype == torch.float16 else None
    )


def _times(grad: Tensor, other: Tensor, largest: Tensor | None) -> Tensor:
    """Return grad (rows, inner) times other (inner, columns), whose ``largest`` magnitude is given -> (rows, columns).

    In float16 ``grad`` and the result are float32. The row of a word that is every token's target exceeds float16's
    range whatever the loss scale. The row of a rare word falls below its smallest number. So each row is scaled for the
    product, by the largest factor that its sum of magnitudes allows. No part of the sum can overflow, in whatever order
    and precision a library adds. Rounding is relative to that sum.
    """
    if other.dtype != torch.float16:
        return product(grad, other.t())
    bound = torch.linalg.vector_norm(grad, 1, dim=1, keepdim=True) * largest
    scale = HALF_LIMIT / bound.clamp_min(SMALLEST_SUM)
    return product((grad * scale).to(other.dtype), other.t()).float().div_(scale)
