"""Strategies among the task's options: what is loaded for them, and what is refused."""

from argparse import Namespace

import pytest

from gtransformer.errors import UserError
from gtransformer.search.sequential import SequentialGenerator
from gtransformer.search.strategies import SEQUENTIAL, Strategy
from tests.core.plugin.loaded import setup, spans_of
from tests.support import tiny_model

SLIDING = {"instances": "sliding", "context_sentences": 2}


@pytest.mark.parametrize(
    ("options", "documents"),
    [
        ({"strategy": "sliding", "window_tokens": 60}, 3),
        ({"strategy": "sequential", "window_tokens": 60}, 3),
        ({"strategy": "sequential", **SLIDING}, 3),
        ({"strategy": "sequential"}, 14),
        ({"strategy": "sequential", "instances": "disjoint", "context_sentences": 2}, 8),
    ],
)
def test_documents(options, documents):
    """Whole documents where the strategy goes through them."""
    task = setup(**options)
    task.load_dataset("test")
    dataset = task.dataset("test")
    assert len(dataset) == documents
    spans = spans_of(dataset)
    assert sum(place.current[1] for place in spans) == 22
    # Of whole documents the windows are checked when they come.
    most = 1 if documents == 3 else 100_000
    indices = dataset.ordered_indices()
    assert (task.filter_indices_by_size(indices, dataset, (most, most)) == indices).all()


def test_the_generator(dictionary):
    """Held to the sentences of the source whatever the mode; of full the generator is what it
    was.
    """
    for mode in ("partial", "full"):
        task = setup(strategy="sequential", doc_mode=mode, **SLIDING)
        made = task.build_generator([tiny_model(task.tgt_dict, doc_mode=mode)], Namespace(beam=2))
        assert type(made) is SequentialGenerator and not made.generator.free
        assert made.strategy == Strategy(SEQUENTIAL, context=2, target_context=2)
    assert (
        type(setup().build_generator([tiny_model(task.tgt_dict)], Namespace(beam=2)))
        is not SequentialGenerator
    )


def test_a_window_shorter_than_a_sentence():
    task = setup(strategy="sliding", window_tokens=5)
    with pytest.raises(
        UserError,
        match=r"sentence 1 of document 1 has \d+ source tokens .* --window-tokens 5: give",
    ):
        task.load_dataset("test")
