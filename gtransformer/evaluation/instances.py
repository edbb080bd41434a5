"""Instances in which a trained model reads the sentences of a split or of a suite's example.

``Capacity`` is the largest input of a model. The context of a scored sentence is cut to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor

from gtransformer.data.instances import STORED, Instances, InstanceScheme, Ranges
from gtransformer.data.sentences import SentenceSpan
from gtransformer.errors import UserError
from gtransformer.evaluation.prepared_split import INSTANCE, LAST, find_instance_index
from gtransformer.evaluation.sentence_scores import TokenLists
from gtransformer.preprocess.chain import read_settings
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.loading import Loader, regrouped
from gtransformer.tasks.options import Options
from gtransformer.tasks.translation_doc import TranslationDocTask


@dataclass(frozen=True)
class Capacity:
    """The longest instance that a model was trained on; a single sentence is never too long.

    Attributes:
        sentences, target_sentences: most sentences of source and target; None: any number.
        tokens: most tokens, including ``<s>`` and ``</s>``; None: any number.
        longer_side: count a sentence's tokens on its longer side; else on the target side.
        behind: whether sentences may follow the scored one.
    """

    sentences: int | None = None
    target_sentences: int | None = None
    tokens: int | None = None
    longer_side: bool = False
    behind: bool = True

    def last_ones(self, source: np.ndarray, target: np.ndarray, runs: Ranges) -> Instances:
        """Return an instance for each sentence, which is its last, with as many previous sentences as fit.

        Args:
            source, target: (sentences,) lengths in tokens, ``<s>`` and ``</s>`` included.
            runs: [first, last) ranges of consecutive sentences of a document; they cover all sentences in order.
        """
        end = np.arange(1, len(source) + 1)
        firsts, ends = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        begin = np.repeat(firsts, ends - firsts)
        if self.tokens is not None:
            borders = self._borders(source, target)
            earliest = np.searchsorted(borders, borders[1:] - self.tokens)  # from here on the tokens fit
            begin = np.maximum(begin, np.minimum(earliest, end - 1))
        sides = [
            begin if most is None else np.maximum(begin, end - most) for most in (self.sentences, self.target_sentences)
        ]
        return Instances(*(np.stack([first, end], 1) for first in sides), np.stack([end - 1, end], 1))

    def around(self, source: Sequence[int], target: Sequence[int], sentence: int) -> tuple[range, range]:
        """Return the source and target sentences of the instance in which one sentence is scored.

        Previous sentences are added first, then following ones, as many as fit (our choice).

        Args:
            source, target: lengths in tokens, ``<s>`` and ``</s>`` included, of as many sentences.
            sentence: from 0.
        """
        lengths = [np.array(side, dtype=np.int64) for side in (source, target)]
        end = sentence + 1
        made = self.last_ones(*(side[:end] for side in lengths), [(0, end)])
        first, target_first = int(made.source[-1, 0]), int(made.target[-1, 0])
        borders = self._borders(*lengths)
        if self.behind:
            last = len(source) if self.sentences is None else min(len(source), max(end, first + self.sentences))
            while end < last and (self.tokens is None or borders[end + 1] - borders[first] <= self.tokens):
                end += 1
        return range(first, end), range(target_first, end)

    def _borders(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return (sentences + 1,) int64 numbers of tokens in front of each sentence."""
        costs = np.maximum(source, target) if self.longer_side else target
        return np.concatenate([[0], np.cumsum(costs)])


def capacity_of(task, prepared: Path) -> Capacity:
    """Return the capacity that follows from the options saved with a model.

    Args:
        task: the model's.
        prepared: a corpus prepared like the training corpus. It gives the length of stored instances, which fairseq's
            ``translation`` task always uses.
    """
    scheme = task.options.scheme if isinstance(task, TranslationDocTask) else InstanceScheme()
    if scheme.kind == STORED:
        settings = read_settings(prepared)
        most, tokens = settings.get("max_sents"), settings.get("max_instance_tokens")
        return Capacity(most, most, None if tokens is None else tokens - 1, longer_side=True)
    if scheme.kind == "greedy":
        return Capacity(tokens=scheme.tokens - 1, longer_side=True)
    if scheme.kind == "parts":
        return Capacity(tokens=scheme.tokens)
    most = scheme.context + 1
    if scheme.kind == "current":
        return Capacity(most, (scheme.target_context or 0) + 1, behind=False)
    return Capacity(most, most, behind=task.cfg.context_loss == "on")


def default_placement(task) -> str:
    """Return where items of a prepared corpus are scored by default, one of ``PLACED``.

    That is last in an instance, except for models trained on stored or greedy instances.
    """
    kind = task.options.scheme.kind if isinstance(task, TranslationDocTask) else STORED
    return INSTANCE if kind in (STORED, "greedy") else LAST


@dataclass(frozen=True)
class CorpusInstances:
    """Instances over the sentences of a split.

    Attributes:
        spans: each instance's location in its document, and its current sentences.
        sides: tokens of the source's and the target's instances, ``<s> a b </s> <s> c </s>``.
        dictionaries: of both sides.
        name: of the split, for messages.
    """

    spans: Sequence[SentenceSpan]
    sides: tuple[FairseqDataset, FairseqDataset]
    dictionaries: tuple[Dictionary, Dictionary]
    name: str

    def read(self, number: int) -> tuple[TokenLists, TokenLists]:
        """Return source and target sentences of an instance, without boundary tokens.

        Raises UserError if they do not match the instance's span.
        """
        sides = zip(self.sides, self.dictionaries, strict=True)
        source, target = (split_tokens(side[number], one.bos(), one.eos()) for side, one in sides)
        if len(target) != self.spans[number].sentences:
            raise UserError(
                f"{self.name}: not the instances that the instance index describes; prepare the corpus again"
            )
        return source, target


def corpus_instances(task, prepared: Path, split: str, capacity: Capacity | None = None) -> CorpusInstances:
    """Return the instances of a split as a model reads them, by the options saved with it.

    Args:
        task: the model's, with ``prepared / "bin"`` as its data. fairseq's ``translation`` task has no such options and
            reads the stored instances.
        capacity: if given, build an instance for each sentence instead, which is its last, with as much context as
            fits.

    Raises UserError for a split that is missing, has no instance index, or is damaged.
    """
    instance_index = find_instance_index(prepared, split)
    cfg, source, target = task.cfg, task.source_dictionary, task.target_dictionary
    if isinstance(task, TranslationDocTask):
        options = task.options
    else:
        pair = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}
        options = Options(TranslationDocConfig(data=cfg.data, dataset_impl=None, **pair))
    loader = Loader(options, source, target, language=target.eos(), languages=())
    if capacity is None:
        dataset = loader.load(split, epoch=1, combine=False)
        spans, sides = dataset.spans(), (dataset.src, dataset.tgt)
    else:
        (part,) = loader.parts(str(prepared / "bin"), split, combine=False)
        view = part.sentences()
        made = regrouped(view, capacity.last_ones(view.source.lengths, view.target.lengths, view.runs()))
        spans, sides = made.spans(), (made.source, made.target)
    return CorpusInstances(spans, sides, (source, target), str(instance_index))


def split_tokens(tokens: Tensor, bos: int, eos: int) -> TokenLists:
    """Return the sentences of (length,) int64 tokens ``<s> a b </s> <s> c </s>``, without boundary tokens."""
    sentences: TokenLists = []
    for token in tokens.tolist():
        if token == bos:
            sentences.append([])
        elif token != eos:
            sentences[-1].append(token)
    return sentences
