"""The task's options about documents, and tables of the combinations that are refused.

A row of a table is a condition and a message. The condition reads the ``case`` that ``refuse`` receives; the message
is formatted with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fairseq import utils
from torch import nn

from gtransformer.data.batching import DOCUMENT, GLOBAL
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.search.strategies import AUTO, FULL, OFF, ON, STRATEGY_KINDS, Strategy
from gtransformer.tasks.accepted_options import check_numbers
from gtransformer.tasks.config import TranslationDocConfig

Rows = Sequence[tuple[Callable[[SimpleNamespace], Any], str]]

BATCH = 16  # sentences that are translated together without --batch-sentences (Wu et al. 2023, 3.5)

ALWAYS: Rows = (
    (
        lambda c: c.options.shuffled and not c.options.ordered,
        "--shuffled-context global: batches by size hold unrelated instances already; give "
        "--batch-order document, or leave it out",
    ),
    (
        lambda c: c.cfg.batch_sentences is not None and not c.options.ordered,
        "--batch-sentences {cfg.batch_sentences}: batches by size hold no consecutive sentences; give --batch-order "
        "document, or leave it out",
    ),
    (
        lambda c: c.cfg.first_pass and c.scheme.kind != "sliding",
        "--first-pass {cfg.first_pass}: only --instances sliding --context-sentences K have translations before each "
        "target sentence, not --instances {scheme.kind}; leave it out, or give these",
    ),
    (
        lambda c: c.cfg.first_pass and c.options.has_strategy,
        "--first-pass {cfg.first_pass} and --strategy {cfg.strategy} are two ways to have context; leave one of them "
        "out",
    ),
    (
        lambda c: (
            c.options.by_window
            and c.scheme.kind != STORED
            and (STRATEGY_KINDS[str(c.cfg.strategy)].fills or c.cfg.window_tokens is not None)
        ),
        "--strategy {cfg.strategy} --window-tokens walks through whole documents, not through --instances "
        "{scheme.kind}; leave one of them out",
    ),
    (
        lambda c: c.options.has_strategy and c.scheme.single_targets,
        "--strategy {cfg.strategy} translates after previous translations, but instances have no context on the "
        "target side (--context-sentences, --target-context-sentences); leave --strategy out",
    ),
)
# Checked for training only: generation has no loss and no masks, and may have other instances.
TRAINING: Rows = (
    (
        lambda c: not 0 <= c.cfg.doc_noise_mask <= 1,
        "--doc-noise-mask {cfg.doc_noise_mask:g}: give a probability, 0 to 1",
    ),
    (
        lambda c: c.cfg.context_loss == "off" and not c.scheme.with_context,
        "--context-loss off: no instance of --instances {scheme.kind} has context; leave it out, or give --instances "
        "sliding or current",
    ),
    (
        lambda c: c.cfg.max_pair_tokens is not None and c.scheme.kind == STORED,
        "--max-pair-tokens {cfg.max_pair_tokens}: instances are taken as they are stored; give --instances current "
        "--context-sentences K, or another kind that is made when data are loaded",
    ),
    (
        lambda c: c.weights is None,
        "--training-weights {cfg.training_weights}: give numbers greater than 0 with commas between them, as 1,0.5",
    ),
    (
        lambda c: len(c.weights) not in (0, c.corpora),
        "--training-weights {cfg.training_weights}: the data and --more-training-data are {corpora} corpora; give a "
        "number for each",
    ),
    (
        lambda c: c.options.ordered and any(weight % 1 for weight in c.weights),
        "--training-weights {cfg.training_weights}: documents would have gaps in --batch-order document; give whole "
        "numbers",
    ),
)
# Checked on the command line only: the options of a checkpoint are taken as they are.
WITHOUT_EFFECT: Rows = (
    (
        lambda c: not c.cfg.doc_double_lr and c.cfg.lr_scale_pretrained != TranslationDocConfig.lr_scale_pretrained,
        "--lr-scale-pretrained {cfg.lr_scale_pretrained:g}: all parameters learn at --lr; give --doc-double-lr, too, "
        "or leave it out",
    ),
    (
        lambda c: not c.cfg.doc_double_lr and c.cfg.weight_decay_randinit,
        "--weight-decay-randinit {cfg.weight_decay_randinit:g}: all parameters have --weight-decay; give "
        "--doc-double-lr, too, or leave it out",
    ),
    (
        lambda c: not c.cfg.doc_noise_mask and c.cfg.doc_noise_epochs not in (0, TranslationDocConfig.doc_noise_epochs),
        "--doc-noise-epochs {cfg.doc_noise_epochs}: no word is masked; give --doc-noise-mask, too, or leave it out "
        "(in a recipe: --set train.doc-noise-epochs=null)",
    ),
    (
        lambda c: c.cfg.doc_noise_mask and c.cfg.doc_noise_epochs < 2,
        "--doc-noise-epochs {cfg.doc_noise_epochs}: words are masked in epochs 1 to N - 1, so in none; give 2 or "
        "more, or leave --doc-noise-mask out",
    ),
)
GENERATION: Rows = (
    (
        lambda c: c.options.rule == OFF and (c.options.has_strategy or c.cfg.first_pass or c.cfg.doc_constraint),
        "--sentence-rule off: --strategy, --first-pass and --doc-constraint give as many sentences as the source has; "
        "leave one of the two out",
    ),
    (
        lambda c: c.score_reference and (c.options.has_strategy or c.cfg.first_pass),
        "--score-reference: --strategy and --first-pass are ways to translate; leave one of the two out",
    ),
)
_UNEQUAL = "--context-sentences {scheme.context} and --target-context-sentences {scheme.before_target}"
# Instances that a model does not support. The advice to use another mode is for untrained models only.
INSTANCES_OF_A_MODEL: Rows = (
    (
        lambda c: c.needs.last_sentence_only and not c.scheme.single_targets,
        "--instances {scheme.kind}: the model translates one sentence, with previous source sentences as context; "
        "give --instances current --context-sentences K, K previous sentences or 0, and no target context",
    ),
    (
        lambda c: c.unequal and c.pairs_sentences,
        f"{_UNEQUAL}: the model (--doc-mode partial) wants as many sentences on both sides; give equal numbers{{mode}}",
    ),
    (
        lambda c: c.unequal and c.needs.numbers and not c.needs.batch,
        f"{_UNEQUAL}: the model numbers the sentences of an instance, the same on both sides; give equal numbers",
    ),
    (
        lambda c: c.unequal and (c.cfg.doc_constraint or c.options.rule == ON),
        f"{_UNEQUAL}: --sentence-rule on (--doc-constraint) wants as many sentences on both sides; leave it out, or "
        "give equal numbers",
    ),
    (
        lambda c: c.unequal and c.aligns,
        f"{_UNEQUAL}: the model's windows align target and source from their beginnings on; give equal numbers",
    ),
)
# Batches that a model which reads its batch does not support.
BATCHES_OF_A_MODEL: Rows = (
    (
        lambda c: not c.options.ordered,
        "the model reads consecutive sentences of a document as one batch; give --batch-order document",
    ),
    (
        lambda c: c.scheme.is_unequal or not (c.single or c.scheme.repeats_targets),
        "--instances {scheme.kind}: the model reads each sentence behind previous ones, as many on both sides; give "
        "--instances sliding --context-sentences K",
    ),
    (
        lambda c: c.cfg.eval_bleu and c.scheme.repeats_targets and c.needs.targets,
        "--eval-bleu: the decoder reads the other sentences of its batch and needs first translations as context, "
        "which training does not have; leave it out, and choose by the loss",
    ),
    (
        lambda c: c.training and not c.single and str(c.cfg.context_loss) == "on",
        "--context-loss on: each sentence would count again as context of the ones behind it, and the model learns the "
        "current sentence alone; give --context-loss off",
    ),
    (
        lambda c: c.options.has_strategy,
        "--strategy {cfg.strategy}: the model translates batches of consecutive sentences; leave it out",
    ),
)
# Differences between a checkpoint's task and this one.
SAVED: Rows = (
    (
        lambda c: None not in (c.theirs, c.ours) and c.theirs != c.ours,
        "the model translates {theirs}, and this is to be {ours} (--source-lang, --target-lang); give a model of these "
        "languages, or the languages of the model",
    ),
    (
        lambda c: c.options.strategy.definition.context and c.saved.single_targets,
        "--strategy {cfg.strategy} translates after previous translations, but the model was trained on single "
        "sentences of the target, without context; leave --strategy out",
    ),
)


def refuse(rows: Rows, **case: Any) -> None:
    """Raise UserError with the message of the first row whose condition ``case`` meets."""
    namespace = SimpleNamespace(**case)
    for condition, message in rows:
        if condition(namespace):
            raise UserError(message.format(**case))


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
        check_numbers(cfg)
        self._refuse(ALWAYS)
        context = None, None
        if self.by_window and self.scheme.with_context:  # sequential decoding has the context of the instances
            context = self.scheme.context, self.scheme.before_target
        self.strategy = Strategy(str(cfg.strategy), cfg.window_tokens, *context)

    def _refuse(self, rows: Rows, **case: Any) -> None:
        refuse(rows, options=self, cfg=self.cfg, scheme=self.scheme, **case)

    @property
    def drawn_anew(self) -> bool:
        """Whether every epoch has other instances or other batches, so that the training set is loaded again."""
        parts = any(weight % 1 for weight in self.weights or [])
        return self.shuffled or parts

    @property
    def further(self) -> list[str]:
        """The data directories of ``--more-training-data``."""
        return list(filter(None, utils.split_paths(self.cfg.more_training_data or "")))

    @property
    def weights(self) -> list[float] | None:
        """The numbers of ``--training-weights``; empty if there are none, None if they are not valid."""
        text = self.cfg.training_weights
        try:
            found = [] if text is None else [float(one) for one in str(text).split(",")]
        except ValueError:
            return None
        return found if all(0 < weight < math.inf for weight in found) else None

    @property
    def sentences_together(self) -> int | None:
        """How many consecutive sentences a batch has; None: as many as its tokens allow."""
        together = self.cfg.batch_sentences or (None if self.cfg.first_pass is None else BATCH)
        return together if self.ordered else None

    @property
    def whole_documents(self) -> bool:
        """Whether the strategy needs whole documents, whatever the instances are."""
        return self.strategy.tokens is not None or self.strategy.context is not None

    def check_training(self) -> None:
        """Raise UserError for options that training does not support."""
        self._refuse(TRAINING, weights=self.weights, corpora=1 + len(self.further))

    def check_effects(self) -> None:
        """Raise UserError for an option of training that would have no effect."""
        self._refuse(WITHOUT_EFFECT)

    def check_generation(self, score_reference: bool = False) -> None:
        """Raise UserError for options that generation does not support. ``score_reference``: it scores references."""
        self._refuse(GENERATION, score_reference=score_reference)

    def check_instances(self, model: nn.Module, trained: bool) -> None:
        """Raise UserError for instances that a model does not support; ``trained``: it has been trained already."""
        needs = needs_of(model)
        unequal = self.scheme.is_unequal and not needs.last_sentence_only
        mode = "" if trained else ", or train with --doc-mode full"
        pairs = self.pairs_sentences(model)
        scopes = model.decoder.scopes("source") if hasattr(model.decoder, "scopes") else ()
        aligns = any(scope.aligns for scope in scopes)
        known = {"needs": needs, "unequal": unequal, "aligns": aligns, "pairs_sentences": pairs, "mode": mode}
        self._refuse(INSTANCES_OF_A_MODEL, **known)

    def check_batches(self, model: nn.Module, training: bool = False) -> None:
        """Raise UserError for batches and instances that a model which reads its batch does not support.

        In ``training`` also for a loss that counts context sentences, so that a sentence counts several times.
        """
        if needs_of(model).batch:
            single = self.scheme.max_sentences == 1
            self._refuse(BATCHES_OF_A_MODEL, needs=needs_of(model), single=single, training=training)

    def check_saved(self, task: Mapping[str, Any]) -> None:
        """Raise UserError if a model cannot be used with these options after its training (options of its ``task``)."""
        pairs = ((getattr(one, "source_lang", None), getattr(one, "target_lang", None)) for one in (task, self.cfg))
        theirs, ours = ("-".join(pair) if None not in pair else None for pair in pairs)
        self._refuse(SAVED, theirs=theirs, ours=ours, saved=InstanceScheme.stored_in(task))

    def has_group_attention(self, model_cfg: object) -> bool:
        """Return whether a model has ``--doc-mode partial``: by its own configuration, else by the task's."""
        return getattr(model_cfg, "doc_mode", self.cfg.doc_mode) == "partial"

    def pairs_sentences(self, model: nn.Module) -> bool:
        """Return whether cross-attention of a model needs a source sentence of the same number."""
        if not hasattr(getattr(model, "decoder", None), "scopes"):
            return self.has_group_attention(_cfg(model))
        return any(scope.pairs_sentences for scope in model.decoder.scopes("source"))

    def keeps_sentences(self, model: nn.Module, chosen: str) -> bool:
        """Return whether translations must have as many sentences as their source.

        Args:
            chosen: one of SENTENCE_RULES. ``auto`` is on for group attention with equal numbers of sentences on both
                sides, for a model that has not learned to end sentences, and with ``--doc-constraint``,
                ``--first-pass`` or a ``--strategy`` other than full.
        """
        if chosen != AUTO:
            return chosen == ON
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
