"""What the task's options say about instances and ways through documents, and which of them contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from omegaconf import DictConfig

from gtransformer.data.batching import ADDED, DOCUMENT, EVERYTHING, GLOBAL, NOTHING
from gtransformer.data.instances import DRAWN, STORED, WITH_CONTEXT, Grouping, Instances
from gtransformer.data.sentences import RunDataset, Sentences
from gtransformer.errors import UserError
from gtransformer.search.strategies import FULL, SEQUENTIAL, SLIDING, Strategy
from gtransformer.tasks.config import TranslationDocConfig


def grouping_of(cfg: TranslationDocConfig) -> Grouping:
    """What the options say about instances. Raises UserError where they contradict each other."""
    grouping = Grouping(str(cfg.instances), cfg.instance_tokens, cfg.context_sentences, cfg.target_context_sentences)
    grouping.check()
    check_shuffle(cfg, grouping)
    check_lengths(cfg, grouping)
    check_joined(cfg)
    return grouping


def drawn_anew(cfg: TranslationDocConfig) -> bool:
    """Whether training has other instances, or other ones together, in every epoch, and so loads its set for each."""
    return str(cfg.instance_lengths) == DRAWN or str(cfg.shuffled_context) != NOTHING


def check_shuffle(cfg: TranslationDocConfig, grouping: Grouping) -> None:
    """Raise UserError for a ``--shuffled-context`` that the other options leave no meaning to."""
    chosen = str(cfg.shuffled_context)
    if chosen in (GLOBAL, ADDED) and str(cfg.batch_order) != DOCUMENT:
        raise UserError(
            f"--shuffled-context {chosen}: batches by size hold unrelated instances already; give --batch-order "
            "document, or leave it out"
        )
    if chosen == EVERYTHING and grouping.kind == STORED:
        raise UserError(
            "--shuffled-context everything: stored instances cannot exchange sentences; give --instances sliding or "
            "another kind, or leave it out"
        )
    if chosen != NOTHING and cfg.gen_output:
        raise UserError(
            f"--shuffled-context {chosen} is for training; leave it out of generation: with --gen-output sentences "
            "would be put back in wrong places"
        )


def check_lengths(cfg: TranslationDocConfig, grouping: Grouping) -> None:
    """Raise UserError for ``--instance-lengths drawn`` where there is no length to draw."""
    several = grouping.kind == "greedy" or grouping.kind == "disjoint" and grouping.context
    if str(cfg.instance_lengths) == DRAWN and not several:
        raise UserError(
            f"--instance-lengths drawn: the lengths of --instances {grouping.kind} are no choice; give --instances "
            "greedy --instance-tokens N, or disjoint --context-sentences K with K of 1 or more"
        )


def check_joined(cfg: TranslationDocConfig) -> None:
    """Raise UserError for ``--join-documents`` where batches are of no document, or are to be one each."""
    if not cfg.join_documents:
        return
    if str(cfg.batch_order) != DOCUMENT:
        raise UserError(
            "--join-documents: batches by size hold several documents already; give --batch-order document, or leave "
            "it out"
        )
    if cfg.gen_output or cfg.first_pass is not None or cfg.batch_sentences is not None:
        raise UserError(
            "--join-documents is for training; leave it out of generation, where the sentences that are translated "
            "together are of one document"
        )


def check_training(cfg: TranslationDocConfig) -> None:
    """Raise UserError for what is to be done with context in training where no instance has any.

    Translating has no loss and masks nothing, and may have other instances than training.
    """
    grouping = grouping_of(cfg)
    check_coword(cfg, grouping)
    kind = grouping.kind
    if cfg.context_loss == "off" and kind not in WITH_CONTEXT:
        raise UserError(
            f"--context-loss off: no instance of --instances {kind} has context; leave it out, or give "
            f"--instances {' or '.join(WITH_CONTEXT)}"
        )


def check_coword(cfg: TranslationDocConfig, grouping: Grouping) -> None:
    """Raise UserError for a ``--coword-dropout`` that is no probability, or where there is no context."""
    if not 0 <= cfg.coword_dropout <= 1:
        raise UserError(f"--coword-dropout {cfg.coword_dropout:g}: give a probability, 0 to 1")
    if cfg.coword_dropout > 0 and grouping.kind in ("disjoint", *WITH_CONTEXT) and not grouping.context:
        raise UserError(
            f"--coword-dropout {cfg.coword_dropout:g}: no instance of --instances {grouping.kind} "
            "--context-sentences 0 has a context to find the words in; leave it out, or use --doc-noise-mask"
        )


def check_order_options(whole: DictConfig | None) -> None:
    """Raise UserError for another seed of batches that are made once: it matters only to a run that is resumed."""
    if whole is not None and whole.dataset.update_ordered_indices_seed and not whole.dataset.update_epoch_batch_itr:
        raise UserError(
            "--update-ordered-indices-seed changes nothing by itself but the batches of a resumed run; give "
            "--update-epoch-batch-itr, too, or leave it out"
        )


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
