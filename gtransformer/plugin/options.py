"""The task's options about documents, and the combinations that would silently train or translate
something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq import utils
from omegaconf import DictConfig
from torch import nn

from gtransformer.data.batching import DOCUMENT
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.search.strategies import AUTO, FULL, OFF, ON, STRATEGY_KINDS, Strategy

BATCH = 16  # sentences that are translated together without --batch-sentences (Wu et al. 2023, 3.5)


def option_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def check_languages(trained: Mapping[str, Any], cfg: TranslationDocConfig) -> None:
    """Raise UserError if a model's task, by its options, had another language pair."""
    for name in ("source_lang", "target_lang"):
        theirs, ours = trained.get(name), getattr(cfg, name)
        if None not in (theirs, ours) and theirs != ours:
            raise UserError(
                f"{option_of(name)} {ours}: the model was trained with {theirs}; give a model of "
                "this pair"
            )


class Options:
    """The options of a task, parsed once.

    Attributes:
        cfg: as they are given.
        scheme: of instances.
        strategy: of generation.
        ordered: whether batches follow the documents.
        further: data directories of ``--more-training-data``.
        sentences_together: how many consecutive sentences a batch has; None: as many as its tokens
            allow.
        whole_documents: whether the strategy needs whole documents, whatever the instances are.

    Raises UserError if they contradict each other.
    """

    def __init__(self, cfg: TranslationDocConfig):
        self.cfg, self.rule, strategy = cfg, str(cfg.sentence_rule), str(cfg.strategy)
        self.ordered = str(cfg.batch_order) == DOCUMENT
        self.by_window, self.has_strategy = STRATEGY_KINDS[strategy].by_window, strategy != FULL
        numbers = cfg.instance_tokens, cfg.context_sentences, cfg.target_context_sentences
        self.scheme = InstanceScheme(str(cfg.instances), *numbers)
        self.scheme.check()
        self._check_strategy(f"--strategy {strategy}")
        context = None, None
        if (
            self.by_window and self.scheme.with_context
        ):  # sequential decoding has the context of the instances
            context = self.scheme.context, self.scheme.before_target
        self.strategy = Strategy(strategy, cfg.window_tokens, *context)
        self.whole_documents = self.strategy.tokens is not None or self.strategy.context is not None
        self.further = list(filter(None, utils.split_paths(cfg.more_training_data or "")))
        together = cfg.batch_sentences or (None if cfg.first_pass is None else BATCH)
        self.sentences_together = together if self.ordered else None

    def _check_strategy(self, chosen: str) -> None:
        """Raise UserError for options of generation of which one would silently be ignored."""
        cfg, scheme = self.cfg, self.scheme
        if cfg.first_pass and (scheme.kind != "sliding" or self.has_strategy):
            raise UserError(
                "--first-pass needs --instances sliding --context-sentences K, and no --strategy"
            )
        windows = self.by_window and (
            STRATEGY_KINDS[str(cfg.strategy)].fills or cfg.window_tokens is not None
        )
        if (windows and scheme.kind != STORED) or (self.has_strategy and scheme.single_targets):
            raise UserError(
                f"{chosen} walks through whole documents, not through --instances {scheme.kind}; "
                "leave one of them out"
            )
        if self.rule == OFF and (self.has_strategy or cfg.first_pass):
            raise UserError(
                f"--sentence-rule off: {chosen} and --first-pass give as many sentences as the "
                "source has; leave one "
                "of the two out"
            )

    def check_training(self, model_cfg: Any, whole: DictConfig | None) -> None:
        """Raise UserError for options that would silently train something else.

        Args:
            model_cfg: of the model.
            whole: all options of the training; None for a model that is built without one.
        """
        if str(getattr(model_cfg, "autocast", "none")) == "float16":
            raise UserError(
                "--autocast float16 cannot train: nothing scales the loss, and small gradients "
                "would vanish; give "
                "--autocast bfloat16, or fairseq's --fp16"
            )
        if whole is None or whole.dataset.disable_validation:
            return
        metric, maximised = (
            whole.checkpoint.best_checkpoint_metric,
            whole.checkpoint.maximize_best_checkpoint_metric,
        )
        if (metric in ("s_bleu", "d_bleu", "bleu")) != maximised:
            change = "leave out" if maximised else "also give"
            raise UserError(
                f"--best-checkpoint-metric {metric}: the best model would be the worst; {change} "
                "--maximize-best-checkpoint-metric"
            )

    def check_saved(self, task: Mapping[str, Any]) -> None:
        """Raise UserError if a model cannot be used with these options after its training (options
        of its ``task``).
        """
        check_languages(task, self.cfg)
        if self.strategy.definition.context and InstanceScheme.stored_in(task).single_targets:
            raise UserError(
                f"--strategy {self.cfg.strategy}: the model was trained on single sentences of the "
                "target; leave it out"
            )

    def check_model(self, model: nn.Module, training: bool = False) -> None:
        """Raise UserError for instances or batches that a model does not support.

        In ``training`` also for a loss that counts context sentences of a model that reads its
        batch: a sentence would count several times.
        """
        needs, scheme = needs_of(model), self.scheme
        if needs.last_sentence_only and not scheme.single_targets:
            raise UserError(
                f"--instances {scheme.kind}: the model translates one sentence, with previous "
                "source sentences as "
                "context; give --instances current --context-sentences K, and no target context"
            )
        scopes = model.decoder.scopes("source") if hasattr(model.decoder, "scopes") else ()
        numbered = self.pairs_sentences(model) or (needs.numbers and not needs.batch)
        paired = numbered or any(scope.aligns for scope in scopes) or self.rule == ON
        if scheme.is_unequal and (paired or needs.batch) and not needs.last_sentence_only:
            raise UserError(
                f"--context-sentences {scheme.context} and --target-context-sentences "
                f"{scheme.before_target}: this "
                "model or --sentence-rule on needs as many sentences on both sides; give equal "
                "numbers"
            )
        if not needs.batch:
            return
        single = scheme.max_sentences == 1
        counts_twice = training and not single and str(self.cfg.context_loss) == ON
        if (
            not self.ordered
            or self.has_strategy
            or not (single or scheme.repeats_targets)
            or counts_twice
        ):
            raise UserError(
                "the model reads consecutive sentences of a document as one batch; give "
                "--batch-order document "
                "--instances sliding --context-sentences K --context-loss off, and no --strategy"
            )

    def has_group_attention(self, model: nn.Module) -> bool:
        """Return whether a model has ``--doc-mode partial``: by its own configuration, else by the
        task's.
        """
        return getattr(getattr(model, "cfg", None), "doc_mode", self.cfg.doc_mode) == "partial"

    def pairs_sentences(self, model: nn.Module) -> bool:
        """Return whether cross-attention of a model needs a source sentence of the same number."""
        if not hasattr(getattr(model, "decoder", None), "scopes"):
            return self.has_group_attention(model)
        return any(scope.pairs_sentences for scope in model.decoder.scopes("source"))

    def keeps_sentences(self, model: nn.Module) -> bool:
        """Return whether translations must have as many sentences as their source.

        ``--sentence-rule auto`` is on for group attention with equal numbers of sentences on both
        sides, for a model that has not learned to end sentences, and with ``--first-pass`` or a
        ``--strategy`` other than full.
        """
        if self.rule != AUTO:
            return self.rule == ON
        required = self.has_strategy or self.cfg.first_pass is not None
        ends_itself = str(getattr(getattr(model, "cfg", None), "marks_loss", ON)) == ON
        return (
            required
            or not ends_itself
            or (self.has_group_attention(model) and not self.scheme.is_unequal)
        )


def wants_document(model: nn.Module) -> bool:
    """Return whether a model needs the positions of its instances in the document, or the other
    instances there.
    """
    needs = needs_of(model)
    return needs.batch or needs.numbers
