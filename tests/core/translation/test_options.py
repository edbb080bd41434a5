"""Search options: what contradicts is refused, and what a command line gives replaces a model
directory's.
"""

from __future__ import annotations

import argparse

from gtransformer.translation.options import SearchOptions, add_search_options


def test_the_command_line_replaces_what_it_gives():
    parser = argparse.ArgumentParser()
    add_search_options(parser)
    base = SearchOptions(beam=3, lenpen=0.5)
    args = parser.parse_args(["--beam", "7", "--max-len-b", "0.5", "--sentence-rule", "off"])
    assert base.given(vars(args)) == SearchOptions(
        beam=7, lenpen=0.5, max_len_b=0.5, sentence_rule="off"
    )
    assert base.given({"model": "x", "beam": None}) == base
    sampling = base.given(vars(parser.parse_args(["--sampling-topk", "0", "--seed", "3"])))
    assert sampling == SearchOptions(beam=1, lenpen=0.5, sampling_topk=0, seed=3)
    windows = SearchOptions(strategy="sequential", window_tokens=90)
    assert windows.given({"context_sentences": 2}) == SearchOptions(
        strategy="sequential", context_sentences=2
    )


def test_another_strategy_takes_none_of_the_formers_options():
    default = SearchOptions(strategy="sliding", window_tokens=9)
    assert default.given({"strategy": "full", "window_tokens": None}) == SearchOptions()
    by_sentence = default.changed(strategy="sequential", context_sentences=2)
    assert by_sentence == SearchOptions(strategy="sequential", context_sentences=2)
    free = SearchOptions(sentence_rule="off")
    assert free.given({"strategy": "sequential", "context_sentences": 1}).sentence_rule == "auto"
    assert free.given({"strategy": "full"}) == free


def test_what_is_recorded_is_read_again():
    for options in (
        SearchOptions(),
        SearchOptions(sampling_topk=0, beam=1),
        SearchOptions(strategy="sliding"),
    ):
        assert (
            None not in options.recorded().values()
            and SearchOptions(**options.recorded()) == options
        )
