"""The model and search of a model directory: n-best translations of tokenised instances."""

from __future__ import annotations

import math
import threading
from collections.abc import Container, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.data.translations import align_sentences, split_sentences
from gtransformer.errors import UserError
from gtransformer.models.common.model import prefix_of
from gtransformer.models.saved import load
from gtransformer.modules.kernels import quantise
from gtransformer.modules.processor import has_int8
from gtransformer.search.beam import Scoring
from gtransformer.search.generator import LIMITS, DocumentGenerator, in_batches
from gtransformer.search.positions import longest_sentence, longest_source
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import AUTO, FULL, ON, PARALLEL, PRECISIONS
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.options import SearchOptions


def check_precision(precision: str, device: torch.device) -> None:
    """Raise UserError if a model cannot be used in this precision on this device."""
    if precision not in PRECISIONS:
        raise UserError(f"precision {precision!r} is unknown; give one of {', '.join(PRECISIONS)}")
    if precision == "float16" and device.type != "cuda":
        raise UserError("--precision float16 is for GPUs, and this run has none; leave it out")
    if precision == "int8" and (device.type != "cpu" or not has_int8()):
        raise UserError("--precision int8 is for CPUs with AVX2; leave it out")


def model_options(precision: str) -> dict[str, str]:
    """Return the model's options for a precision; none for "auto", which keeps the precision of
    training.

    bfloat16 is ``--autocast``: matrix products, on a GPU attention too, while states, norms and log
    probabilities stay in float32. For float16 the whole model is converted, for int8 its linear
    layers are (``kernels.quantise``), so that autocast is off.
    """
    if precision == "auto":
        return {}
    return {"autocast": "bfloat16" if precision == "bfloat16" else "none"}


Instance = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Hypothesis:
    """A translation of an instance.

    Attributes:
        sentences: BPE text, as many as the source has; without the sentence rule missing ones are
            empty, surplus ones joined to the last (``data/translations.py``).
        scores: log probability (natural logarithm) of each: the sum over its tokens and its
            ``</s>``.
        score: the score of the search: the log probability of all, divided by length ** lenpen.
        at_limit: whether search had to end each, as it may not be longer (``max_len_a``,
            ``max_len_b``, or the model's positions); False without the sentence rule, where only
            all together have a limit.
    """

    sentences: list[str]
    scores: list[float]
    score: float
    at_limit: list[bool]


class Engine:
    """A loaded model that translates batches of instances.

    Args:
        directory: of the model.
        device: None: a GPU if there is one.
        precision: one of ``PRECISIONS``; "auto" is the precision of training on this kind of
            device.

    Attributes:
        longest: maximum tokens of an instance, with ``<s>`` and ``</s>``.
        longest_sentence: maximum tokens of a sentence.
        never: indices of the target that search never writes under the sentence rule; set before
            the first translation.
    """

    def __init__(
        self, directory: ModelDirectory, device: str | torch.device | None, precision: str
    ):
        self.directory = directory
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        check_precision(precision, self.device)
        self.sides = directory.sides
        self.source, self.target = self.sides.source, self.sides.target
        self.model = load(directory.path, self.source, self.target, **model_options(precision))
        self.sides.prefix = prefix_of(self.model, self.target)
        if precision == "float16":
            self.model.half()
        if precision == "int8" and not quantise(self.model):
            name = type(self.model).__name__
            raise UserError(f"--precision int8: {name} is no model of this package; leave it out")
        self.model.to(self.device)
        # From now on weights do not change, so each layer prepares them for decoding once.
        self.model.decoder.hold_weights()
        self._searching = threading.Lock()  # on a GPU all searches use the same memory
        self.longest = longest_source(self.model)
        self.longest_sentence = longest_sentence(self.model)
        prefix = directory.source_prefix
        self.prefix = [] if prefix is None else [self.source.index(prefix)]
        # Augmentation sets it: its models must not write their own signs.
        self.never: list[int] = []
        self._generators: dict[SearchOptions, object] = {}

    @property
    def boundary_tokens(self) -> int:
        """Tokens of a source sentence besides its words."""
        return BOUNDARY_TOKENS + len(self.prefix)

    def instance_tokens(self, instance: Instance) -> Tensor:
        """Return ``<s> a b </s> <s> c </s>`` as (length,) int64."""
        begin, eos = [self.source.bos(), *self.prefix], self.source.eos()
        sentences = [self.sides.indices(words, self.source) for words in instance]
        return torch.tensor([index for indices in sentences for index in (*begin, *indices, eos)])

    @torch.no_grad()
    def translate(
        self,
        instances: Sequence[Instance],
        options: SearchOptions,
        first_sentences: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the n best translations of every instance, best first; instances may have any
        order.

        With another ``options.strategy`` than full, an instance is a document. ``first_sentences``:
        the number of each instance's first sentence in its document, from 1; None: not known.

        Raises UserError for an instance that the model does not translate.
        """
        if not instances:
            return []
        tokens = [self.instance_tokens(instance) for instance in instances]
        # Batches come by length, so each result is put in its instance's place.
        results: list[list[Hypothesis] | None] = [None] * len(tokens)
        strategy, boundary = options.decoding_strategy(), self.boundary_tokens
        costs = [
            strategy.cost([len(sentence) + boundary for sentence in instance])
            for instance in instances
        ]
        with self._searching:
            generator = self._generator(options)
            batches = in_batches(generator, tokens, costs, options.max_tokens, first_sentences)
            for number, hypos in batches:
                results[number] = [
                    self._hypothesis(hypo, len(instances[number]))
                    for hypo in hypos[: options.nbest]
                ]
        return results

    def _generator(self, options: SearchOptions):
        generator = self._generators.get(options)
        if generator is None:
            strategy, rule = options.decoding_strategy(), options.sentence_rule
            # Each line needs a translation; --doc-mode full alone would not guarantee that.
            if rule == AUTO:
                trained = self.directory.sentence_rule
                rule = ON if strategy.kind != FULL or trained == AUTO else trained
            scoring = Scoring(
                options.beam,
                self.target.unk(),
                options.lenpen,
                options.unkpen,
                sampling=options.sampling_topk,
                seed=1 if options.seed is None else options.seed,
            )
            generator = DocumentGenerator(
                [self.model],
                self.sides,
                scoring,
                keeps_sentences=rule == ON,
                min_len=options.min_len,
                never=self.never,
                max_len_a=options.max_len_a,
                max_len_b=options.max_len_b,
                nbest=options.nbest,
                parallel=strategy.kind == PARALLEL,
            )
            if strategy.definition.by_window:
                generator = SequentialGenerator(generator, strategy)
            # Only the last one: its options rarely change from call to call.
            self._generators = {options: generator}
        return generator

    def _hypothesis(self, hypo: dict, count: int) -> Hypothesis:
        tokens = hypo["tokens"].tolist()
        # Symbols such as [de] are no words; a hypothesis may end in one.
        skip = self.sides.no_text
        scores = sentence_scores(
            tokens, hypo["positional_scores"].tolist(), self.target.eos(), skip
        )
        scores = [
            # As ``align_sentences`` does with the text: surplus sentences belong to the last one.
            *scores[: count - 1],
            sum(scores[count - 1 :]),
            *[0.0] * (count - 1 - len(scores)),
        ]
        sentences = align_sentences(split_sentences(tokens, self.target, skip), count)
        limits = hypo.get(LIMITS, [math.inf] * count)
        at_limit = [len(one.split()) >= most for one, most in zip(sentences, limits, strict=True)]
        return Hypothesis(sentences, scores, float(hypo["score"]), at_limit)


def sentence_scores(
    tokens: Sequence[int], scores: Sequence[float], eos: int, skip: Container[int]
) -> list[float]:
    """Return the sums of token scores by sentence, up to ``</s>``; what follows the last one counts
    if it has words.

    ``skip``: tokens that are no words.
    """
    sums, total, words = [], 0.0, False
    for token, score in zip(tokens, scores, strict=True):
        total += score
        words = words or token not in skip
        if token == eos:
            sums.append(total)
            total, words = 0.0, False
    return [*sums, total] if words else sums
