"""An oracle: beam search over one document, written out in lists; every step is a full pass over
whole prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from gtransformer.models.common.model import needs_of
from gtransformer.modules.ragged import Memory
from gtransformer.search.generator import DocumentGenerator

Candidate = tuple[
    float, list[int], list[float]
]  # sum of log probabilities, tokens from <s> on, their log probabilities


@lru_cache(maxsize=4)  # each step of a search reads the same
def encoded(model, source: tuple[int, ...], copies: int) -> Memory:
    """Return what the encoder makes of a document, so many times."""
    return model.encoder(torch.tensor([source] * copies))["memory"][0]


@torch.no_grad()
def log_probabilities(
    model, source: Sequence[int], prefixes: Sequence[Sequence[int]]
) -> torch.Tensor:
    """(prefixes, length, vocabulary), all prefixes equally long, of targets whose lengths are not
    known yet.
    """
    memory, tokens = encoded(model, tuple(source), len(prefixes)), torch.tensor(prefixes)
    layout = model.decoder.layout(tokens)
    layout.whole = False
    x = model.decoder.extract_ragged(tokens, layout, memory)
    return layout.pad(model.decoder.output_layer(x)).log_softmax(dim=-1)


def word_indices(dictionary) -> list[int]:
    """What may stand inside a sentence: words and <unk>."""
    return [
        i for i in range(len(dictionary)) if dictionary[i][0] not in "[<" or i == dictionary.unk()
    ]


def sentences_of(dictionary, tokens: Sequence[int]) -> list[list[int]]:
    """``<s> words </s>`` each."""
    begins = [place for place, token in enumerate(tokens) if token == dictionary.bos()] + [
        len(tokens)
    ]
    return [list(tokens[first:last]) for first, last in zip(begins, begins[1:], strict=False)]


def limits_of(generator: DocumentGenerator, source: Sequence[int]) -> list[int]:
    """The most words of each sentence; without the rule the most tokens of all, after the given
    one.
    """
    a, b = generator.sentence_a, generator.sentence_b
    counts = [len(one) - generator.given for one in sentences_of(generator.tgt_dict, source)]
    if any(needs_of(model).last_sentence_only for model in generator.models):
        counts = counts[-1:]
    limits = [max(int(a * count + b), min(count, 1)) for count in counts]
    return (
        [max(sum(limits) + 2 * len(limits) - 1, int(a * sum(counts)) + int(b))]
        if generator.free
        else limits
    )


def allowed(generator: DocumentGenerator, prefix: list[int], limits: list[int]) -> list[int]:
    """What may follow a prefix; a single token costs nothing unless it is </s>, or ends a text
    without the rule.
    """
    rule, every = generator.rule, range(len(generator.tgt_dict))
    if generator.free:
        if len(prefix) > limits[0]:
            return [rule.language]
        return [
            i
            for i in every
            if i != generator.tgt_dict.pad() and (i != rule.language or len(prefix) > rule.min_len)
        ]
    complete, given = prefix.count(rule.eos), rule.prefix is not None
    if prefix[-1] == rule.eos:
        return [rule.bos if complete < len(limits) else rule.language]
    if given and prefix[-1] == rule.bos:
        return [rule.prefix]
    words = prefix[::-1].index(rule.bos) - given
    if words >= limits[complete]:
        return [rule.eos]
    return word_indices(generator.tgt_dict) + [rule.eos] * (words >= rule.min_len)


def beam_search(
    generator: DocumentGenerator,
    source: Sequence[int],
    limits: list[int],
    forced: Sequence[int] = (),
) -> list[tuple[float, list[int], list[float]]]:
    """Score, tokens and their log probabilities of each hypothesis, best first, after the sentences
    ``forced``.
    """
    rule, scoring, beam = generator.rule, generator.scoring, generator.scoring.beam
    going_on: list[Candidate] = [(0.0, [*forced, rule.bos], [])]
    finished: list[Candidate] = []
    while going_on and len(finished) < beam:
        prefixes = [prefix for _, prefix, _ in going_on]
        each = [
            log_probabilities(model, source, prefixes)[:, -1] / scoring.temperature
            for model in generator.models
        ]
        rows = (sum(one.softmax(dim=-1) for one in each) / len(each)).log()
        rows[:, scoring.unk] -= scoring.unkpen
        candidates = []
        for (total, prefix, costs), row in zip(going_on, rows, strict=True):
            for token in allowed(generator, prefix, limits):
                free = token in (rule.bos, rule.language, rule.prefix) and not generator.free
                cost = 0.0 if free else row[token].item()
                candidates.append((total + cost, [*prefix, token], [*costs, cost]))
        candidates = sorted(candidates, key=lambda one: -one[0])[: 2 * beam]
        finished += [one for one in candidates[:beam] if one[1][-1] == rule.language][
            : beam - len(finished)
        ]
        going_on = [one for one in candidates if one[1][-1] != rule.language][:beam]
    scored = []
    for total, prefix, costs in finished:
        score = total / len(costs) ** scoring.lenpen if scoring.normalise else total
        scored.append((score, prefix[len(forced) + 1 :], costs))
    return sorted(scored, key=lambda one: -one[0])


def assert_same(found: list[dict], expected: list[tuple[float, list[int], list[float]]]) -> None:
    """Compare the generator's hypotheses of a document with those written out."""
    assert [one["tokens"].tolist() for one in found] == [tokens for _, tokens, _ in expected]
    for one, (score, _, costs) in zip(found, expected, strict=True):
        assert abs(one["score"].item() - score) < 1e-5
        assert torch.allclose(
            one["positional_scores"].double(), torch.tensor(costs).double(), atol=1e-5
        )
