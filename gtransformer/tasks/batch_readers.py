"""Models that read the other instances of their batch, or sentence numbers: what they are to be given."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from torch import nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, IN_ORDER, STRETCH, with_input
from gtransformer.data.batching import DOCUMENT
from gtransformer.data.instances import Grouping
from gtransformer.errors import UserError
from gtransformer.models.common.model import Needs, needs_of
from gtransformer.search.strategies import FULL
from gtransformer.tasks.config import TranslationDocConfig

READ = {FIRST_SENTENCE: "numbers", STRETCH: "batch", IN_ORDER: "order"}  # inputs, and the needs that they meet


def wants_document(model: nn.Module) -> bool:
    """Whether a model is to know where its instances stand, or what stands beside them."""
    needs = needs_of(model)
    return needs.batch or needs.numbers


def needs_of_system(name: str | None) -> Needs:
    """What models of a registered name want of a batch, with the options that they have by default."""
    system = MODEL_REGISTRY.get(name)
    return system.needs_of(MODEL_DATACLASS_REGISTRY[name]()) if hasattr(system, "needs_of") else Needs()


def as_read(sample: dict, *models: nn.Module) -> dict:
    """A batch with what any of the models reads of it; the others pass over that."""
    for name, need in READ.items():
        sample = with_input(sample, name, any(getattr(needs_of(model), need) for model in models))
    return sample


def check_batches(cfg: TranslationDocConfig, grouping: Grouping, model: nn.Module, training: bool = False) -> None:
    """Raise UserError for batches and instances that are not those of a model which reads its batch.

    And, in ``training``, for a loss that counts what is context: each sentence several times.
    """
    if not wants_document(model):
        return
    if str(cfg.batch_order) != DOCUMENT:
        raise UserError("the model reads consecutive sentences of a document as one batch; give --batch-order document")
    single = grouping.kind == "disjoint" and not grouping.context
    if grouping.is_unequal or not (single or grouping.repeats_targets):
        raise UserError(
            f"--instances {grouping.kind}: the model reads each sentence behind previous ones, as many on both sides; "
            "give --instances sliding --context-sentences K"
        )
    if cfg.eval_bleu and grouping.repeats_targets and needs_of(model).targets:
        raise UserError(
            "--eval-bleu: the decoder reads the other sentences of its batch while they are translated, each behind "
            "first translations, which training has none of; leave it out, and choose by the loss"
        )
    if training and not single and str(cfg.context_loss) == "on":
        raise UserError(
            "--context-loss on: each sentence would count again as context of the ones behind it, and the model learns "
            "the current sentence alone; give --context-loss off"
        )
    if str(cfg.strategy) != FULL:
        raise UserError(
            f"--strategy {cfg.strategy}: the model translates batches of consecutive sentences; leave it out"
        )


def check_decodable(models: Sequence[nn.Module], grouping: Grouping, ready: bool) -> None:
    """Raise UserError for a model that cannot translate because it reads what is not there yet.

    ``ready``: what stands before the sentences that are translated is there.
    """
    if any(needs_of(model).future for model in models):
        raise UserError(
            "the decoder reads the mean of the whole target, which is not there while it is being translated; give "
            "--score-reference to score given ones, or train with --batch-attention-in encoder"
        )
    if grouping.repeats_targets and not ready and any(needs_of(model).targets for model in models):
        raise UserError(
            "the decoder reads the other sentences of its batch while they are translated, each behind first "
            "translations of its context; give --first-pass CHECKPOINT of a sentence model, or its translations"
        )


def check_alone(model: nn.Module, work: str) -> None:
    """Raise UserError where a model that reads its batch is to work on instances that are no batch of a document."""
    if wants_document(model):
        raise UserError(
            f"{work}: the model reads consecutive sentences of a document as one batch; translate and score a prepared "
            "corpus with fairseq-generate instead"
        )
