"""Corpus BLEU equals its definition and sacrebleu's own command."""

from __future__ import annotations

import pytest

from gtransformer.errors import UserError
from gtransformer.evaluation.bleu import corpus_bleu, document_segments, sentence_segments

HYPOTHESIS = [["the cat sat on the mat .", "it was a very warm day ."], ["the dog ran away from us today ."]]
REFERENCE = [["the cat sat on a mat .", "it was a very hot day ."], ["the dog ran away from him today ."]]


@pytest.mark.parametrize("segments", [sentence_segments, document_segments])
def test_equals_the_definition(segments, helpers) -> None:
    result = corpus_bleu(segments(HYPOTHESIS), segments(REFERENCE), "none")
    assert result.score == pytest.approx(helpers.plain_bleu(segments(HYPOTHESIS), segments(REFERENCE)), abs=1e-9)
    assert result.segments == {"sentence_segments": 3, "document_segments": 2}[segments.__name__]


def test_document_segments_match_across_sentence_boundaries() -> None:
    """The same words, cut elsewhere: sentence pairs differ, the document is the same."""
    hypothesis = [["a b c d e", "f g h i"]]
    reference = [["a b c d", "e f g h i"]]
    assert corpus_bleu(document_segments(hypothesis), document_segments(reference), "none").score == pytest.approx(100)
    assert corpus_bleu(sentence_segments(hypothesis), sentence_segments(reference), "none").score < 90


def test_empty_sentences_leave_no_gap_in_a_document() -> None:
    assert document_segments([["a", "", "b"], [""]]) == ["a b", ""]


@pytest.mark.parametrize("tokenizer", ["13a", "none"])
def test_equals_the_command(tokenizer, tmp_path, helpers) -> None:
    hypothesis = ["Das Haus, sagt er, ist alt.", "Wir sehen (morgen) 3,5 Hunde!", ""]
    reference = ["Das Haus, sagte er, ist alt.", "Wir sehen morgen 3,5 Hunde.", "Ja, gewiss doch."]
    ours = corpus_bleu(hypothesis, reference, tokenizer)
    command = helpers.sacrebleu_command(hypothesis, reference, tmp_path, "--tokenize", tokenizer, "--force")
    assert round(ours.score, 14) == command["score"]
    version = ours.signature.split("|version:")[1]
    assert ours.signature == (
        f"nrefs:1|case:{command['case']}|eff:{command['eff']}|tok:{tokenizer}|smooth:{command['smooth']}|version:{version}"
    )
    assert version == command["version"]


def test_wrong_input() -> None:
    with pytest.raises(UserError, match="2 translated segments stand against 1 references"):
        corpus_bleu(["a", "b"], ["a"])
    with pytest.raises(UserError, match="no segment"):
        corpus_bleu([], [])
    with pytest.raises(UserError, match="no tokeniser 'klingon'.*13a"):
        corpus_bleu(["a"], ["a"], "klingon")
