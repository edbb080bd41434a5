"""Cutting a translation again: against all ways of cutting it, in time for long documents, and
through the scores.
"""

from __future__ import annotations

import random
import time
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.evaluation.score import score_text
from gtransformer.evaluation.segments import MWER, cut_points, realign
from gtransformer.files import read_json
from tests.core.evaluation.support import HYPOTHESES, jsonl_lines, write_jsonl
from tests.support import command

main = command("score")


def distance(one: list[str], other: list[str]) -> int:
    """Word edit distance, written out."""
    row = list(range(len(other) + 1))
    for number, word in enumerate(one, 1):
        before, row = row, [number]
        for at, wanted in enumerate(other, 1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (word != wanted)))
    return row[-1]


def cost(
    words: list[str], references: list[list[str]], cuts: list[int], own: list[int]
) -> tuple[int, int]:
    """Edits, and cuts that are not where the translation has borders itself."""
    edits = sum(
        distance(words[a:b], one) for (a, b), one in zip(pairwise(cuts), references, strict=True)
    )
    return edits, sum(cut not in (0, len(words), *own) for cut in cuts)


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=4),
    st.lists(st.sampled_from("abcd"), max_size=7),
    st.sets(st.integers(0, 7), max_size=2),
)
def test_equals_exhaustive_search(references, words, borders):
    own = [border for border in borders if border <= len(words)]
    every = combinations_with_replacement(range(len(words) + 1), len(references) - 1)
    best = min(cost(words, references, [0, *inner, len(words)], own) for inner in every)
    cuts = cut_points(words, references, own)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, len(words), len(references) + 1)
    assert cost(words, references, cuts, own) == best


def test_a_document_of_ten_thousand_words():
    """Every tenth word lost; the borders are found again, and soon."""
    draw = random.Random(2)
    words = [f"w{draw.randrange(3000)}" for _ in range(10_000)]
    references = [words[at : at + 20] for at in range(0, len(words), 20)]
    kept = [[word for number, word in enumerate(one) if number % 10] for one in references]
    began = time.process_time()
    cuts = cut_points([word for one in kept for word in one], references)
    assert time.process_time() - began < 20
    assert cuts == list(range(0, 9001, 18))


@pytest.mark.parametrize(
    ("sentences", "references", "tokenizer", "expected"),
    [
        (
            ["Er  ist da. Sie", "kommt."],
            ["Er ist da.", "Sie kommt.", "Wer?"],
            "13a",
            ["Er  ist da.", "Sie kommt.", ""],
        ),
        (["我是人", "你"], ["我", "是人", "你"], "zh", ["我", "是人", "你"]),
        (
            ["我喜欢猫。你喜欢狗。", ""],
            ["我喜欢猫。", "你喜欢狗。"],
            "char",
            ["我喜欢猫。", "你喜欢狗。"],
        ),
        (["ผมชอบแมวคุณชอบหมา", ""], ["ผมชอบแมว", "คุณชอบหมา"], "char", ["ผมชอบแมว", "คุณชอบหมา"]),
        (
            ["今年推出2023我们的GPU快", ""],
            ["推出5G", "我们GPU快"],
            "zh",
            ["今年推出2023", "我们的GPU快"],
        ),
        (["Er ist. Sie", "war."], ["Er ist.", "Sie war."], "13a", ["Er ist.", "Sie war."]),
        (["x y", "z"], ["a", "b"], "13a", ["x y", "z"]),  # whatever costs the same: its own border
        ([], ["a", "b"], "13a", ["", ""]),
    ],
)
def test_text_is_cut_not_changed(sentences, references, tokenizer, expected):
    assert realign(sentences, references, tokenizer) == expected


def test_the_document_of_an_instance_with_other_sentences(prepared, tmp_path, capsys):
    """Two sentences written as one; the table says so, and d-BLEU has nothing to do with it."""
    joined = [
        ["das Haus ist neu . er ist auch gro@@ ß ."],
        ["du kennst es gut ."],
        HYPOTHESES[2],
    ]
    path = write_jsonl(tmp_path / "joined.jsonl", jsonl_lines(joined))
    assert main([str(prepared), "--hypotheses", str(path), "--align", "mwer"]) == 0
    result, shown = (
        read_json(tmp_path / "joined.scores.json"),
        capsys.readouterr().out,
    )
    assert (
        result["counts"]["misaligned_instances"] == 1
        and "1 instances (of plain text: documents)" in shown
    )
    assert (tmp_path / "joined.txt").read_text(encoding="utf-8").splitlines() == [
        "<d>", "Das Haus ist neu.", "Er ist auch groß.", "Du kennst es gut.",
        "<d>", "Ich sehe den Hund.", "Er bellt nachts in der Nacht.",
    ]  # fmt: skip
    scores = result["scores"]["raw"]
    assert (
        scores["s_bleu"]["signature"].endswith("|align:mwer")
        and "align" not in scores["d_bleu"]["signature"]
    )


def test_plain_text_of_other_numbers(tmp_path):
    reference, text = tmp_path / "ref.txt", tmp_path / "out.txt"
    reference.write_text("<d>\na b\nc d\n<d>\ne f\n")
    text.write_text("<d>\na b c\nd\n<d>\ne\nf\n")
    found = score_text(reference, text, alignment=MWER)
    assert found.scores["raw"].segments.text == [
        ["a b c", "d"],
        ["e f"],
    ]  # equal numbers stay as they are
    assert found.counts["misaligned_instances"] == 1
    assert "align" not in found.scores["raw"].values["d_bleu"].signature
    text.write_text("a b\nc d\ne f\n")
    assert score_text(reference, text, alignment=MWER).scores["raw"].values["ter"].score == 0
