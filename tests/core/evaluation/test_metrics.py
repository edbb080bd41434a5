"""chrF and TER equal sacrebleu's command; scores of groups come from the same counts."""

from __future__ import annotations

import re

import pytest
from sacrebleu.metrics import BLEU

from gtransformer.errors import UserError
from gtransformer.evaluation import metrics
from gtransformer.evaluation.breakdown import by_document, by_position, position_name
from gtransformer.evaluation.metrics import METRICS, SegmentStatistics, make_metric
from gtransformer.evaluation.segments import segments_of_text
from tests.core.evaluation.corpus_metric import corpus_metric

HYPOTHESIS = [["Das Haus, sagt er, ist alt.", "Wir sehen (morgen) 3,5 Hunde!", "", "Und er geht."], ["Ja, er kommt."]]
REFERENCE = [["Das Haus, sagte er, ist alt.", "Wir sehen 3,5 Hunde.", "Ja, gewiss.", "Er geht."], ["Ja, sie kommt."]]


def flat(documents: list[list[str]]) -> list[str]:
    return [sentence for document in documents for sentence in document]


def test_a_tokeniser_whose_package_or_model_is_not_there(monkeypatch):
    """sacrebleu fetches models and needs packages: one sentence, whatever the library raises."""
    for error in (RuntimeError("pip install sacrebleu[ja]"), OSError("no network"), ImportError("sentencepiece")):
        monkeypatch.setattr(metrics, "BLEU", Raising(error))
        with pytest.raises(UserError, match=rf"'ja-mecab' cannot be used here \({re.escape(str(error))}\); install"):
            make_metric("bleu", "ja-mecab")


class Raising:
    """sacrebleu's BLEU where what it needs is not installed."""

    TOKENIZERS = BLEU.TOKENIZERS

    def __init__(self, error: Exception):
        self.error = error

    def __call__(self, **options):
        raise self.error


@pytest.mark.parametrize(
    ("name", "start"),
    [("chrf", "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no"), ("ter", "nrefs:1|case:lc|tok:tercom")],
)
def test_equals_the_command(name, start, tmp_path, helpers) -> None:
    ours = corpus_metric(name, flat(HYPOTHESIS), flat(REFERENCE))
    command = helpers.sacrebleu_command(flat(HYPOTHESIS), flat(REFERENCE), tmp_path, "--metrics", name)
    assert round(ours.score, 14) == command["score"]
    assert ours.signature.startswith(start) and ours.signature.endswith(f"version:{command['version']}")
    assert command["signature"] == ours.signature
    assert 20 < ours.score < 90 and ours.segments == 5


@pytest.mark.parametrize("name", METRICS)
def test_groups_equal_a_corpus_of_the_group(name) -> None:
    statistics = SegmentStatistics(name, flat(HYPOTHESIS), flat(REFERENCE))
    for group in ([0], [1, 4], [0, 1, 2, 3, 4]):
        hypotheses, references = ([flat(side)[i] for i in group] for side in (HYPOTHESIS, REFERENCE))
        assert statistics.score(group) == corpus_metric(name, hypotheses, references).score
    assert statistics.score() == statistics.score(range(5)) != statistics.score([0])
    assert statistics.signature == corpus_metric(name, ["a"], ["a"]).signature


def test_by_document_and_position() -> None:
    segments = segments_of_text(HYPOTHESIS, REFERENCE, "13a")
    documents = by_document(segments, METRICS)
    assert [(row["document"], row["sentences"]) for row in documents] == [(0, 4), (1, 1)]
    for row, hypothesis, reference in zip(documents, HYPOTHESIS, REFERENCE, strict=True):
        assert row["s_bleu"] == corpus_metric("bleu", hypothesis, reference).score
        assert row["s_bleu_lc"] == corpus_metric("bleu-lc", hypothesis, reference).score
        assert row["chrf"] == corpus_metric("chrf", hypothesis, reference).score
        assert row["ter"] == corpus_metric("ter", hypothesis, reference).score
        joined = [" ".join(sentence for sentence in side if sentence) for side in (hypothesis, reference)]
        assert row["d_bleu"] == corpus_metric("bleu", joined[:1], joined[1:]).score
        assert row["d_bleu_lc"] == corpus_metric("bleu-lc", joined[:1], joined[1:]).score
    positions = by_position(segments, ("chrf",))
    assert [(row["position"], row["sentences"]) for row in positions] == [("1", 2), ("2", 1), ("3", 1), ("4-6", 1)]
    first = [[documents[0] for documents in side] for side in (HYPOTHESIS, REFERENCE)]
    assert positions[0] == {"position": "1", "sentences": 2, "chrf": corpus_metric("chrf", *first).score}


def test_names_of_positions() -> None:
    names = [position_name(position) for position in (1, 3, 4, 6, 7, 12, 13, 48, 49, 4000)]
    assert names == ["1", "3", "4-6", "4-6", "7-12", "7-12", "13-24", "25-48", "49+", "49+"]


def test_ter_of_unspaced_scripts_counts_characters() -> None:
    """Without the switch a Chinese sentence would be one word: all right or all wrong."""
    assert corpus_metric("ter", ["我喜欢狗"], ["我喜欢猫"], "zh").score == pytest.approx(25)
    assert corpus_metric("ter", ["我喜欢狗"], ["我喜欢猫"]).score == pytest.approx(100)


def test_wrong_input() -> None:
    with pytest.raises(UserError, match="unknown metric 'meteor'; choose from: bleu, bleu-lc, chrf, ter"):
        make_metric("meteor")
    with pytest.raises(UserError, match="2 translated segments stand against 1 references"):
        SegmentStatistics("chrf", ["a", "b"], ["a"])
    with pytest.raises(UserError, match="no segment"):
        SegmentStatistics("ter", [], [])
