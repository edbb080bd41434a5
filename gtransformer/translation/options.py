"""Search options: those of fairseq's generation that matter for translating a text."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from gtransformer.errors import UserError
from gtransformer.search.strategies import (
    AUTO,
    FULL,
    SENTENCE_RULES,
    SLIDING,
    STRATEGIES,
    Strategy,
    check_sentence_rule,
)

# Options that are for whoever translates to choose, or that the model decides; a recipe does not
# set them.
NOT_OF_RECIPES = ("nbest", "max_tokens", "context_sentences", "sampling_topk", "seed")


@dataclass(frozen=True)
class SearchOptions:
    """Search options with the names and defaults of fairseq-generate and the recipes.

    Attributes:
        beam: width of the beam.
        nbest: number of translations, at most ``beam``.
        lenpen: scores are divided by length ** lenpen.
        max_len_a, max_len_b: a sentence has at most max_len_a * (its source's BPE tokens) +
        max_len_b tokens.
        min_len: minimum tokens of a sentence.
        unkpen: subtracted from the log probability of ``<unk>``.
        max_tokens: BPE tokens of a batch on the source side; a longer instance is a batch of its
            own.
        strategy: how a document is decoded (``search/strategies.py``): one of ``STRATEGIES``.
        window_tokens: for sliding and sequential, maximum source tokens of a window, with ``<s>``
            and ``</s>``.
        context_sentences: for sequential, maximum previous sentences. Without both, the model's
            instances decide.
        sentence_rule: on: exactly as many sentences as the source has; off: the model decides, and
            sentences are assigned to lines by order; auto: the rule of training if it was on or
            off, else on.
        sampling_topk: draw each word from this many most probable ones, 0 from all words; None:
            beam search. It takes a ``beam`` of 1.
        seed: of sampling; None: 1. The same text, model, options and seed give the same
            translation.

    Raises UserError for options that contradict each other.
    """

    beam: int = 5
    nbest: int = 1
    lenpen: float = 1.0
    max_len_a: float = 1.2
    max_len_b: float = 10
    min_len: int = 1
    unkpen: float = 0.0
    max_tokens: int = 4096
    strategy: str = FULL
    window_tokens: int | None = None
    context_sentences: int | None = None
    sentence_rule: str = AUTO
    sampling_topk: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.nbest <= self.beam:
            raise UserError(
                f"--beam {self.beam}, --nbest {self.nbest}: give at least 1, and no more "
                "translations than the beam finds"
            )
        if self.sampling_topk is not None and self.beam > 1:
            raise UserError(
                f"--sampling-topk draws one translation, but --beam is {self.beam}; leave --beam "
                "out"
            )
        check_sentence_rule(self.sentence_rule, self.strategy)
        if self.strategy != SLIDING or self.window_tokens is not None:
            self.decoding_strategy()

    def decoding_strategy(self) -> Strategy:
        """Return the decoding strategy. Raise UserError for an invalid one."""
        return Strategy(self.strategy, self.window_tokens, self.context_sentences)

    def recorded(self) -> dict[str, Any]:
        """Return them for files, without those that are left open."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def changed(self, **values: Any) -> SearchOptions:
        """Return these options with some replaced. Others: TypeError.

        Another strategy takes none of the former's options, and sampling takes no beam.
        """
        # These three belong together: a new one makes the others' old values senseless.
        if values.keys() & {"strategy", "window_tokens", "context_sentences"}:
            values = {"window_tokens": None, "context_sentences": None, **values}
        # All strategies but full need the sentence rule, which a model may have off.
        if values.get("strategy", FULL) != FULL:
            values = {"sentence_rule": AUTO, **values}
        # Sampling draws one translation, whatever beam the model directory names.
        if values.get("sampling_topk", self.sampling_topk) is not None:
            values = {"beam": 1, "nbest": 1, **values}
        return replace(self, **values)

    def given(self, values: Mapping[str, Any]) -> SearchOptions:
        """Return these options with those replaced that a command line gave; what is None or no
        option is left out.
        """
        names = {field.name for field in fields(self)}
        return self.changed(
            **{name: value for name, value in values.items() if name in names and value is not None}
        )


def search_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of fairseq-generate's options, by their dashed names, that are fields of
    SearchOptions.

    Values may be texts, as on a command line.
    """
    types = {"int": int, "float": float, "str": str}
    chosen = {}
    for field in fields(SearchOptions):
        value = options.get(field.name.replace("_", "-"))
        if value is not None and field.name not in NOT_OF_RECIPES:
            chosen[field.name] = types[field.type.removesuffix(" | None")](value)
    return chosen


def add_search_options(
    parser: argparse.ArgumentParser, whose: str = "the model directory's"
) -> None:
    """Add options whose defaults are those of the model directory."""
    add = parser.add_argument_group("search", f"defaults are {whose}").add_argument
    add("--beam", type=int, metavar="N", help="beam size; 1 is greedy search")
    lenpen = "length penalty: scores are divided by length ** P"
    add("--lenpen", type=float, metavar="P", help=lenpen)
    longest = "a sentence has at most A * (its source tokens) + B tokens"
    add("--max-len-a", type=float, metavar="A", help=longest)
    add("--max-len-b", type=float, metavar="B", help="see --max-len-a")
    add("--min-len", type=int, metavar="N", help="a sentence has at least N tokens")
    add("--unkpen", type=float, metavar="P", help="subtract P from the log probability of <unk>")
    add("--max-tokens", type=int, metavar="N", help="translate batches of at most N source tokens")
    drawn = "draw each word from the K most probable ones; 0: from all"
    add("--sampling-topk", type=int, metavar="K", help=drawn)
    add("--seed", type=int, metavar="N", help="seed of --sampling-topk (default: 1)")
    add("--strategy", choices=STRATEGIES, help="how documents are decoded (docs/translate.md)")
    window = "sliding, sequential: source tokens of a window"
    add("--window-tokens", type=int, metavar="W", help=window)
    context = "sequential: number of previous sentences"
    add("--context-sentences", type=int, metavar="K", help=context)
    rule = "on: write as many sentences as the source has; off: the model decides; auto: as in "
    rule += "training, else on"
    add("--sentence-rule", choices=SENTENCE_RULES, help=rule)
