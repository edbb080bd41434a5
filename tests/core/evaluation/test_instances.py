"""The largest input of a model: what its options ask for, and to which context a sentence is
cut.
"""

from __future__ import annotations

import random

import pytest

from gtransformer.evaluation.contrastive import Capacity, capacity_of
from gtransformer.plugin.task import TranslationDocTask
from tests.support import ROOT, task_config

PREPARED = ROOT / "tests" / "prepared" / "len48"


def doc_task(**options) -> TranslationDocTask:
    """Return the task of a model with these options."""
    return TranslationDocTask.setup_task(task_config(data=str(PREPARED / "bin"), **options))


@pytest.mark.parametrize(
    "capacity",
    [
        Capacity(),
        Capacity(3, 3),
        Capacity(1, 1),
        Capacity(tokens=20),
        Capacity(tokens=20, longer_side=True),
        Capacity(4, 4, 25, True),
        Capacity(tokens=1),
    ],
)
def test_before_a_sentence(capacity):
    """Sentence by sentence, the nearest first."""
    draw = random.Random(4)

    def fits(source, target) -> bool:
        costs = map(max, source, target) if capacity.longer_side else target
        return (capacity.sentences is None or len(source) <= capacity.sentences) and (
            capacity.tokens is None or sum(costs) <= capacity.tokens
        )

    for _ in range(200):
        source, target = ([draw.randint(2, 9) for _ in range(6)] for _ in range(2))
        count = 1
        while count < 6 and fits(source[-count - 1 :], target[-count - 1 :]):
            count += 1
        assert capacity.before(source, target) == (count, count)


def test_sides_of_unequal_length():
    task = doc_task(
        instances="current", context_sentences=2, target_context_sentences=1, doc_mode="full"
    )
    capacity = capacity_of(task.options.scheme, PREPARED)
    assert capacity.before([5] * 5, [5] * 5) == (3, 2)
    assert capacity.before([5], [5]) == (1, 1)


def test_of_stored_instances():
    assert capacity_of(doc_task().options.scheme, PREPARED) == Capacity(tokens=47, longer_side=True)
