"""CXMI: how much context raises the log probability of a reference (Fernandes et al. 2021).

    CXMI = log q(y | x, C) - log q(y | x),    q one model, C up to N previous sentences

It is the mean over tokens, in nats; ``</s>`` is a token. Every sentence is last, after its context,
which is the reference on the target side. A model without context has exactly 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.accuracy import standard_error
from gtransformer.evaluation.contrastive import capacity_of
from gtransformer.evaluation.references import find_instance_index, read_side
from gtransformer.evaluation.sentence_scores import (
    Progress,
    Request,
    TokenLists,
    sentence_encoder,
    size,
)
from gtransformer.plugin.load_model import load_scorer

ALL = "all"  # as much context as the model takes


def measure(
    prepared: Path,
    checkpoint: Path,
    split: str,
    contexts: Sequence[int],
    cpu: bool,
    progress: Progress,
) -> dict[str, dict[str, float | None]]:
    """Return by number of previous sentences ``cxmi`` with its standard error over documents, and
    ``log_probability`` of a token.

    Args:
        contexts: numbers of previous sentences, besides none and all that the model takes.
    """
    scorer, task = load_scorer(prepared, checkpoint, 4096, cpu)
    index, capacity = (
        InstanceIndex.load(find_instance_index(prepared, split)),
        capacity_of(task.options.scheme, prepared),
    )
    documents: list[list[TokenLists]] = []
    for lang, dictionary in (
        (index.source_lang, scorer.source),
        (index.target_lang, scorer.target),
    ):
        encode = sentence_encoder(prepared, lang, dictionary)
        documents.append([encode(sentences) for sentences in read_side(prepared, index, lang)])
    found, groups = {}, []
    # Without context first: all others are compared with it.
    for most in (0, *sorted(contexts), ALL):
        requests, groups = [], []
        for number, (source, target) in enumerate(zip(*documents, strict=True)):
            for end in range(1, len(source) + 1):
                begin = 0 if most == ALL else max(0, end - 1 - most)
                sides = source[begin:end], target[begin:end]
                # The model may take fewer sentences than asked for, and another number on each
                # side. Of the target only the last sentence is scored.
                read, written = capacity.before(*([size([one]) for one in side] for side in sides))
                requests.append(Request(sides[0][-read:], sides[1][-written:], (written - 1,)))
                groups.append(number)
        found[str(most)] = [one[0] for one in scorer.score_tokens(requests, progress)]
    return {name: _summary(found["0"], scores, groups) for name, scores in found.items()}


def _summary(
    alone: list[list[float]], scores: list[list[float]], groups: list[int]
) -> dict[str, float | None]:
    """Return the numbers of one context; the arguments are by sentence."""
    gains, documents = [], []
    for before, after, group in zip(alone, scores, groups, strict=True):
        gains += [one - other for one, other in zip(after, before, strict=True)]
        documents += [group] * len(after)
    error = standard_error(gains, documents)
    return {
        "cxmi": statistics.fmean(gains),
        "standard_error": None if error is None else error / 100,  # it is in per cent
        "log_probability": statistics.fmean(value for one in scores for value in one),
    }
