"""Attention entropy while training (``--doc-attn-entropy``): measured on validation batches, summed over workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq.logging import metrics
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.common.entropy import EntropyMeter
from gtransformer.models.common.watching import can_be_watched

QUERIES = re.compile(r"_entropy_(\w+)_queries")  # of a part and a reach


@contextmanager
def measured(model: nn.Module) -> Iterator[dict[str, float]]:
    """While the model validates a batch, measure its attention; the logs are in the dictionary at the end.

    ``model`` may be wrapped for distributed training. Raises UserError if nothing in it can be watched.
    """
    inner = next(filter(can_be_watched, model.modules()), None)
    if inner is None:
        raise UserError(f"--doc-attn-entropy is for the architectures gtransformer_*, not for {type(model).__name__}")
    meter, logs = EntropyMeter(), {}
    with meter.on(inner):
        yield logs
    for (part, reach), tally in meter.by_kind().items():
        logs |= {
            f"_entropy_{part}_{reach}": float(tally.bits.sum()),
            f"_entropy_{part}_{reach}_flat": tally.flat,
            f"_entropy_{part}_{reach}_queries": tally.queries,
        }


def log_entropy(logging_outputs: list[dict]) -> None:
    """Log ``entropy_PART_REACH``, mean bits over queries and layers; ``..._flat``, what flat attention would have."""
    kinds = {match[1] for log in logging_outputs for match in map(QUERIES.fullmatch, log) if match}
    for kind in sorted(kinds):
        key = f"_entropy_{kind}"
        queries = sum(float(log.get(f"{key}_queries", 0)) for log in logging_outputs)
        if queries == 0:
            continue
        for end in ("", "_flat"):
            total = sum(float(log.get(f"{key}{end}", 0)) for log in logging_outputs)
            metrics.log_scalar(f"entropy_{kind}{end}", total / queries, queries, round=4)
