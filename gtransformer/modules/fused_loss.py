"""Label-smoothed cross-entropy directly from the top states, chunk by chunk.

The logits of a chunk of tokens become loss and gradients at once and are then discarded. So no
(tokens, vocabulary) tensor is stored, neither logits nor log probabilities. The products are those
of the ordinary loss: logits, gradient of the states, gradient of the output weights.

In float16 the two gradients are products in float32: their sums could overflow, whatever the loss
scale.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gtransformer.modules.kernels import product, rows_at_once

# Logits at a time: 64 MiB in float32. On a GPU it is more, because each chunk costs the start of
# its kernels. With many words it is at least FEWEST_ROWS tokens, or there were too many products.
CHUNK_ELEMENTS, LARGER_ON_GPU, FEWEST_ROWS = 1 << 24, 4, 256


def fused_cross_entropy(
    features: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    counts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the summed loss and the summed negative log likelihood of ``targets``.

    With V words and smoothing e, the target distribution is 1 - e at the target and e / (V - 1)
    elsewhere, as in fairseq's ``label_smoothed_cross_entropy``.

    Args:
        features: (tokens, channels) in any floating type.
        weight: (vocabulary, channels) output projection. In autocast, products have autocast's
            type, gradients that of the arguments.
        targets: (tokens,) int64, no padding.
        smoothing: e, between 0 and 1.
        counts: (tokens,) bool, the targets that count; None: all do.

    Returns:
        two scalars, float32 (float64 for float64 input); only the first has a gradient.
    """
    # Else the function would compute gradients: it sees only its arguments.
    if not torch.is_grad_enabled():
        features, weight = features.detach(), weight.detach()
    device = features.device.type
    dtype = (
        torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
    )
    with torch.autocast(device, enabled=False):
        return _FusedCrossEntropy.apply(features, weight, targets, smoothing, dtype, counts)


class _FusedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        features: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        dtype: torch.dtype,
        counts: Tensor | None,
    ):
        want_features, want_weight = ctx.needs_input_grad[:2]
        ctx.types = features.dtype, weight.dtype
        features, weight = features.to(dtype), weight.to(dtype)
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        summed = exact if dtype == torch.float16 else dtype  # type of the gradients' products
        weight_summed = weight.to(summed)
        vocabulary = weight.shape[0]
        # The target distribution is ``spread`` everywhere, and ``peak`` more at the target.
        spread = smoothing / (vocabulary - 1)
        peak = 1.0 - smoothing - spread
        grad_features = torch.empty_like(features, dtype=exact) if want_features else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if want_weight else None
        loss = nll = torch.zeros((), dtype=exact, device=features.device)
        large = features.is_cuda or torch.compiler.is_compiling()
        rows = max(FEWEST_ROWS, CHUNK_ELEMENTS * (LARGER_ON_GPU if large else 1) // vocabulary)
        for start in range(0, len(features), rows):
            h, target = features[start : start + rows], targets[start : start + rows].unsqueeze(1)
            grad = product(h, weight).to(summed)
            count = None if counts is None else counts[start : start + rows].unsqueeze(1)
            chunk_nll, total = _turn_into_gradient(grad, target, count, exact, spread, peak)
            # Not in place: PyTorch 2.11 would compile gradients that are 0.
            nll = nll + chunk_nll
            loss = loss + peak * chunk_nll + spread * total
            if want_features:
                grad_features[start : start + rows] = product(grad, weight_summed.t())
            if want_weight:
                grad_weight += product(grad.t(), h.to(summed).t())
        ctx.save_for_backward(grad_features, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx, grad_loss: Tensor, _):
        # Reading the scale would synchronise with a GPU, and end a compiled graph.
        readable = grad_loss.device.type == "cpu" and not torch.compiler.is_compiling()
        unscaled = readable and grad_loss.item() == 1.0
        grads = []
        for grad, dtype in zip(ctx.saved_tensors, ctx.types, strict=True):
            if grad is not None:
                grad = (grad if unscaled else grad * grad_loss).to(dtype)
            grads.append(grad)
        return *grads, None, None, None, None


def _turn_into_gradient(
    logits: Tensor,
    target: Tensor,
    count: Tensor | None,
    exact: torch.dtype,
    spread: float,
    peak: float,
) -> tuple[Tensor, Tensor]:
    """Replace logits (tokens, words) by d loss / d logits = softmax - (peak at the target) -
    spread, or by 0 where a target does not count.

    It processes some rows at a time: on the CPU, all passes but the first then find them in the
    cache.

    Returns:
        two scalars of the type ``exact``, in which everything is computed: the summed negative log
        likelihood, and that of all words together.
    """
    vocabulary = logits.shape[1]
    rows = rows_at_once(logits)
    nlls, totals = [], []
    for part, words in zip(logits.split(rows), target.split(rows), strict=True):
        x = part.to(exact)
        # Read before x is overwritten.
        at_target, total = x.gather(1, words), x.sum(dim=1, keepdim=True)
        # Subtracted, so that exp cannot overflow.
        largest = x.amax(dim=1, keepdim=True)
        normaliser = x.sub_(largest).exp_().sum(dim=1, keepdim=True)
        x.div_(normaliser)
        normaliser = normaliser.log_().add_(largest)
        nlls.append(normaliser - at_target)
        totals.append(vocabulary * normaliser - total)
        if torch.compiler.is_compiling():  # a comparison is fused with the rest, a scatter is not
            x = x - spread - peak * words.eq(torch.arange(vocabulary, device=x.device))
        else:
            x.sub_(spread)
            x.scatter_add_(1, words, torch.full_like(normaliser, -peak))
        part.copy_(x)  # x itself, if the types are equal
    nll, total = torch.cat(nlls), torch.cat(totals)
    if count is not None:
        logits.mul_(count)
        nll, total = nll * count, total * count
    return nll.sum(), total.sum()
