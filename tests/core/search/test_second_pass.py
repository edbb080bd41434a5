"""Batches translated together, through the task: against a beam search spelled out in NumPy; what
changes nothing.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
import torch
from fairseq.utils import apply_to_sample

from gtransformer.models.common.model import needs_of
from gtransformer.plugin.generation import task_generator
from gtransformer.search.sequential import SecondPass
from tests.core.models.batch_documents import Batch, document
from tests.core.models.batch_steps import BatchSteps, Hypothesis, contexts_of, steps_of
from tests.core.models.test_docflat import system
from tests.support import pad_batch, tiny_task

pytestmark = pytest.mark.slow

SEARCH = {"beam": 3, "max_len_a": 0, "max_len_b": 4, "lenpen": 0.7}


def translated(dictionary, models, batch: Batch, **options) -> list[list[dict]]:
    """All hypotheses of every sentence of a batch."""
    task = tiny_task(dictionary, langs="en,de")
    contexts = [torch.tensor(one, dtype=torch.int64) for one in contexts_of(batch)]
    generator = task_generator(task, models, Namespace(**{**SEARCH, **options}))
    generator = SecondPass(generator, lambda sample: contexts)
    source = pad_batch(batch.rows(batch.source), dictionary.pad(), left=True)
    inputs = {"src_tokens": source, "src_lengths": source.ne(dictionary.pad()).sum(dim=1)}
    if any(needs_of(model).numbers for model in models):
        inputs["first_sentence"] = torch.tensor(batch.first)
    device = next(models[0].parameters()).device
    sample = {"id": torch.arange(len(source)), "net_input": inputs}
    sample = apply_to_sample(lambda one: one.to(device), sample)
    return task.inference_step(generator, models, sample)


def tokens_of(found: list[list[dict]]) -> list[list[list[int]]]:
    return [[one["tokens"].tolist() for one in nbest] for nbest in found]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


class SpelledOut:
    """Beam search over the sentences of a batch, side by side; at most 4 words each, one at
    least.
    """

    def __init__(self, steps: BatchSteps, dictionary, beam: int, lenpen: float):
        self.steps, self.beam, self.lenpen = steps, beam, lenpen
        self.bos, self.eos, self.language = (
            dictionary.bos(),
            dictionary.eos(),
            dictionary.index("[de]"),
        )
        self.words = [
            i
            for i in range(len(dictionary))
            if dictionary[i].startswith("w") or i == dictionary.unk()
        ]
        count = len(steps.sources)
        self.rows = {
            s: [(Hypothesis(), self.bos)] for s in range(count)
        }  # what goes on, and its newest token
        self.ended: dict[int, list[tuple[float, list[int]]]] = {s: [] for s in range(count)}
        self.held: dict[int, list[int]] = {}

    def run(self) -> list[list[tuple[float, list[int]]]]:
        """Score and tokens of the hypotheses of every sentence, best first."""
        while self.rows:
            self.held |= {
                s: [*rows[0][0].tokens, rows[0][1]] for s, rows in self.rows.items()
            }  # the best of this step
            for s, candidates in {s: self.candidates(s) for s in self.rows}.items():
                self.choose(s, candidates)
        return [sorted(self.ended[s], key=lambda one: -one[0]) for s in sorted(self.ended)]

    def candidates(self, s: int) -> list[tuple[float, Hypothesis, int]]:
        found = []
        for row, newest in self.rows[s]:
            grown, logits = self.steps.take(s, row, newest, self.held)
            if newest == self.eos:
                found.append((row.score, grown, self.language))
                continue
            scores, words = log_softmax(logits), len(grown.tokens) - 1
            allowed = ([] if words == 4 else self.words) + ([] if words == 0 else [self.eos])
            found += [(row.score + scores[token], grown, token) for token in allowed]
        return sorted(found, key=lambda one: -one[0])[: 2 * self.beam]

    def choose(self, s: int, candidates) -> None:
        goes_on = []
        for place, (score, row, token) in enumerate(candidates):
            if token != self.language:
                goes_on.append((replace(row, score=score), token))
            elif place < self.beam and len(self.ended[s]) < self.beam:
                written = [*row.tokens[1:], self.language]
                self.ended[s].append((score / len(written) ** self.lenpen, written))
        self.rows[s] = goes_on[: self.beam]
        if len(self.ended[s]) == self.beam or not self.rows[s]:
            _, best = max(self.ended[s], key=lambda one: one[0])
            self.held[s] = [self.bos, *best[:-1]]
            del self.rows[s]


@torch.no_grad()
@pytest.mark.parametrize(("name", "beam"), [("C", 1), ("C", 3), ("I prenorm", 2)])
def test_search_finds_what_it_is_defined_to_find(dictionary, name, beam):
    """Of earlier sentences the best hypothesis of the step is read, and the translation when there
    is one.
    """
    model, batch = system(dictionary, name), document(dictionary, sentences=4)
    expected = SpelledOut(steps_of(model, batch), dictionary, beam, SEARCH["lenpen"]).run()
    found = translated(dictionary, [model], batch, beam=beam)
    assert tokens_of(found) == [[tokens for _, tokens in nbest] for nbest in expected]
    for nbest, scored in zip(found, expected, strict=True):
        scores = [one["score"].item() for one in nbest]
        assert scores == pytest.approx([score for score, _ in scored], rel=1e-5)
    assert len({tuple(nbest[0]) for nbest in tokens_of(found)}) > 1
