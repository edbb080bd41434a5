"""The task's options about documents, and the combinations that would silently train or translate something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq import utils
from omegaconf import DictConfig
from torch import nn

from gtransformer.data.batching import DOCUMENT, GLOBAL
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.search.strategies import AUTO, FULL, OFF, ON, STRATEGY_KINDS, Strategy
from gtransformer.tasks.config import TranslationDocConfig

LOWER_IS_BETTER, HIGHER_IS_BETTER = ("loss", "nll_loss", "ppl"), ("s_bleu", "d_bleu", "bleu", "accuracy")
BATCH = 16  # sentences that are translated together without --batch-sentences (Wu et al. 2023, 3.5)


def option_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def check_languages(trained: Mapping[str, Any], cfg: TranslationDocConfig) -> None:
    """Raise UserError if a model's task, by its options, had another language pair."""
    for name in ("source_lang", "target_lang"):
        theirs, ours = trained.get(name), getattr(cfg, name)
        if None not in (theirs, ours) and theirs != ours:
            raise UserError(f"{option_of(name)} {ours}: the model was trained with {theirs}; give a model of this pair")


class Options:
    """The options of a task, parsed once: ``scheme`` of its instances, ``strategy`` of its generation.

    Raises UserError if they contradict each other.
    """

    def __init__(self, cfg: TranslationDocConfig):
        self.cfg = cfg
        self.ordered = str(cfg.batch_order) == DOCUMENT
        self.shuffled, self.rule = str(cfg.shuffled_context) == GLOBAL, str(cfg.sentence_rule)
        self.by_window, self.has_strategy = STRATEGY_KINDS[str(cfg.strategy)].by_window, str(cfg.strategy) != FULL
        numbers = cfg.instance_tokens, cfg.context_sentences, cfg.target_context_sentences
        self.scheme = InstanceScheme(str(cfg.instances), *numbers)
        self.scheme.check()
        self._check()
        context = None, None
        if self.by_window and self.scheme.with_context:  # sequential decoding has the context of the instances
            context = self.scheme.context, self.scheme.before_target
        self.strategy = Strategy(str(cfg.strategy), cfg.window_tokens, *context)

    def _check(self) -> None:
        """Raise UserError for options of which one would silently be ignored."""
        cfg, scheme = self.cfg, self.scheme
        chosen = f"--strategy {cfg.strategy}"
        if cfg.first_pass and (scheme.kind != "sliding" or self.has_strategy):
            raise UserError("--first-pass needs --instances sliding --context-sentences K, and no --strategy")
        windows = self.by_window and (STRATEGY_KINDS[str(cfg.strategy)].fills or cfg.window_tokens is not None)
        if windows and scheme.kind != STORED:
            raise UserError(
                f"{chosen} --window-tokens walks through whole documents, not through --instances {scheme.kind}; leave "
                "one of them out"
            )
        if self.has_strategy and scheme.single_targets:
            raise UserError(f"{chosen}: --instances {scheme.kind} have no context on the target side; leave one out")
        if self.rule == OFF and (self.has_strategy or cfg.first_pass or cfg.doc_constraint):
            raise UserError(
                "--sentence-rule off: --strategy, --first-pass and --doc-constraint give as many sentences as the "
                "source has; leave one of the two out"
            )

    @property
    def drawn_anew(self) -> bool:
        """Whether every epoch has other instances or other batches, so that the training set is loaded again."""
        return self.shuffled or any(weight % 1 for weight in self.weights)

    @property
    def further(self) -> list[str]:
        """The data directories of ``--more-training-data``."""
        return list(filter(None, utils.split_paths(self.cfg.more_training_data or "")))

    @property
    def weights(self) -> list[float]:
        """The numbers of ``--training-weights``; empty if there are none."""
        return [float(one) for one in (self.cfg.training_weights or "").split(",") if one]

    @property
    def sentences_together(self) -> int | None:
        """How many consecutive sentences a batch has; None: as many as its tokens allow."""
        together = self.cfg.batch_sentences or (None if self.cfg.first_pass is None else BATCH)
        return together if self.ordered else None

    @property
    def whole_documents(self) -> bool:
        """Whether the strategy needs whole documents, whatever the instances are."""
        return self.strategy.tokens is not None or self.strategy.context is not None

    def check_training(self, model_cfg: Any, whole: DictConfig | None) -> None:
        """Raise UserError for options that would silently train something else.

        Args:
            model_cfg: of the model.
            whole: all options of the training; None for a model that is built without one.
        """
        if str(getattr(model_cfg, "autocast", "none")) == "float16":
            raise UserError(
                "--autocast float16 cannot train: nothing scales the loss, and small gradients would vanish; give "
                "--autocast bfloat16, or fairseq's --fp16"
            )
        if str(self.cfg.context_loss) == "off" and not self.scheme.with_context:
            raise UserError("--context-loss off is for --instances sliding and current, which have context")
        if self.cfg.max_pair_tokens is not None and self.scheme.kind == STORED:
            raise UserError("--max-pair-tokens is for instances that are built when data are loaded; give --instances")
        if self.ordered and any(weight % 1 for weight in self.weights):
            raise UserError(
                f"--training-weights {self.cfg.training_weights}: documents would have gaps in --batch-order document; "
                "give whole numbers"
            )
        if whole is None or whole.dataset.disable_validation:
            return
        if whole.dataset.train_subset in whole.dataset.valid_subset.split(","):
            raise UserError(
                f"--valid-subset {whole.dataset.valid_subset}: validation would use up the training's batches; prepare "
                "the same text as another split"
            )
        metric, maximized = whole.checkpoint.best_checkpoint_metric, whole.checkpoint.maximize_best_checkpoint_metric
        if metric in (*LOWER_IS_BETTER, *HIGHER_IS_BETTER) and maximized != (metric in HIGHER_IS_BETTER):
            raise UserError(
                f"--best-checkpoint-metric {metric}: the best model would be the worst; "
                f"{'leave out' if maximized else 'also give'} --maximize-best-checkpoint-metric"
            )

    def check_instances(self, model: nn.Module) -> None:
        """Raise UserError for instances that a model does not support."""
        needs, scheme = needs_of(model), self.scheme
        if needs.last_sentence_only:
            if not scheme.single_targets:
                raise UserError(
                    f"--instances {scheme.kind}: the model translates one sentence, with previous source sentences as "
                    "context; give --instances current --context-sentences K, and no target context"
                )
            return
        scopes = model.decoder.scopes("source") if hasattr(model.decoder, "scopes") else ()
        numbered = self.pairs_sentences(model) or (needs.numbers and not needs.batch)
        paired = numbered or any(scope.aligns for scope in scopes) or self.cfg.doc_constraint or self.rule == ON
        if scheme.is_unequal and paired:
            raise UserError(
                f"--context-sentences {scheme.context} and --target-context-sentences {scheme.before_target}: this "
                "model or --sentence-rule on needs as many sentences on both sides; give equal numbers"
            )

    def check_batches(self, model: nn.Module, training: bool = False) -> None:
        """Raise UserError for batches and instances that a model which reads its batch does not support.

        In ``training`` also for a loss that counts context sentences, so that a sentence counts several times.
        """
        if not needs_of(model).batch:
            return
        single = self.scheme.max_sentences == 1
        if not self.ordered or self.has_strategy:
            raise UserError(
                "the model reads consecutive sentences of a document as one batch; give --batch-order document, and no "
                "--strategy"
            )
        if self.scheme.is_unequal or not (single or self.scheme.repeats_targets):
            raise UserError(
                f"--instances {self.scheme.kind}: the model reads each sentence behind previous ones, as many on both "
                "sides; give --instances sliding --context-sentences K"
            )
        if training and not single and str(self.cfg.context_loss) == "on":
            raise UserError(
                "--context-loss on: each sentence would count again as context of the ones behind it; give "
                "--context-loss off"
            )

    def check_saved(self, task: Mapping[str, Any]) -> None:
        """Raise UserError if a model cannot be used with these options after its training (options of its ``task``)."""
        check_languages(task, self.cfg)
        if self.strategy.definition.context and InstanceScheme.stored_in(task).single_targets:
            raise UserError(
                f"--strategy {self.cfg.strategy}: the model was trained on single sentences of the target; leave it out"
            )

    def has_group_attention(self, model_cfg: object) -> bool:
        """Return whether a model has ``--doc-mode partial``: by its own configuration, else by the task's."""
        return getattr(model_cfg, "doc_mode", self.cfg.doc_mode) == "partial"

    def pairs_sentences(self, model: nn.Module) -> bool:
        """Return whether cross-attention of a model needs a source sentence of the same number."""
        if not hasattr(getattr(model, "decoder", None), "scopes"):
            return self.has_group_attention(_cfg(model))
        return any(scope.pairs_sentences for scope in model.decoder.scopes("source"))

    def keeps_sentences(self, model: nn.Module) -> bool:
        """Return whether translations must have as many sentences as their source.

        ``--sentence-rule auto`` is on for group attention with equal numbers of sentences on both
                sides, for a model that has not learned to end sentences, and with ``--doc-constraint``,
                ``--first-pass`` or a ``--strategy`` other than full.
        """
        if self.rule != AUTO:
            return self.rule == ON
        wanted = self.cfg.doc_constraint or self.has_strategy or self.cfg.first_pass is not None
        ends_itself = str(getattr(_cfg(model), "marks_loss", ON)) == ON
        equal = self.has_group_attention(_cfg(model)) and not self.scheme.is_unequal
        return equal or wanted or not ends_itself


def wants_document(model: nn.Module) -> bool:
    """Return whether a model needs the positions of its instances in the document, or the other instances there."""
    needs = needs_of(model)
    return needs.batch or needs.numbers


def _cfg(model: nn.Module) -> object:
    return getattr(model, "cfg", None)
