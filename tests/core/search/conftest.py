"""Translating random documents with tiny models."""

from argparse import Namespace

import pytest
import torch

from gtransformer.data.translations import split_sentences
from tests.support import pad_batch, random_document, tiny_dictionary, tiny_task


class Translator:
    """Documents in, hypotheses out, through the task as fairseq-generate uses it."""

    def __init__(self, dictionary, models, task_options=None, **options):
        self.dictionary, self.models = dictionary, models
        self.task = tiny_task(dictionary, **(task_options or {}))
        self.generator = self.task.build_generator(models, Namespace(**options))

    def __call__(self, documents):
        """Hypotheses (best first) of each document, a list of token indices."""
        return self.task.inference_step(self.generator, self.models, self.sample(documents))

    def sample(self, documents):
        """A batch of documents."""
        pad, device = self.dictionary.pad(), next(self.models[0].parameters()).device
        source = pad_batch(documents, pad, left=True).to(device)
        net_input = {"src_tokens": source, "src_lengths": source.ne(pad).sum(dim=1)}
        return {"id": torch.arange(len(documents)), "net_input": net_input}

    def sentences(self, hypothesis):
        """The words of each sentence; asserts that the document is well formed."""
        d, tokens = self.dictionary, hypothesis["tokens"].tolist()
        assert (
            tokens[-1] == d.index("[de]")
            and d.pad() not in tokens
            and d.index("<mask>") not in tokens
        )
        opened = [i for i, token in enumerate(tokens) if token == d.bos()]
        closed = [i for i, token in enumerate(tokens) if token == d.eos()]
        assert opened == [i + 1 for i in closed[:-1]] and closed[-1] == len(tokens) - 2
        return [line.split() for line in split_sentences(tokens, d, {d.index("[de]")})]


@pytest.fixture(autouse=True)
def _memory_that_is_not_written(monkeypatch):
    """What is read of new memory before it is written is not a number."""
    new_empty = torch.Tensor.new_empty

    def marked(self, *args, **kwargs):
        made = new_empty(self, *args, **kwargs)
        return made.fill_(torch.nan) if made.is_floating_point() else made

    monkeypatch.setattr(torch.Tensor, "new_empty", marked)


@pytest.fixture
def documents(dictionary):
    """make(draw, [[2, 3], [1]]): documents with sentences of so many words."""

    def make(draw, shapes):
        return [random_document(draw, dictionary, lengths) for lengths in shapes]

    return make


@pytest.fixture
def two_words():
    """w0 and w1, and enough languages that a beam may be wider than the number of all
    hypotheses.
    """
    return tiny_dictionary(2, ("en", "de", *(f"x{i}" for i in range(180))))
