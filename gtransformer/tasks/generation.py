"""Generators of documents: made of the task's symbols and the sentence rule; options that they cannot have."""

from __future__ import annotations

import functools
import json
import logging
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.scoring import BaseScorer, register_scorer
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, IN_ORDER, STRETCH, with_input
from gtransformer.data.batching import DOCUMENT
from gtransformer.data.instances import Grouping
from gtransformer.data.sentences import Place
from gtransformer.errors import UserError, signals_interrupt
from gtransformer.files import atomic_write
from gtransformer.installation import as_typed
from gtransformer.models.common.model import Needs, needs_of
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.rules import AUTO, OFF, ON, SentenceRule, check_sentence_rule
from gtransformer.search.strategies import FULL, SEQUENTIAL
from gtransformer.tasks.accepted_options import GENERATE, check_given, option_of
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.finetuning import whole_config
from gtransformer.tasks.first_pass import check_first_pass
from gtransformer.tasks.options import grouping_of

logger = logging.getLogger(__name__)


def check_generation(args: Namespace, cfg: TranslationDocConfig) -> None:
    """Raise UserError for options of generation (``args``) and of the task that documents cannot have."""
    defaults = {field.name: field.default for field in fields(GenerationConfig)}
    given = {name: getattr(args, name, default) for name, default in defaults.items()}
    check_given({name: value for name, value in given.items() if value != defaults[name]}, GENERATE)
    check_search(Namespace(**given))
    check_sentence_rule(str(cfg.sentence_rule), str(cfg.strategy))
    check_first_pass(cfg, grouping_of(cfg))
    if cfg.first_pass is not None and getattr(args, "score_reference", False):
        raise UserError(f"--first-pass {cfg.first_pass} is a way to translate; with --score-reference leave it out")
    if cfg.first_pass is not None and str(cfg.sentence_rule) == OFF:
        raise UserError("--sentence-rule off: --first-pass translates sentence by sentence of the source; leave it out")
    if cfg.doc_constraint and str(cfg.sentence_rule) == OFF:
        raise UserError("--doc-constraint and --sentence-rule off contradict each other; leave one of them out")
    if str(cfg.strategy) != FULL and getattr(args, "score_reference", False):
        raise UserError(f"--strategy {cfg.strategy} is a way to translate; with --score-reference leave it out")
    if cfg.documents_at_once < 0:
        raise UserError(f"--documents-at-once {cfg.documents_at_once}: give 0 (all of a batch) or more")


def check_search(args: Namespace) -> None:
    """Raise UserError for options of fairseq's searches that do not go together, as its assertions have it."""
    diverse = {"diverse-beam-groups": args.diverse_beam_groups > 0, "diversity-rate": args.diversity_rate > -1}
    chosen = [f"--{name}" for name, given in {"sampling": args.sampling, **diverse}.items() if given]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} are different searches; give one of them")
    for name in ("sampling_topk", "sampling_topp"):
        if getattr(args, name) > 0 and not args.sampling:
            raise UserError(f"{option_of(name)} {getattr(args, name)}: is for --sampling; give that, too")
    if args.diverse_beam_groups > 0 and args.beam % args.diverse_beam_groups:
        raise UserError(
            f"--diverse-beam-groups {args.diverse_beam_groups} does not divide --beam {args.beam}; give a divisor of it"
        )
    for name in ("beam", "nbest"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name} {getattr(args, name)}: give at least 1")
    if args.nbest > args.beam:
        raise UserError(f"--nbest {args.nbest}: a beam of {args.beam} has no more; give a larger --beam")
    for name in ("no_repeat_ngram_size", "min_len", "max_len_a", "max_len_b", "prefix_size"):
        if getattr(args, name) < 0:
            raise UserError(f"{option_of(name)} {getattr(args, name)}: give 0 or more")
    if args.temperature <= 0:
        raise UserError(f"--temperature {args.temperature}: give a number greater than 0")


def has_group_attention(cfg: TranslationDocConfig, model: object) -> bool:
    """Whether a model is of ``--doc-mode partial``, by its own configuration, whatever the task's says.

    Of a model that knows nothing of documents the task decides.
    """
    return getattr(model, "doc_mode", cfg.doc_mode) == "partial"


def pairs_sentences(cfg: TranslationDocConfig, module: nn.Module) -> bool:
    """Whether cross-attention of a model goes to the source sentence of the same number, and so needs one.

    Windows have a check, and a reason, of their own.
    """
    decoder = getattr(module, "decoder", None)
    if not hasattr(decoder, "scopes"):
        return has_group_attention(cfg, getattr(module, "cfg", None))
    return any(scope.pairs_sentences for scope in decoder.scopes("source"))


def translates_last_only(model: nn.Module) -> bool:
    """Whether a model translates the last sentence of its source alone, behind context that it only reads."""
    return needs_of(model).last_sentence_only


def check_sides(cfg: TranslationDocConfig, module: nn.Module, trained: bool) -> None:
    """Raise UserError for instances whose sides are not what a model wants.

    Args:
        trained: whether the model has been trained, so that another mode is no advice.
    """
    grouping = grouping_of(cfg)
    if translates_last_only(module):
        check_current(grouping)
        return
    if not grouping.is_unequal:
        return
    given = f"--context-sentences {grouping.context} and --target-context-sentences {grouping.target_context or 0}"
    if pairs_sentences(cfg, module):
        advice = "give equal numbers" if trained else "give equal numbers, or train with --doc-mode full"
        raise UserError(f"{given}: the model (--doc-mode partial) wants as many sentences on both sides; {advice}")
    for option, wanted in (("doc-constraint", cfg.doc_constraint), ("sentence-rule on", str(cfg.sentence_rule) == ON)):
        if wanted:
            raise UserError(
                f"{given}: --{option} wants as many sentences on both sides; leave it out, or give equal numbers"
            )


def check_context(cfg: TranslationDocConfig, model: object) -> None:
    """Raise UserError for sequential decoding of a model that was trained on single sentences of the target.

    Args:
        model: its configuration, as part of its checkpoint's.
    """
    whole = whole_config(model)
    if str(cfg.strategy) != SEQUENTIAL or whole is None:
        return
    if Grouping.stored_in(whole.task).single_targets:
        raise UserError(
            "--strategy sequential translates behind previous translations, but the model was trained on single "
            "sentences of the target, without context; leave --strategy out"
        )


def check_direction(cfg: TranslationDocConfig, model: object) -> None:
    """Raise UserError for a model that translates between other languages; ``model``: as of ``check_context``."""
    whole = whole_config(model)
    saved = None if whole is None else whole.get("task")
    pairs = [[getattr(one, f"{side}_lang", None) for side in ("source", "target")] for one in (saved, cfg)]
    if all(None not in pair for pair in pairs) and pairs[0] != pairs[1]:
        raise UserError(
            f"the model translates {'-'.join(pairs[0])}, and this is to be {'-'.join(pairs[1])} (--source-lang, "
            "--target-lang); give a model of these languages, or the languages of the model"
        )


def keeps_sentences(cfg: TranslationDocConfig, model: object, chosen: str) -> bool:
    """Whether translations have as many sentences as their source.

    Args:
        model: its configuration.
        chosen: of SENTENCE_RULES; auto: unless the model is ``--doc-mode full`` or the sides of an instance have
            different numbers of sentences, it was trained to end its sentences itself, and neither
            ``--doc-constraint`` nor ``--first-pass`` nor a ``--strategy`` other than full is given.
    """
    if chosen != AUTO:
        return chosen == ON
    walked = str(cfg.strategy) != FULL or cfg.first_pass is not None
    ends_itself = str(getattr(model, "marks_loss", ON)) == ON
    equal = has_group_attention(cfg, model) and not grouping_of(cfg).is_unequal
    return equal or cfg.doc_constraint or walked or not ends_itself


def check_current(grouping: Grouping) -> None:
    """Raise UserError for instances of more than one target sentence."""
    sentences = (grouping.target_context if grouping.kind == "current" else grouping.context) or 0
    if grouping.kind not in ("current", "disjoint") or sentences:
        raise UserError(
            f"--instances {grouping.kind}: the model translates one sentence, with previous ones of the source beside "
            "it; give --instances current --context-sentences K, K previous sentences or 0, and no target context"
        )


def check_alignment(cfg: TranslationDocConfig, model: nn.Module) -> None:
    """Raise UserError for instances of unequal sides with a model whose windows align one side with the other."""
    grouping = grouping_of(cfg)
    scopes = model.decoder.scopes("source") if hasattr(model.decoder, "scopes") else ()
    if grouping.is_unequal and any(scope.aligns for scope in scopes):
        given = f"--context-sentences {grouping.context} and --target-context-sentences {grouping.target_context or 0}"
        raise UserError(
            f"{given}: the model's windows align target and source from their beginnings on; give equal numbers"
        )


def check_marks(models: Sequence[nn.Module], sentence_rule: str, args: Namespace) -> None:
    """Raise UserError where a model would have to predict the marks of sentences that it has not learned to predict."""
    if not any(getattr(model, "leaves_marks_out", False) for model in models):
        return
    said = "the model has not learned to predict <s>, which stands between sentences (--marks-loss off)"
    if sentence_rule == OFF:
        raise UserError(f"--sentence-rule off: {said}; leave it out")
    if getattr(args, "score_reference", False):
        raise UserError(f"--score-reference: {said}; leave it out, or score sentences with scripts/contrastive.sh")


def generator_maker(
    task: FairseqTask, models: Sequence[nn.Module], args: Namespace
) -> Callable[..., DocumentGenerator]:
    """What fairseq's ``build_generator`` is to call with models, dictionary, search strategy and options.

    An ensemble is held to the sentence rule if one of its members needs it, in whatever order they are named.

    Args:
        task: a task translation_doc.
        args: options of generation; a ``sentence_rule`` among them goes before the task's.

    Raises UserError for instances that the model cannot have.
    """
    source, target = task.source_dictionary, task.target_dictionary
    marks = [source.bos(), source.eos(), source.pad(), *task.language_symbols(source)]
    last_only = translates_last_only(models[0])
    if any(translates_last_only(one) != last_only for one in models):
        raise UserError("models that translate one sentence and models that translate documents make no ensemble")
    if last_only and str(task.cfg.strategy) != FULL:
        raise UserError(
            f"--strategy {task.cfg.strategy}: the model translates sentence by sentence, behind no translation; leave "
            "it out"
        )
    if task.datasets or not last_only:  # what is typed or handed in stands as the model wants it
        for one in models:
            check_sides(task.cfg, one, trained=True)
    rule = None
    chosen = str(getattr(args, "sentence_rule", task.cfg.sentence_rule))
    check_marks(models, chosen, args)
    if last_only and chosen == OFF:
        raise UserError("--sentence-rule off: the model translates one sentence at a time; leave it out")
    if last_only or any(keeps_sentences(task.cfg, getattr(one, "cfg", None), chosen) for one in models):
        forbidden = [target.bos(), target.pad(), target.index("<mask>"), *task.language_symbols()]
        min_len = getattr(args, "min_len", 1)
        rule = SentenceRule(target.bos(), target.eos(), task.language, torch.tensor(forbidden), min_len)
    return functools.partial(
        DocumentGenerator,
        symbols=torch.tensor(marks),
        rule=rule,
        documents_at_once=task.cfg.documents_at_once,
        nbest=getattr(args, "nbest", 1),
        eos=task.language,
    )


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


def split_sentences(tokens: list[int], dictionary: Dictionary, skip: set[int]) -> list[str]:
    """The sentences of a generated document, without ``<s>``, ``</s>`` and the symbols in ``skip``.

    A sentence ends at ``</s>``; words behind the last one are a sentence too, if there are any.
    """
    sentences: list[str] = []
    words: list[str] = []
    for token in tokens:
        if token == dictionary.eos():
            sentences.append(" ".join(words))
            words = []
        elif token != dictionary.bos() and token not in skip:
            words.append(dictionary[token])
    if words:
        sentences.append(" ".join(words))
    return sentences


class TranslationWriter:
    """Collects hypotheses in whatever order decoding finishes, and writes PREFIX.jsonl once all are there.

    Args:
        prefix: of the file.
        instances: how many instances the generated split has; the file appears when each has come.
        places: where each instance stands in its corpus; None numbers instances as documents.
    """

    def __init__(self, prefix: str, instances: int, places: Sequence[Place] | None):
        self.path = Path(f"{prefix}.jsonl")
        self.instances, self.places = instances, places
        self.lines: dict[int, dict] = {}
        self.path.unlink(missing_ok=True)  # an old result must not be taken for that of an interrupted run

    def add(self, number: int, hypotheses: list[dict], sentences: int) -> None:
        """Take hypotheses ({"score", "sentences"}, best first) of instance ``number``."""
        place = Place(number, 0, sentences) if self.places is None else self.places[number]
        self.lines[number] = {
            "id": number,
            "document": place.document,
            "first_sentence": place.first_sentence,
            "sentences": place.sentences,
            **({} if place.current is None else {"current": list(place.current)}),
            "hypotheses": hypotheses,
        }
        if len(self.lines) == self.instances:
            self.write()

    def write(self) -> None:
        """Write all lines in order, atomically; fairseq's commands have no handlers that would clear up."""
        with signals_interrupt(), atomic_write(self.path) as stream:
            for number in sorted(self.lines):
                stream.write(json.dumps(self.lines[number], ensure_ascii=False) + "\n")
        logger.info("wrote %d instances to %s", len(self.lines), self.path)


def hypothesis(hypo: dict[str, Tensor], dictionary: Dictionary, skip: set[int]) -> dict:
    """fairseq's hypothesis as it stands in the file."""
    return {
        "score": round(float(hypo["score"]), 6),
        "sentences": split_sentences(hypo["tokens"].tolist(), dictionary, skip),
    }


NONE = "none"


@dataclass
class NoScoreConfig(FairseqDataclass):
    """It has no options."""


@register_scorer(NONE, dataclass=NoScoreConfig)
class NoScore(BaseScorer):
    """Counts nothing."""

    def add_string(self, ref: str, pred: str) -> None:
        """Forget both."""

    def score(self) -> float:
        """No number."""
        return float("nan")

    def result_string(self) -> str:
        """Who scores."""
        return f"not scored here; {as_typed('scripts/score.sh')} does"
