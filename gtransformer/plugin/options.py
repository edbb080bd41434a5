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
from gtransformer.search.strategies import (
    AUTO,
    FULL,
    OFF,
    ON,
    STRATEGY_KINDS,
    Strategy,
    check_sentence_rule,
)


def option_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def check_languages(trained: Mapping[str, Any], cfg: TranslationDocConfig) -> None:
    """Raise UserError if a model's task, by its options, had another language pair."""
    for name in ("source_lang", "target_lang"):
        trained_lang, lang = trained.get(name), getattr(cfg, name)
        if None not in (trained_lang, lang) and trained_lang != lang:
            raise UserError(
                f"{option_of(name)} {lang}: the model was trained with {trained_lang}; give a "
                "model of this pair"
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
        self.cfg, self.rule, kind = cfg, str(cfg.sentence_rule), str(cfg.strategy)
        self.ordered = str(cfg.batch_order) == DOCUMENT
        self.by_window, self.has_strategy = STRATEGY_KINDS[kind].by_window, kind != FULL
        numbers = cfg.instance_tokens, cfg.context_sentences, cfg.target_context_sentences
        self.scheme = InstanceScheme(str(cfg.instances), *numbers)
        self.scheme.check()
        # A window is an instance of the scheme where this has context, else W source tokens.
        context = None, None
        if self.by_window and self.scheme.with_context:
            context = self.scheme.context, self.scheme.before_target
        self.strategy = Strategy(kind, cfg.window_tokens, *context)
        self.whole_documents = self.strategy.tokens is not None or context[0] is not None
        self.further = list(filter(None, utils.split_paths(cfg.more_training_data or "")))
        self.sentences_together = cfg.batch_sentences if self.ordered else None
        # Of these options of generation one would silently be ignored.
        check_sentence_rule(self.rule, kind)
        ignored = self.has_strategy or self.rule == OFF
        if cfg.first_pass and (self.scheme.kind != "sliding" or ignored):
            raise UserError(
                "--first-pass needs --instances sliding --context-sentences K, and neither "
                "--strategy nor --sentence-rule off"
            )
        windows_of_instances = self.strategy.tokens is not None and self.scheme.kind != STORED
        if windows_of_instances or (self.has_strategy and self.scheme.single_targets):
            raise UserError(
                f"--strategy {kind} walks through whole documents, not through --instances "
                f"{self.scheme.kind}; leave one of them out"
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
                "would vanish; give --autocast bfloat16, or fairseq's --fp16"
            )
        if whole is None or whole.dataset.disable_validation:
            return
        metric = whole.checkpoint.best_checkpoint_metric
        maximised = whole.checkpoint.maximize_best_checkpoint_metric
        if (metric in ("bleu", "accuracy")) != maximised:
            change = "leave out" if maximised else "also give"
            raise UserError(
                f"--best-checkpoint-metric {metric}: the best model would be the worst; {change} "
                "--maximize-best-checkpoint-metric"
            )

    def check_model(self, model: nn.Module, training: bool = False) -> None:
        """Raise UserError for instances or batches that a model does not support.

        In ``training`` also for a loss that counts context sentences of a model that reads its
        batch: a sentence would count several times.
        """
        needs, scheme = needs_of(model), self.scheme
        if needs.last_sentence_only:
            if not scheme.single_targets:
                raise UserError(
                    f"--instances {scheme.kind}: the model translates one sentence, with previous "
                    "source sentences as context; give --instances current --context-sentences K"
                )
            return
        # A layer declares whom it sees; models of fairseq declare nothing.
        scopes = model.decoder.scopes("source") if hasattr(model.decoder, "scopes") else ()
        aligned = any(scope.pairs_sentences for scope in scopes)
        if scheme.is_unequal and (aligned or needs.numbers or needs.batch or self.rule == ON):
            raise UserError(
                f"--context-sentences {scheme.context} and --target-context-sentences "
                f"{scheme.before_target}: this model or --sentence-rule on needs as many sentences "
                "on both sides; give equal numbers"
            )
        if needs.batch:
            single = scheme.max_sentences == 1
            fitting = self.ordered and not self.has_strategy and (single or scheme.repeats_targets)
            if training and not single:  # else a sentence would count several times
                fitting = fitting and str(self.cfg.context_loss) != ON
            if not fitting:
                raise UserError(
                    "the model reads consecutive sentences of a document as one batch; give "
                    "--batch-order document --instances sliding --context-sentences K "
                    "--context-loss off, and no --strategy"
                )

    def keeps_sentences(self, model: nn.Module) -> bool:
        """Return whether translations must have as many sentences as their source.

        ``--sentence-rule auto`` is on for group attention with equal numbers of sentences on both
        sides, for a model that has not learned to end sentences, and with ``--first-pass`` or a
        ``--strategy`` other than full.
        """
        if self.has_strategy or self.cfg.first_pass is not None:
            return True
        if self.rule != AUTO:
            return self.rule == ON
        cfg = getattr(model, "cfg", None)
        if str(getattr(cfg, "marks_loss", ON)) != ON:
            return True  # it would never end a sentence of its own accord
        doc_mode = getattr(cfg, "doc_mode", self.cfg.doc_mode)
        return doc_mode == "partial" and not self.scheme.is_unequal


def wants_document(model: nn.Module) -> bool:
    """Return whether a model needs the positions of its instances in the document, or the other
    instances there.
    """
    needs = needs_of(model)
    return needs.batch or needs.numbers
