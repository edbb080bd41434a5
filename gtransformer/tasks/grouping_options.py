"""What the task's options say about instances, and which of them contradict each other."""

from __future__ import annotations

from gtransformer.data.batching import ADDED, DOCUMENT, EVERYTHING, GLOBAL, NOTHING
from gtransformer.data.instances import DRAWN, STORED, WITH_CONTEXT, Grouping
from gtransformer.errors import UserError
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
