"""First translations of a split (``--first-pass PREFIX.jsonl``): the context of the second pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from fairseq.tasks import FairseqTask
from torch import Tensor

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import read_translations


def read_first_pass(task: FairseqTask) -> Callable[[dict], list[Tensor]]:
    """Read the translations that ``--gen-output`` wrote of the split that a task has loaded.

    Returns:
        the ``contexts`` of ``SecondPass``: for a batch the translations that precede each of its
        sentences, ``<s> words </s>`` each, (length,) int64.

    Raises UserError unless every sentence is translated once.
    """
    path, sides = Path(task.cfg.first_pass), task.sides
    ((split, dataset),) = task.datasets.items()
    spans, ranges = dataset.spans, dataset.src.ranges
    current = spans[:, [0, 3, 4]].tolist()
    index = InstanceIndex(split, *sides.pair, documents=len(spans), instances=current)
    bos, eos = sides.target.bos(), sides.target.eos()
    prefix = [] if sides.prefix is None else [sides.prefix]
    # By document and sentence, both from 0.
    translations: dict[tuple[int, int], list[int]] = {}
    for instance in read_translations(path, index):
        document, first, _ = instance.span
        texts = instance.taken(instance.aligned(instance.hypothesis))
        for number, text in enumerate(texts, first):
            words = sides.indices(text.split(), sides.target)
            # The text of a translation is written without the model's first word.
            if words[: len(prefix)] != prefix:
                words = prefix + words
            translations[document, number] = [bos, *words, eos]

    def contexts(sample: dict) -> list[Tensor]:
        preceding = []
        for number in sample["id"].tolist():
            document, *_, sentence, _ = spans[number].tolist()
            # As many sentences as the source has before the current one.
            first, last = ranges[number].tolist()
            before = range(sentence - (last - first - 1), sentence)
            words = [token for position in before for token in translations[document, position]]
            preceding.append(torch.tensor(words, dtype=torch.int64))
        return preceding

    return contexts
