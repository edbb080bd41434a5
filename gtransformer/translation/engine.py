"""A model directory's model, its task and its search: instances of tokens in, n-best translations out."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fairseq import utils
from torch import Tensor

from gtransformer.data.batching import NOTHING, SIZE, fill_batches
from gtransformer.data.instances import MARKS, STORED
from gtransformer.data.sentence_alignment import align_sentences
from gtransformer.errors import UserError
from gtransformer.search.positions import longest_source
from gtransformer.search.rules import AUTO, ON
from gtransformer.search.stepwise import decodes_stepwise
from gtransformer.search.strategies import FULL
from gtransformer.search.walk import WalkingGenerator
from gtransformer.tasks.generation import translates_last_only
from gtransformer.tasks.generation_output import split_sentences
from gtransformer.tasks.precision import check_precision, model_options
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.model_directory import CHECKPOINT, ModelDirectory
from gtransformer.translation.options import SearchOptions

Instance = Sequence[Sequence[str]]

# Instances come as they are to be translated, whatever those were that the model was trained on.
AS_GIVEN = {
    "instances": STORED,
    "instance_tokens": None,
    "context_sentences": None,
    "target_context_sentences": None,
    "context_loss": "on",
    "batch_order": SIZE,
    "shuffled_context": NOTHING,
    "strategy": FULL,
    "window_tokens": None,
}


@dataclass(frozen=True)
class Hypothesis:
    """A translation of an instance.

    Attributes:
        sentences: BPE text, as many as the source has; without the rule of sentences (``data/sentence_alignment.py``)
            missing ones are empty, surplus ones joined to the last.
        scores: log probability (natural logarithm) of each: the sum over its tokens and its ``</s>``.
        score: what search ranked by: the log probability of all, divided by length ** lenpen.
    """

    sentences: list[str]
    scores: list[float]
    score: float


class Engine:
    """Loads the model once and translates batches of instances with it.

    Args:
        directory: where the model is.
        device: by default a GPU if there is one.
        precision: one of ``PRECISIONS``; "auto" is what the model was trained to multiply in on this kind of device.

    ``longest``: most tokens that an instance may have, ``<s>`` and ``</s>`` counted.
    """

    def __init__(self, directory: ModelDirectory, device: str | torch.device | None = None, precision: str = "auto"):
        self.directory = directory
        self.device = choose_device(device)
        precision = check_precision(precision, self.device)
        self.model, self.task = load_trained(
            directory.file(CHECKPOINT),
            data=str(directory.path),
            source_lang=directory.source_lang,
            target_lang=directory.target_lang,
            langs=",".join(directory.langs),
            eval_bleu=False,
            gen_output=None,
            prepend_bos=False,
            doc_constraint=False,  # said by the sentence rule
            **AS_GIVEN,
            **model_options(precision),
        )
        if precision == "float16":
            self.model.half()
        self.model.to(self.device)
        if decodes_stepwise(self.model):
            self.model.decoder.hold_weights()
        self.longest = longest_source(self.model)
        self.source, self.target = self.task.source_dictionary, self.task.target_dictionary
        self.reserved = {
            self.source.bos(), self.source.pad(), self.source.eos(), self.source.index("<mask>"),
            *self.task.language_symbols(self.source),
        }  # fmt: skip
        self._generators: dict[SearchOptions, object] = {}

    def indices(self, sentence: Sequence[str]) -> list[int]:
        """BPE tokens of the source as indices; text can never be a symbol of the model's own."""
        found = [self.source.index(token) for token in sentence]
        return [self.source.unk() if index in self.reserved else index for index in found]

    def instance_tokens(self, instance: Instance) -> Tensor:
        """``<s> a b </s> <s> c </s>`` as (length,) int64."""
        bos, eos = self.source.bos(), self.source.eos()
        return torch.tensor([index for sentence in instance for index in (bos, *self.indices(sentence), eos)])

    @torch.no_grad()
    def translate(self, instances: Sequence[Instance], options: SearchOptions) -> list[list[Hypothesis]]:
        """The n best translations of every instance, best first; instances may stand in any order of length.

        With another ``options.strategy`` than full, an instance is a document, which is walked through.

        Raises UserError for an instance that the model gives no translation to.
        """
        if not instances:
            return []
        tokens = [self.instance_tokens(instance) for instance in instances]
        lengths = torch.tensor([len(one) for one in tokens])
        dataset = self.task.build_dataset_for_inference(tokens, lengths.tolist())
        # Longest first: what needs most memory comes at once, and documents of a batch end at about the same time.
        order = sorted(range(len(tokens)), key=lambda number: (-len(tokens[number]), number))
        results: list[list[Hypothesis] | None] = [None] * len(tokens)
        walk = options.walk()
        costs = [walk.cost([len(sentence) + MARKS for sentence in instance]) for instance in instances]
        for batch in fill_batches(order, torch.tensor(costs)[order], options.max_tokens, None):
            sample = dataset.collater([dataset[int(number)] for number in batch])
            if self.device.type == "cuda":
                sample = utils.move_to_cuda(sample, self.device)
            found = self.task.inference_step(self._generator(options), [self.model], sample)
            for number, hypos in zip(sample["id"].tolist(), found, strict=True):
                sentences = 1 if translates_last_only(self.model) else len(instances[number])
                results[number] = [self._hypothesis(hypo, sentences) for hypo in hypos[: options.nbest]]
        for instance, hypotheses in zip(instances, results, strict=True):
            if not hypotheses or not math.isfinite(hypotheses[0].score):
                begin = " ".join(instance[0])[:60]
                raise UserError(
                    f"{self.directory.path}: the model gives no translation to the text that begins with '{begin}'; "
                    "its parameters may be damaged, export the model again"
                )
        return results

    def _generator(self, options: SearchOptions):
        if options not in self._generators:
            names = ("beam", "nbest", "lenpen", "max_len_a", "max_len_b", "min_len", "unkpen")
            wanted = Namespace(**{name: getattr(options, name) for name in names})
            walk, trained = options.walk(), str(self.task.cfg.sentence_rule)
            wanted.sentence_rule = options.sentence_rule
            if wanted.sentence_rule == AUTO:
                # A text needs a line for each line; --doc-mode full would not promise that by itself.
                wanted.sentence_rule = ON if walk.kind != FULL or trained == AUTO else trained
            generator = self.task.build_generator([self.model], wanted)
            self._generators = {options: generator if walk.kind == FULL else WalkingGenerator(generator, walk)}
        return self._generators[options]

    def _hypothesis(self, hypo: dict, count: int) -> Hypothesis:
        tokens = hypo["tokens"].tolist()
        skip = {self.target.pad(), *self.task.language_symbols()}
        scores = sentence_scores(tokens, hypo["positional_scores"].tolist(), self.target.eos())
        scores = [*scores[: count - 1], sum(scores[count - 1 :]), *[0.0] * (count - 1 - len(scores))]
        sentences = align_sentences(split_sentences(tokens, self.target, skip), count)
        return Hypothesis(sentences, scores, float(hypo["score"]))


def sentence_scores(tokens: Sequence[int], scores: Sequence[float], eos: int) -> list[float]:
    """Sums of the tokens' scores by sentence, each up to its ``</s>``; what follows the last one is left out."""
    sums, total = [], 0.0
    for token, score in zip(tokens, scores, strict=True):
        total += score
        if token == eos:
            sums.append(total)
            total = 0.0
    return sums


def choose_device(wanted: str | torch.device | None) -> torch.device:
    """The device asked for, by default a GPU if there is one. Raises UserError for one that is not there."""
    if wanted is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise UserError(f"device {wanted!r} is unknown; give 'cpu', 'cuda', 'cuda:1', ...") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device {str(device)!r}: PyTorch finds {torch.cuda.device_count()} GPUs here; give 'cpu'")
    return device
