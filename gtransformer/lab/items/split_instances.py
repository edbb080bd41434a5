"""Instances in which a trained model reads the sentences of a prepared split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq.data import Dictionary, FairseqDataset
from torch import Tensor

from gtransformer.data.instances import STORED
from gtransformer.errors import UserError
from gtransformer.evaluation.instances import Capacity
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.evaluation.sentence_scores import TokenLists
from gtransformer.plugin.sentences import SentenceSpan
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.loading import Loader, regrouped
from gtransformer.tasks.options import Options
from gtransformer.tasks.translation_doc import TranslationDocTask

# Where an item is scored: inside an instance of the split, or as the last sentence of its own one.
INSTANCE, LAST = "instance", "last"


def default_placement(task) -> str:
    """Return where items of a prepared corpus are scored by default, ``INSTANCE`` or ``LAST``.

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
