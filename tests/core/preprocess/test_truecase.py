"""Truecasing by Moses' rules."""

from __future__ import annotations

from collections import Counter

import pytest
from sacremoses import MosesTruecaser

from gtransformer.files import read_lines
from gtransformer.preprocess import truecase
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser, count_casings, detruecase_line, train_truecaser, write_model

pytestmark = pytest.mark.slow


def test_sentence_starts_are_not_counted():
    counts = count_casings(["The cat saw The cat . The end : Cats !", '" You " and ( Me ) 3 Us', "<d>x"])
    assert counts == Counter({"cat": 2, "saw": 1, "The": 1, "end": 1, "and": 1, "Me": 1, "Us": 1})


def test_model_file_format(tmp_path):
    write_model(Counter({"the": 5, "The": 2, "THE": 1, "Berlin": 3, "us": 1, "US": 1}), tmp_path / "model")
    assert list(read_lines(tmp_path / "model")) == ["Berlin (3/3)", "the (5/8) The (2) THE (1)", "us (1/2) US (1)"]


@pytest.fixture
def truecaser(tmp_path):
    write_model(Counter({"the": 5, "The": 2, "Berlin": 3, "cat": 2, "it": 4, "IT": 2}), tmp_path / "model")
    return Truecaser(tmp_path / "model")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The cat", "the cat"),
        ("BERLIN saw THE cat", "Berlin saw the cat"),  # unseen casings become the best one, wherever they stand
        ("see The IT", "see The IT"),  # seen ones stay
        ("IT is . IT is", "it is . it is"),  # but at sentence starts
        ('" The cat " : The', '" the cat " : the'),
        ("( The", "( the"),
        ("Unseen words Stay", "Unseen words Stay"),
        ("3 The", "3 The"),  # a number has opened the sentence
        ("", ""),
    ],
)
def test_truecase(truecaser, line, expected):
    assert truecaser([line]) == [expected]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the cat . it saw : a dog", "The cat . It saw : A dog"),
        ('" the ( cat', '" The ( cat'),
        ("élan ßa", "Élan ßa"),
        ("3 cats", "3 cats"),
        ("გამარჯობა .", "გამარჯობა ."),  # Georgian begins no sentence with a capital
        ("", ""),
    ],
)
def test_detruecase(line, expected):
    assert detruecase_line(line) == expected


def test_workers_and_cuts_change_nothing(write, tmp_path, monkeypatch):
    corpus = write("corpus", "".join(f"<d>\nThe word{i % 7} and Word{i % 5} .\n" for i in range(300)))
    train_truecaser(corpus, tmp_path / "one", workers=1)
    monkeypatch.setattr(truecase.map_chunks, "__kwdefaults__", None)
    monkeypatch.setattr(truecase.map_chunks, "__defaults__", (1, "", 17))
    train_truecaser(corpus, tmp_path / "two", workers=2)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "one", "two"]


@pytest.mark.parametrize("lang", ["en", "de"])
def test_agrees_with_sacremoses_on_real_text(shared, lang, tmp_path):
    raw = [line for line in read_lines(shared / "ted" / f"concatenated_en2de_dev_{lang}.txt.xz") if line != "<d>"]
    lines = Tokeniser(lang)(raw[:1500])
    write_model(count_casings(lines), tmp_path / "model")
    other = MosesTruecaser()
    other.train([line.split() for line in lines])
    assert {form for forms in other.model["casing"].values() for form in forms} == set(count_casings(lines))
    ours, other = Truecaser(tmp_path / "model"), MosesTruecaser(str(tmp_path / "model"))
    # The words that sacremoses' own rule for known casings (off by default, on in Moses) leaves alone.
    test = Tokeniser(lang)(raw[1500:2500])
    assert ours(test) == [other.truecase(line, return_str=True, use_known=True) for line in test]
    assert sum(a != b for a, b in zip(ours(test), test, strict=True)) > 500
