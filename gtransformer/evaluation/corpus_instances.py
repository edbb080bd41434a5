"""The instances of a prepared split in which a trained model sees its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq.data import FairseqDataset
from torch import Tensor

from gtransformer.data.places import Place
from gtransformer.errors import UserError
from gtransformer.evaluation.capacity import Capacity
from gtransformer.evaluation.layouts import TokenLists
from gtransformer.evaluation.prepared_split import find_sidecar
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.grouped import regrouped
from gtransformer.tasks.loading import Loader
from gtransformer.tasks.translation_doc import TranslationDocTask


@dataclass(frozen=True)
class CorpusInstances:
    """Instances over the sentences of a split.

    Attributes:
        places: where each stands in its document, and which of its sentences are current.
        source, target: tokens of each side's instances, ``<s> a b </s> <s> c </s>``.
        bos, eos: (source, target) indices of ``<s>`` and ``</s>``.
        name: of the split, for messages.
    """

    places: Sequence[Place]
    source: FairseqDataset
    target: FairseqDataset
    bos: tuple[int, int]
    eos: tuple[int, int]
    name: str

    def read(self, number: int) -> tuple[TokenLists, TokenLists]:
        """Source and target sentences of an instance, without marks. UserError if they are not those of its place."""
        sides = zip((self.source, self.target), self.bos, self.eos, strict=True)
        source, target = (split_tokens(side[number], bos, eos) for side, bos, eos in sides)
        if len(target) != self.places[number].sentences:
            raise UserError(f"{self.name}: not the instances that the sidecar describes; prepare the corpus again")
        return source, target


def corpus_instances(task, prepared: Path, split: str, capacity: Capacity | None = None) -> CorpusInstances:
    """The instances of a split as a model has them: grouped as the options say that were saved with it.

    Args:
        task: of the model, with ``prepared / "bin"`` as its data. A model of fairseq's ``translation`` task, which has
            no such options, has the instances as they were prepared.
        capacity: instead, an instance for each sentence, which is its last, with as much context as that.

    Raises UserError for a split that is not there, or has no sidecar, or is damaged.
    """
    sidecar = find_sidecar(prepared, split)
    cfg, source, target = task.cfg, task.source_dictionary, task.target_dictionary
    if not isinstance(task, TranslationDocTask):
        pair = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}
        cfg = TranslationDocConfig(data=cfg.data, dataset_impl=None, **pair)
    loader = Loader(cfg, source, target, language=target.eos(), languages=())
    if capacity is None:
        dataset = loader.load(split, epoch=1, combine=False)
        places, sides = dataset.places(), (dataset.src, dataset.tgt)
    else:
        (part,) = loader.parts(str(prepared / "bin"), split, combine=False)
        view = part.sentences()
        made = regrouped(view, capacity.last_ones(view.source.lengths, view.target.lengths, view.runs()))
        places, sides = made.places(), (made.source, made.target)
    return CorpusInstances(places, *sides, (source.bos(), target.bos()), (source.eos(), target.eos()), str(sidecar))


def split_tokens(tokens: Tensor, bos: int, eos: int) -> TokenLists:
    """The sentences of (length,) int64 tokens ``<s> a b </s> <s> c </s>``, without the marks."""
    sentences: TokenLists = []
    for token in tokens.tolist():
        if token == bos:
            sentences.append([])
        elif token != eos:
            sentences[-1].append(token)
    return sentences
