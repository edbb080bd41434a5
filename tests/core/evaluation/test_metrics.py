"""Every metric equals sacrebleu's command; scores of groups those of a corpus of the group."""

from __future__ import annotations

import pytest

from gtransformer.evaluation.metrics import DEFAULT_METRICS, SegmentStatistics
from gtransformer.evaluation.segments import document_segments, sentence_segments
from tests.core.evaluation.support import sacrebleu_command

HYPOTHESIS = [
    ["Das Haus, sagt er, ist alt.", "Wir sehen (morgen) 3,5 Hunde!", "", "Und er geht."],
    ["Ja, er kommt.", "Gut!"],
]
REFERENCE = [
    ["Das Haus, sagte er, ist alt.", "Wir sehen 3,5 Hunde.", "Ja, gewiss.", "Er geht."],
    ["Ja, sie kommt.", "Gut!"],
]


def score(name: str, hypotheses: list[str], references: list[str], tokenizer: str = "13a") -> float:
    return SegmentStatistics(name, hypotheses, references, tokenizer).whole().score


def test_equals_the_command(tmp_path):
    sides = sentence_segments(HYPOTHESIS), sentence_segments(REFERENCE)
    commands = sacrebleu_command(*sides, tmp_path, "--metrics", *DEFAULT_METRICS, "--force")
    for name, command in zip(DEFAULT_METRICS, commands, strict=True):
        ours = SegmentStatistics(name, *sides, "13a").whole()
        assert round(ours.score, 14) == command["score"] and ours.signature == command["signature"]
        assert 20 < ours.score < 90 and ours.segments == 6


def test_documents_match_across_the_borders_of_sentences():
    """The same words, cut elsewhere: pairs of sentences differ, the document is the same; empty
    ones leave no gap.
    """
    sides = [["a b c d e", "", "f g h i"]], [["a b c d", "e", "f g h i"]]
    assert score("bleu", *map(document_segments, sides), "none") == pytest.approx(100)
    assert score("bleu", *map(sentence_segments, sides), "none") < 90
    assert document_segments([["a", "", "b"], [""]]) == ["a b", ""]


@pytest.mark.parametrize("name", DEFAULT_METRICS)
def test_groups_equal_a_corpus_of_the_group(name):
    sides = sentence_segments(HYPOTHESIS), sentence_segments(REFERENCE)
    statistics = SegmentStatistics(name, *sides)
    for group in ([0], [1, 4, 5], [0, 1, 2, 3, 4, 5]):
        assert statistics.score(group) == score(name, *([side[i] for i in group] for side in sides))
    assert statistics.score(range(6)) == statistics.whole().score != statistics.score([0])


def test_ter_of_unspaced_scripts_counts_characters():
    """Without the switch a Chinese sentence would be one word: all right or all wrong."""
    assert score("ter", ["我喜欢狗"], ["我喜欢猫"], "zh") == pytest.approx(25)
    assert score("ter", ["我喜欢狗"], ["我喜欢猫"]) == pytest.approx(100)
    for tokenizer in (
        "spm",
        "flores101",
        "flores200",
        "spBLEU-1K",
    ):  # of any language: the script decides
        assert score("ter", ["我喜欢狗"], ["我喜欢猫"], tokenizer) == pytest.approx(25)
        assert score("ter", ["Der Hund da"], ["Der Mund da"], tokenizer) == pytest.approx(100 / 3)
