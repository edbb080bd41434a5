"""How much a model takes at once: the context that a sentence is scored in, cut to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gtransformer.data.instances import STORED, Grouping, Instances, Ranges
from gtransformer.preprocess.encode import read_settings
from gtransformer.tasks.grouping_options import grouping_of
from gtransformer.tasks.translation_doc import TranslationDocTask

INSTANCE, LAST = PLACED = ("instance", "last")


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
        """An instance for each sentence: it is the last, behind as much of what stands before it as there is room for.

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
        """The sentences of a text, of source and target, in which one is scored.

        As much as there is room for of what stands before it comes first, then what stands behind it [ours].

        Args:
            source, target: lengths in tokens, ``<s>`` and ``</s>`` included, of as many sentences.
            sentence: from 0.
        """
        lengths = [np.array(side, dtype=np.int64) for side in (source, target)]
        end = sentence + 1
        made = self.last_ones(*(side[:end] for side in lengths), [(0, end)])
        first, target_first = int(made.source[-1, 0]), int(made.target[-1, 0])
        borders = self._borders(*lengths)
        while self.behind and end < len(source):
            if self.sentences is not None and end - first >= self.sentences:
                break
            if self.tokens is not None and borders[end + 1] - borders[first] > self.tokens:
                break
            end += 1
        return range(first, end), range(target_first, end)

    def _borders(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """(sentences + 1,) tokens in front of each."""
        costs = np.maximum(source, target) if self.longer_side else target
        return np.concatenate([[0], np.cumsum(costs)])


def capacity_of(task, prepared: Path) -> Capacity:
    """What the options that were saved with a model say about its instances.

    Args:
        task: the model's.
        prepared: a corpus that was prepared as that of the training: it says how long instances are that were trained
            on as they were prepared. So are those of fairseq's ``translation`` task, which has no such options.
    """
    grouping = grouping_of(task.cfg) if isinstance(task, TranslationDocTask) else Grouping()
    if grouping.kind == STORED:
        settings = read_settings(prepared)
        most, tokens = settings.get("max_sents"), settings.get("max_instance_tokens")
        return Capacity(most, most, None if tokens is None else tokens - 1, longer_side=True)
    if grouping.kind == "greedy":
        return Capacity(tokens=grouping.tokens - 1, longer_side=True)
    if grouping.kind == "parts":
        return Capacity(tokens=grouping.tokens)
    most = grouping.context + 1
    if grouping.kind == "current":
        return Capacity(most, (grouping.target_context or 0) + 1, behind=False)
    return Capacity(most, most, behind=task.cfg.context_loss == "on")


def usual_place(task) -> str:
    """Where an item of a prepared corpus is scored if nobody says it, one of ``PLACED``.

    Last, but for instances that are filled as ``scripts/prepare.sh`` fills them: in these G-Transformer's results are.
    """
    kind = grouping_of(task.cfg).kind if isinstance(task, TranslationDocTask) else STORED
    return INSTANCE if kind in (STORED, "greedy") else LAST
