"""Generators for documents, checks of their options, and the file of translations."""

from __future__ import annotations

import functools
import json
import logging
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.scoring import BaseScorer, register_scorer
from fairseq.tasks import FairseqTask
from torch import nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, with_input
from gtransformer.data.dictionaries import UNUSED
from gtransformer.data.instances import InstanceScheme
from gtransformer.data.sentences import SentenceSpan
from gtransformer.errors import UserError, signals_interrupt
from gtransformer.files import atomic_write
from gtransformer.models.common.model import Needs, needs_of
from gtransformer.search.generator import DocumentGenerator
from gtransformer.search.rules import SentenceRule
from gtransformer.search.strategies import OFF, PARALLEL
from gtransformer.tasks.accepted_options import GENERATE, check_given, check_numbers
from gtransformer.tasks.options import Options, Rows, refuse

logger = logging.getLogger(__name__)

NO_WORD = re.compile(rf"{UNUSED.format('[0-9]+')}|>>[^<>]+<<")  # the latter: a target language of Marian's models

# Combinations of search options that fairseq's assertions refuse.
SEARCH: Rows = (
    (
        lambda c: bool(c.sampling) + (c.diverse_beam_groups > 0) + (c.diversity_rate > -1) > 1,
        "--sampling, --diverse-beam-groups and --diversity-rate are different searches; give one of them",
    ),
    (lambda c: c.sampling_topk > 0 and not c.sampling, "--sampling-topk is for --sampling; give that, too"),
    (lambda c: c.sampling_topp > 0 and not c.sampling, "--sampling-topp is for --sampling; give that, too"),
    (
        lambda c: c.diverse_beam_groups > 0 and c.beam % c.diverse_beam_groups,
        "--diverse-beam-groups {diverse_beam_groups} does not divide --beam {beam}; give a divisor of it",
    ),
    (lambda c: c.nbest > c.beam, "--nbest {nbest}: a beam of {beam} has no more; give a larger --beam"),
    (lambda c: c.temperature <= 0, "--temperature {temperature}: give a number greater than 0"),
)
_NO_BOUNDARIES = "the model has not learned to predict the <s> between sentences (--marks-loss off)"
MODELS: Rows = (
    (
        lambda c: c.rule == OFF and c.unpredicted_left_out,
        f"--sentence-rule off: {_NO_BOUNDARIES}; leave it out",
    ),
    (
        lambda c: c.score_reference and c.unpredicted_left_out,
        f"--score-reference: {_NO_BOUNDARIES}; leave it out, or score sentences with gtransformer contrastive",
    ),
    (
        lambda c: len(c.translates_last_sentence_only) > 1,
        "models that translate one sentence and models that translate documents cannot form an ensemble",
    ),
    (
        lambda c: c.translates_last_sentence_only == {True} and c.has_strategy,
        "--strategy: the model translates sentence by sentence, without target context; leave it out",
    ),
    (
        lambda c: c.translates_last_sentence_only == {True} and c.rule == OFF,
        "--sentence-rule off: the model translates one sentence at a time; leave it out",
    ),
)
NEEDS_LATER_TARGETS: Rows = (
    (
        lambda c: any(needs.future for needs in c.needs),
        "the decoder reads the mean of the whole target, which is not available during translation; give "
        "--score-reference to score references, or train with --batch-attention-in encoder",
    ),
    (
        lambda c: c.repeats and not c.ready and any(needs.targets for needs in c.needs),
        "the decoder reads the other sentences of its batch, and each needs first translations as its context; give "
        "--first-pass CHECKPOINT of a sentence model, or its translations",
    ),
)


def check_generation(args: Namespace, options: Options) -> None:
    """Raise UserError for options of generation (``args``) and of the task that documents do not support."""
    defaults = {field.name: field.default for field in fields(GenerationConfig)}
    given = {name: getattr(args, name, default) for name, default in defaults.items()}
    check_given({name: value for name, value in given.items() if value != defaults[name]}, GENERATE)
    check_numbers(Namespace(**given))
    refuse(SEARCH, **given)
    options.check_generation(getattr(args, "score_reference", False))


def check_decodable(models: Sequence[nn.Module], scheme: InstanceScheme, ready: bool) -> None:
    """Raise UserError for a model that reads target text which is not available during translation.

    ``ready``: the context of the translated sentences is available.
    """
    refuse(NEEDS_LATER_TARGETS, needs=list(map(needs_of, models)), repeats=scheme.repeats_targets, ready=ready)


def check_alone(model: nn.Module, work: str) -> None:
    """Raise UserError for a model that reads its batch, if instances are not batches of a document."""
    if needs_of(model).batch:
        raise UserError(
            f"{work}: the model reads consecutive sentences of a document as one batch; translate and score a prepared "
            "corpus with fairseq-generate instead"
        )


def translates_last_sentence_only(model: nn.Module) -> bool:
    """Return whether a model translates only the last sentence of its source; the others are context."""
    return needs_of(model).last_sentence_only


def generator_maker(
    task: FairseqTask, models: Sequence[nn.Module], args: Namespace
) -> Callable[..., DocumentGenerator]:
    """Return the function with which fairseq's ``build_generator`` makes the generator.

    An ensemble obeys the sentence rule if one of its members needs it, in any order.

    Args:
        task: a task translation_doc.
        args: options of generation; a ``sentence_rule`` among them overrides the task's, ``parallel`` its strategy;
            ``random_words`` are our own sampling (``search.beam.Sampling``), not fairseq's; ``never`` are indices that
            are not written.

    Raises UserError for instances that a model does not support.
    """
    source, target, options = task.source_dictionary, task.target_dictionary, task.options
    chosen = str(getattr(args, "sentence_rule", options.rule))
    refuse(
        MODELS,
        rule=chosen,
        has_strategy=options.has_strategy,
        score_reference=getattr(args, "score_reference", False),
        translates_last_sentence_only=set(map(translates_last_sentence_only, models)),
        unpredicted_left_out=any(getattr(model, "leaves_unpredicted_out", False) for model in models),
    )
    last_alone = translates_last_sentence_only(models[0])
    if task.datasets or not last_alone:  # without datasets, the caller gives instances in the form that is needed
        for one in models:
            options.check_instances(one, trained=True)
    rule, prefix, min_len = None, prefix_of(models[0], target), getattr(args, "min_len", 1)
    if last_alone or any(options.keeps_sentences(one, chosen) for one in models):
        forbidden = [target.bos(), target.pad(), target.index("<mask>"), *task.language_symbols()]
        forbidden += never_text(target, prefix, (task.cfg.source_lang, task.cfg.target_lang))
        forbidden += getattr(args, "never", ())
        rule = SentenceRule(target.bos(), target.eos(), task.language, torch.tensor(forbidden), min_len, prefix)
    elif min_len > 1:
        raise UserError(
            f"--min-len {min_len}: counts the words of a sentence; give --sentence-rule on, or leave it out"
        )
    return functools.partial(
        DocumentGenerator,
        symbols=torch.tensor([source.bos(), source.eos(), source.pad(), *task.language_symbols(source)]),
        rule=rule,
        nbest=getattr(args, "nbest", 1),
        sampling=getattr(args, "random_words", None),
        parallel=getattr(args, "parallel", options.strategy.kind == PARALLEL),
        eos=task.language,
        symbols_to_strip_from_output=set() if prefix is None else {prefix},
    )


def never_text(dictionary: Dictionary, prefix: int | None, pair: tuple[str, str]) -> list[int]:
    """Return the indices of entries that are not text in a converted model: unused rows, and language tokens."""
    found = [index for index, word in enumerate(dictionary.symbols) if NO_WORD.fullmatch(word)]
    if prefix is not None:
        found += [prefix, dictionary.index(dictionary[prefix].replace(pair[1], pair[0]))]
    return [index for index in found if index != dictionary.unk()]


def prefix_of(model: nn.Module, dictionary: Dictionary) -> int | None:
    """Return the index of the word that a model's target sentences begin with; None if there is none.

    Raises UserError if the dictionary lacks it.
    """
    word = getattr(getattr(model, "cfg", None), "target_prefix", None)
    index = None if word is None else dictionary.index(word)
    if index == dictionary.unk():
        raise UserError(f"--target-prefix {word}: the target dictionary lacks it; prepare the data with the model's")
    return index


def needs_of_saved(options: Mapping[str, Any]) -> Needs:
    """Return what a model with the saved options (and, as ``_name``, its system) needs from a batch."""
    name = options.get("_name")
    system = MODEL_REGISTRY.get(name)
    if not hasattr(system, "needs_of"):
        return Needs()
    return system.needs_of(Namespace(**{**vars(MODEL_DATACLASS_REGISTRY[name]()), **options}))


def as_read(sample: dict, *models: nn.Module) -> dict:
    """Return a batch with the numbers of its sentences as an input if any of the models reads them."""
    return with_input(sample, FIRST_SENTENCE, any(needs_of(model).numbers for model in models))


def split_sentences(tokens: list[int], dictionary: Dictionary, skip: set[int]) -> list[str]:
    """Return the sentences of a generated document, without ``<s>``, ``</s>`` and the symbols in ``skip``.

    A sentence ends at ``</s>``; words after the last one form a sentence, too.
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
    """A collector of hypotheses, in any order, that writes PREFIX.jsonl when all have arrived.

    Args:
        prefix: of the file.
        instances: number of instances of the split.
        spans: location of each instance in its corpus; None: each instance is a document.
    """

    def __init__(self, prefix: str, instances: int, spans: Sequence[SentenceSpan] | None):
        self.path = Path(f"{prefix}.jsonl")
        self.instances, self.spans = instances, spans
        self.lines: dict[int, dict] = {}
        self.path.unlink(missing_ok=True)  # else an interrupted run would leave the old result

    def add(self, number: int, hypotheses: list[dict], sentences: int) -> None:
        """Add hypotheses ({"score", "sentences"}, best first) of instance ``number``."""
        span = SentenceSpan(number, 0, sentences) if self.spans is None else self.spans[number]
        self.lines[number] = {
            "id": number,
            "document": span.document,
            "first_sentence": span.first_sentence,
            "sentences": span.sentences,
            **({} if span.current is None else {"current": list(span.current)}),
            "hypotheses": hypotheses,
        }
        if len(self.lines) == self.instances:
            self.write()

    def write(self) -> None:
        """Write all lines in order, atomically, also if interrupted by a signal, which fairseq does not handle."""
        with signals_interrupt(), atomic_write(self.path) as stream:
            for number in sorted(self.lines):
                stream.write(json.dumps(self.lines[number], ensure_ascii=False) + "\n")
        logger.info("wrote %d instances to %s", len(self.lines), self.path)


NONE = "none"


@dataclass
class NoScoreConfig(FairseqDataclass):
    """Options of ``NoScore``: none."""


@register_scorer(NONE, dataclass=NoScoreConfig)
class NoScore(BaseScorer):
    """A scorer that computes nothing."""

    def add_string(self, ref: str, pred: str) -> None:
        """Ignore both."""

    def score(self) -> float:
        """Return nan."""
        return float("nan")

    def result_string(self) -> str:
        """Return a hint at the command that scores."""
        return "not scored here; gtransformer score does"
