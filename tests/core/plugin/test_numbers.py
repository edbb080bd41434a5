"""A model that reads the numbers of sentences and nothing else of its batch: every instance comes
with its own.
"""

from argparse import Namespace

import pytest
import torch

from gtransformer.errors import UserError
from tests.core.plugin.loaded import documents, iterator, sentences_of, setup, spans_of
from tests.support import model_options

pytestmark = pytest.mark.slow

KINDS = {
    "stored": {},
    "greedy": {"instances": "greedy", "instance_tokens": 40},
    "parts": {"instances": "parts", "instance_tokens": 40},
    "sliding": {"instances": "sliding", "context_sentences": 2},
    "current": {"instances": "current", "context_sentences": 1, "target_context_sentences": 1},
}


def with_model(**options):
    """The task with a model of such a system."""
    task = setup(**options)
    return task, task.build_model(model_options("docflat", batch_attention_in="none")).eval()


@pytest.mark.parametrize("order", ["size", "document"])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_instances_and_others_come_with_their_numbers(kind, order):
    task, model = with_model(batch_order=order, **KINDS[kind])
    task.load_dataset("train")
    dataset, numbers = task.dataset("train"), []
    words, places = documents("train", "en"), spans_of(dataset)
    for batch in iterator(task, dataset).next_epoch_itr(shuffle=True):
        inputs = batch["net_input"]
        for one, first, tokens in zip(
            batch["id"], inputs["first_sentence"], inputs["src_tokens"], strict=True
        ):
            for place, sentence in enumerate(
                sentences_of(task, tokens[tokens.ne(task.src_dict.pad())])
            ):
                assert sentence == words[places[one].document, int(first) - 1 + place]
            numbers.append(int(first))
    assert max(numbers) > 2


def seen(model, monkeypatch) -> list[tuple[int, torch.Tensor]]:
    """What its encoder will have been given: the number of each instance's first sentence, and the
    instance.
    """
    found, forward = [], model.encoder.forward

    def kept(**given):
        found.extend(zip(given["first_sentence"].tolist(), given["src_tokens"], strict=True))
        return forward(**given)

    monkeypatch.setattr(model.encoder, "forward", kept)
    return found


@torch.no_grad()
@pytest.mark.parametrize(
    "strategy", [{}, {"strategy": "sequential"}, {"strategy": "sliding", "window_tokens": 40}]
)
def test_windows_of_a_document_have_the_numbers_of_theirs(strategy, monkeypatch):
    task, model = with_model(sentence_rule="on", **strategy)
    task.load_dataset("test")
    found = seen(model, monkeypatch)
    generator = task.build_generator([model], Namespace(beam=1, max_len_a=0, max_len_b=2))
    for batch in iterator(task, task.dataset("test"), max_tokens=300).next_epoch_itr(shuffle=False):
        task.inference_step(generator, [model], batch)
    words = documents("test", "en")
    for first, tokens in found:
        sentences = sentences_of(task, tokens[tokens.ne(task.src_dict.pad())])
        assert any(
            all(words.get((document, first - 1 + i)) == one for i, one in enumerate(sentences))
            for document, _ in words
        )
    assert max(first for first, _ in found) > 2


def test_sides_of_unequal_numbers_are_refused():
    with pytest.raises(UserError, match="--target-context-sentences 0: "):
        with_model(instances="current", context_sentences=2)
