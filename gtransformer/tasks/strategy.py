"""How the task's options say that documents are walked through in generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gtransformer.data.instances import STORED, WITH_CONTEXT, Grouping, Instances
from gtransformer.data.sentences import RunDataset, Sentences
from gtransformer.errors import UserError
from gtransformer.search.strategies import FULL, SEQUENTIAL, SLIDING, Strategy
from gtransformer.tasks.config import TranslationDocConfig

MakeInstances = Callable[[Sentences], Instances]


def strategy_of(cfg: TranslationDocConfig, grouping: Grouping) -> Strategy:
    """What the options say; of sequential decoding, the context is that of ``--instances`` where it has any.

    Raises UserError for options that contradict each other, and for instances without context on the target side.
    """
    kind, tokens = str(cfg.strategy), cfg.window_tokens
    if kind == FULL:
        return Strategy(kind, tokens)
    if grouping.kind != STORED and (kind == SLIDING or tokens is not None):
        raise UserError(
            f"--strategy {kind} --window-tokens walks through whole documents, not through --instances "
            f"{grouping.kind}; leave one of them out"
        )
    if kind == SLIDING:
        return Strategy(kind, tokens)
    if grouping.kind == "current" and not grouping.target_context:
        raise UserError(
            "--strategy sequential translates behind previous translations, but these instances have no target context "
            "(--target-context-sentences 0); leave --strategy out: each sentence is translated by itself already"
        )
    if grouping.kind == "disjoint" and not grouping.context:
        raise UserError(
            "--strategy sequential translates behind previous sentences, but --context-sentences 0 leaves none; leave "
            "--strategy out"
        )
    if grouping.kind not in WITH_CONTEXT:
        return Strategy(kind, tokens)
    target_context = grouping.context if grouping.kind == "sliding" else grouping.target_context
    return Strategy(SEQUENTIAL, None, grouping.context, target_context)


def walked_documents(strategy: Strategy) -> MakeInstances | None:
    """What makes whole documents of the sentences of a split, if the strategy wants them; None: instances as they are.

    It raises UserError for a sentence that no window holds.
    """
    if strategy.tokens is None and strategy.context is None:
        return None
    return partial(_documents, strategy)


def _documents(strategy: Strategy, view: Sentences) -> Instances:
    lengths = view.source.lengths.tolist()
    for length, document, position in zip(lengths, view.document.tolist(), view.position.tolist(), strict=True):
        strategy.check_sentence(length, document + 1, position + 1)
    runs = np.array(view.runs(), dtype=np.int64).reshape(-1, 2)
    return Instances(runs, runs, runs)


def window_costs(strategy: Strategy, sources: Sequence[RunDataset]) -> np.ndarray:
    """(documents,) int64, the tokens of a batch that each document takes: those of its longest window."""
    costs = [
        strategy.cost(source.sentences.lengths[first:last].tolist())
        for source in sources
        for first, last in source.ranges.tolist()
    ]
    return np.array(costs, dtype=np.int64)
