"""Search options: what cannot be is refused in a sentence."""

from __future__ import annotations

import argparse

import pytest

from gtransformer.errors import UserError
from gtransformer.translation.options import SearchOptions, add_search_options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, "--beam 0: must be at least 1"),
        ({"max_tokens": 0}, "--max-tokens 0"),
        ({"nbest": 6}, "--nbest 6 is more than --beam 5"),
        ({"max_len_a": -1}, "--max-len-a -1: must not be negative"),
        ({"max_len_a": 0, "max_len_b": 0}, "leaves no word"),
        ({"sentence_rule": "maybe"}, "--sentence-rule maybe is unknown; choose one of auto, on, off"),
        (
            {"sentence_rule": "off", "strategy": "sequential", "context_sentences": 1},
            "--sentence-rule off: --strategy sequential",
        ),
        ({"sampling_topk": -1, "beam": 1}, "--sampling-topk -1: must not be negative"),
        ({"sampling_topk": 5}, "--sampling-topk draws one translation, but --beam is 5"),
        ({"seed": 5}, "--seed 5: beam search draws nothing"),
        (
            {"strategy": "parallel", "sampling_topk": 3, "beam": 1},
            "is for plain beam search; leave --sampling-topk out",
        ),
        ({"min_len": 9, "max_len_a": 0, "max_len_b": 3}, "--min-len 9 is more than --max-len-b 3"),
        ({"strategy": "sliding", "nbest": 2}, "makes one translation of each line"),
        ({"strategy": "sequential", "context_sentences": 0}, "--context-sentences 0: --strategy sequential"),
    ],
)
def test_mistakes(values, message):
    with pytest.raises(UserError, match=message):
        SearchOptions(**values)


def test_the_command_line_replaces_what_it_gives():
    parser = argparse.ArgumentParser()
    add_search_options(parser)
    base = SearchOptions(beam=3, lenpen=0.5)
    args = parser.parse_args(["--beam", "7", "--max-len-b", "0.5", "--sentence-rule", "off"])
    assert base.given(vars(args)) == SearchOptions(beam=7, lenpen=0.5, max_len_b=0.5, sentence_rule="off")
    assert base.given({"model": "x", "beam": None}) == base
    sampling = base.given(vars(parser.parse_args(["--sampling-topk", "0", "--seed", "3"])))
    assert sampling == SearchOptions(beam=1, lenpen=0.5, sampling_topk=0, seed=3)
    for name, why in (("lenpen", "compares no"), ("unkpen", "never draws <unk>")):
        with pytest.raises(UserError, match=rf"--{name} 2\.0: --sampling-topk {why}"):
            base.given(vars(parser.parse_args(["--sampling-topk", "5", f"--{name}", "2"])))
        with pytest.raises(UserError, match=f"--sampling-topk {why}"):
            sampling.given({name: 2.0})
    windows = SearchOptions(strategy="sequential", window_tokens=90)
    assert windows.given({"context_sentences": 2}) == SearchOptions(strategy="sequential", context_sentences=2)


def test_what_is_left_open_is_not_recorded():
    open_ = {"window_tokens", "context_sentences", "batch_sentences", "sampling_topk", "seed"}
    assert not open_ & SearchOptions().recorded().keys()
    for chosen in (
        {"sentence_rule": "off"},
        {"batch_sentences": 4},
        {"sampling_topk": 0, "beam": 1},
        {"strategy": "sliding", "window_tokens": 9},
    ):
        options = SearchOptions(**chosen)
        assert chosen.items() <= options.recorded().items() and SearchOptions(**options.recorded()) == options


def test_a_way_through_documents_does_not_take_the_model_directorys_rule():
    """Off is for whole documents; nobody has to switch off what he has not asked for."""
    default = SearchOptions(sentence_rule="off")
    assert default.given({"strategy": "sequential", "context_sentences": 1}).sentence_rule == "auto"
    assert default.given({"strategy": "full"}) == default == default.given({"beam": 5})
