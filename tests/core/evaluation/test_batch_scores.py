"""Scores by models that read their batch: the layers see what is in question alone, and scores are the full pass's."""

from __future__ import annotations

import pytest
import torch

from gtransformer.data.sentence_numbers import FIRST_SENTENCE
from gtransformer.evaluation.batch_scores import BatchScorer
from gtransformer.evaluation.sentence_scores import Beside, Request, pad_rows
from tests.core.models.batch_documents import CONTEXT, document, made
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE

SYSTEMS = {
    **{
        f"{gate} {where}": (DOCFLAT, {"context_gate": gate, "batch_attention_in": where})
        for gate in ("continuous", "discrete", "identity")
        for where in ("encoder", "decoder", "both")
    },
    "no attention across": (DOCFLAT, {"batch_attention_in": "none"}),
    **{f"ABD {where}": (ABD, {"batch_attention_in": where}) for where in ("encoder", "decoder", "both")},
    "MBE classifier": (MBE, {"batch_classifier": True}),
    **{f"MBE {where}": (MBE, {"batch_vector_in": where}) for where in ("encoder", "decoder", "both")},
}
WRONG = ([5, 6, 7, 8], [], [9])  # words in place of the last sentence


class FullPass(BatchScorer):
    """Every row of the batch through all layers, a pass for each request."""

    def batches(self, requests):
        return [[number] for number in range(len(requests))]

    def features(self, requests, read):
        rows, pad = (*requests[0].before, requests[0]), self.source.pad()
        sources = [self.layouts[0].source(one.source) for one in rows]
        given = [self.layouts[1].target(one.target, len(one.source))[0] for one in rows[:-1]]
        numbers = {FIRST_SENTENCE: torch.tensor([one.number for one in rows])}
        encoder_out = self.model.encoder(pad_rows(sources, pad, "cpu"), **numbers)
        found = []
        for own in read:
            targets = pad_rows([*given, own], pad, "cpu")
            states, extra = self.model.decoder(targets, encoder_out=encoder_out, features_only=True)
            found.append(states[-1, : len(own)])
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True), extra


def requests_of(dictionary) -> list[Request]:
    """Of the last sentences of two batches, the reference and wrong ones; the second has no other sentence."""
    batch, found = document(dictionary, sentences=5, begin=4), []
    sides = [[tokens[1:-1] for tokens in side] for side in (batch.source, batch.target)]
    rows = [[side[max(0, i - CONTEXT) : i + 1] for side in sides] for i in range(5)]
    for last in (4, 0):
        before = tuple(Beside(*rows[i], batch.first[i]) for i in range(last))
        source, target = rows[last]
        for words in (target[-1], *WRONG):
            asked = (len(target) - 1,)
            found.append(Request(source, [*target[:-1], list(words)], asked, before=before, number=batch.first[last]))
    return found


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("max_tokens", [4096, 40, 1])
def test_scores_are_those_of_the_full_pass(dictionary, name, max_tokens):
    kinds, options = SYSTEMS[name]
    model = made(dictionary, *kinds, **options)
    requests = requests_of(dictionary)
    scores = BatchScorer(model, dictionary, dictionary, 16, max_tokens).score_tokens(requests)
    expected = FullPass(model, dictionary, dictionary, 16).score_tokens(requests)
    for found, wanted in zip(scores, expected, strict=True):
        assert found[0] == pytest.approx(wanted[0], rel=1e-11)


@pytest.mark.parametrize("name", ["continuous both", "ABD decoder", "MBE both"])
def test_layers_see_the_last_rows_alone(dictionary, name):
    """The candidates of a batch at once."""
    kinds, options = SYSTEMS[name]
    model = made(dictionary, *kinds, **options)
    requests = requests_of(dictionary)[: 1 + len(WRONG)]
    seen = {"encoder": [], "decoder": []}
    for side, counts in seen.items():
        for layer in getattr(model, side).layers:
            layer.register_forward_hook(lambda _, inputs, __, counts=counts: counts.append(inputs[1].layout.batch))
    BatchScorer(model, dictionary, dictionary, 16).score(requests)
    assert seen == {"encoder": [1, 1], "decoder": [len(requests)] * 2}


def test_batches_of_candidates_are_cut(dictionary):
    """To so many tokens in the layers, and in front of them, padded; one request is never too long."""
    requests = requests_of(dictionary)
    scorer = BatchScorer(made(dictionary, *DOCFLAT), dictionary, dictionary, 16)
    assert list(scorer.batches(requests)) == [[*range(8)]]
    rows = [row for one in requests[:4] for row in (*one.before, one)]
    widest = max(sum(len(sentence) + 2 for sentence in row.target) for row in rows)
    scorer.most_in_front = 4 * 5 * widest  # the four candidates of the first batch, of five sentences
    assert list(scorer.batches(requests))[0] == [0, 1, 2, 3]
    scorer.max_tokens = 1
    assert list(scorer.batches(requests)) == [[one] for one in range(8)]
    sizes = [sum(len(sentence) + 2 for sentence in one.target) for one in requests]
    scorer.max_tokens = 2 * max(sizes[:2])
    assert [0, 1] in list(scorer.batches(requests))
