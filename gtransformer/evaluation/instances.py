"""The instances in which a trained model sees the sentences of a split or of a suite's example.

How much a model takes at once is its ``Capacity``, to which the context is cut that a sentence is scored in.
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
    """The longest instance that a model has been trained on; a sentence by itself is never too long.

    Attributes:
        sentences, target_sentences: most sentences of source and target; None: any number.
        tokens: most tokens, ``<s>`` and ``</s>`` counted; None: any number.
        longer_side: of a sentence the tokens of its longer side count; else those of the target.
        behind: whether anything may stand behind the sentence in question.
    """

    sentences: int | None = None
    target_sentences: int | None = None
    tokens: int | None = None
    longer_side: bool = False
    behind: bool = True

    def last_ones(self, source: np.ndarray, target: np.ndarray, runs: Ranges) -> Instances:
        """Return an instance for each sentence: it is the last, behind as much of what is before it as there is room
        for.

        Args:
            source, target: (sentences,) lengths in tokens, ``<s>`` and ``</s>`` included.
            runs: [first, last) sentences that follow each other in a document; they cover all sentences in order.
        """
        end = np.arange(1, len(source) + 1)
        firsts, ends = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        begin = np.repeat(firsts, ends - firsts)
        if self.tokens is not None:
            borders = self._borders(source, target)
            earliest = np.searchsorted(borders, borders[1:] - self.tokens)  # from there on the tokens are few enough
            begin = np.maximum(begin, np.minimum(earliest, end - 1))
        sides = [
            begin if most is None else np.maximum(begin, end - most) for most in (self.sentences, self.target_sentences)
        ]
        return Instances(*(np.stack([first, end], 1) for first in sides), np.stack([end - 1, end], 1))

    def around(self, source: Sequence[int], target: Sequence[int], sentence: int) -> tuple[range, range]:
        """Return the sentences of a text, of source and target, in which one is scored.

        As much as there is room for of what is before it comes first, then what is behind it (our choice).

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
        """Return (sentences + 1,) tokens in front of each."""
        costs = np.maximum(source, target) if self.longer_side else target
        return np.concatenate([[0], np.cumsum(costs)])


def capacity_of(task, prepared: Path) -> Capacity:
    """Return what the options that were saved with a model say about its instances.

    Args:
        task: the model's.
        prepared: a corpus that was prepared as that of the training: it says how long instances are that were trained
            on as they were prepared. So are those of fairseq's ``translation`` task, which has no such options.
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
    """Where an item of a prepared corpus is scored if nobody says it, one of ``PLACED``.

    Last, except for instances that are filled as ``gtransformer prepare`` fills them.
    """
    kind = task.options.scheme.kind if isinstance(task, TranslationDocTask) else STORED
    return INSTANCE if kind in (STORED, "greedy") else LAST


@dataclass(frozen=True)
class CorpusInstances:
    """Instances over the sentences of a split.

    Attributes:
        spans: where each is in its document, and which of its sentences are current.
        sides: tokens of the source's and the target's instances, ``<s> a b </s> <s> c </s>``.
        dictionaries: of either side.
        name: of the split, for messages.
    """

    spans: Sequence[SentenceSpan]
    sides: tuple[FairseqDataset, FairseqDataset]
    dictionaries: tuple[Dictionary, Dictionary]
    name: str

    def read(self, number: int) -> tuple[TokenLists, TokenLists]:
        """Source and target sentences of an instance, without marks. UserError if they are not those of its place."""
        sides = zip(self.sides, self.dictionaries, strict=True)
        source, target = (split_tokens(side[number], one.bos(), one.eos()) for side, one in sides)
        if len(target) != self.spans[number].sentences:
            raise UserError(
                f"{self.name}: not the instances that the instance index describes; prepare the corpus again"
            )
        return source, target


def corpus_instances(task, prepared: Path, split: str, capacity: Capacity | None = None) -> CorpusInstances:
    """Return the instances of a split as a model has them: grouped as the options say that were saved with it.

    Args:
        task: of the model, with ``prepared / "bin"`` as its data. A model of fairseq's ``translation`` task, which has
            no such options, has the instances as they were prepared.
        capacity: instead, an instance for each sentence, which is its last, with as much context as that.

    Raises UserError for a split that is not there, or has no instance index, or is damaged.
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
    """Return the sentences of (length,) int64 tokens ``<s> a b </s> <s> c </s>``, without the marks."""
    sentences: TokenLists = []
    for token in tokens.tolist():
        if token == bos:
            sentences.append([])
        elif token != eos:
            sentences[-1].append(token)
    return sentences
