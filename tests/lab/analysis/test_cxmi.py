"""CXMI: against single sentences scored by hand, exactly 0 without context, and by word."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

from gtransformer.evaluation.instances import capacity_of
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.lab.analysis.cxmi import (
    ALL_CONTEXT,
    SentenceTokens,
    by_word,
    most_helped,
    report,
    score_contexts,
)
from gtransformer.lab.cli.cxmi import main
from gtransformer.lab.items.batch_scores import BatchScorer
from gtransformer.lab.items.split_instances import corpus_instances
from gtransformer.plugin.sentences import SentenceSpan
from tests.core.evaluation.any_system import make_system, score_by_hand
from tests.core.evaluation.corpus_tasks import PREPARED, doc_task, sentences_of
from tests.core.models.batch_documents import document, made
from tests.core.models.test_docflat import ABD, DOCFLAT, MBE
from tests.lab.items.test_batch_scores import SpelledOut
from tests.saved_model import make_checkpoint

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("system", ["gtransformer", "window linear"])
def test_every_term_by_hand(system):
    """Nothing, one and all previous sentences that a model of 60 target tokens takes."""
    task, corpus = doc_task(instances="parts", instance_tokens=60), sentences_of("valid")
    dictionary, contexts = task.target_dictionary, [0, 1, ALL_CONTEXT]
    model = make_system(system, dictionary)
    instances = corpus_instances(task, PREPARED, "valid", capacity_of(task.options.scheme, PREPARED))
    found = score_contexts(SentenceScorer(model, dictionary, dictionary, 300), instances, contexts)
    assert [(one.document, one.sentence) for one in found] == sorted(corpus)
    for one in found[1:12:4]:
        most = [0, min(1, one.context[2]), one.context[2]]
        assert one.context == most and one.tokens == corpus[one.document, one.sentence][1]
        for scores, back in zip(one.scores, most, strict=True):
            text = [corpus[one.document, number] for number in range(one.sentence - back, one.sentence + 1)]
            source, target = map(list, zip(*text, strict=True))
            assert len(scores) == len(target[-1]) + 1
            assert sum(scores) == pytest.approx(score_by_hand(model, dictionary, source, target, back), abs=1e-9)
    assert max(one.context[2] for one in found) > 1


def test_models_that_read_their_batch_read_no_farther_back(dictionary):
    """Of one previous sentence, that sentence alone is beside the last; the batch is written out, NumPy's."""
    model, batch = made(dictionary, *DOCFLAT), document(dictionary, sentences=4)
    source, target = ([tokens[1:-1] for tokens in side] for side in (batch.source, batch.target))
    spans = [SentenceSpan(0, max(0, i - 2), min(i, 2) + 1, (i, 1)) for i in range(4)]
    behind = lambda i: tuple(side[max(0, i - 2) : i + 1] for side in (source, target))  # noqa: E731
    corpus = Namespace(spans=spans, read=behind)
    *_, last = score_contexts(BatchScorer(model, dictionary, dictionary, 16), corpus, [0, 1, ALL_CONTEXT])
    spelled, alone = SpelledOut(model, dictionary), lambda i: (source[i : i + 1], target[i : i + 1])
    expected = [
        spelled.score([alone(3)], [4]),
        spelled.score([alone(2), (source[2:], target[2:])], [3, 3]),
        spelled.score([behind(i) for i in range(4)], [1, 1, 1, 2]),
    ]
    assert list(map(sum, last.scores)) == pytest.approx(expected, rel=1e-9)


def command(tmp_path, *options: str, more: tuple[str, ...] = ()) -> dict:
    checkpoint = make_checkpoint(PREPARED, tmp_path / "checkpoint.pt", *options)
    line = [
        str(PREPARED),
        f"--path={checkpoint}",
        f"--output={tmp_path / 'cxmi.json'}",
        "--cpu",
        "--split=valid",
        *more,
    ]
    assert main(line) == 0
    return json.loads((tmp_path / "cxmi.json").read_text(encoding="utf-8"))


def test_a_model_without_context_has_exactly_nothing(tmp_path, capsys):
    result = command(tmp_path, "--instances=disjoint", "--context-sentences=0", more=("--context", "2"))
    assert list(result["contexts"]) == ["0", "2", "all"]
    for part in result["contexts"].values():
        assert part["cxmi"] == part["standard_error"] == part["cxmi_per_sentence"] == 0.0
        assert part["log_probability"] == result["contexts"]["0"]["log_probability"] < 0
        assert part["mean_context_sentences"] == 0
    assert {"command", "commit", "versions", "signature", "checkpoint_sha256"} <= result.keys()
    assert "0.0000" in capsys.readouterr().out
    model = str(tmp_path / "checkpoint.pt")
    assert main([str(PREPARED), f"--path={model}", "--split=valid", "--cpu", "--output", model]) == 1


def test_a_model_with_context_and_its_words(tmp_path):
    words = tmp_path / "words.jsonl"
    options = "--instances=sliding", "--context-sentences=2"
    result = command(tmp_path, *options, more=("--context", "2", "1", "2", f"--words={words}"))
    parts = result["contexts"]
    assert list(parts) == ["0", "1", "2", "all"] and parts["2"] == parts["all"] != parts["1"]
    assert parts["0"]["cxmi"] == 0 and parts["1"]["cxmi"] != 0
    assert parts["2"]["cxmi"] == pytest.approx(parts["2"]["log_probability"] - parts["0"]["log_probability"])
    rows = [json.loads(line) for line in words.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == result["sentences"]
    total = sum(sum(row["p_cxmi"]["2"]) for row in rows)
    assert total / result["tokens"] == pytest.approx(parts["2"]["cxmi"])
    text = (PREPARED / "tok" / "valid.de").read_text(encoding="utf-8").splitlines()
    assert [" ".join(row["words"][:-1]) for row in rows] == [line for line in text if line != "<d>"]


@pytest.mark.parametrize(
    ("pieces", "sentencepiece"), [(["ab@@", "c", "d"], False), (["\u2581ab", "c", "\u2581d"], True)]
)
def test_words_and_means(pieces, sentencepiece):
    """Two sentences of a document and one of another; pieces of a word are summed."""
    scores = [[-2.0, -1.0, -4.0, -1.0], [-1.5, -1.0, -1.0, -1.0]]
    found = [SentenceTokens(d, s, [0, 1, 2], scores, [0, 1]) for d, s in ((0, 0), (0, 1), (1, 0))]
    rows = list(by_word(found * 4, [0, 1], pieces, sentencepiece))
    assert rows[0]["words"] == ["abc", "d", "</s>"] and rows[0]["p_cxmi"] == {"1": [0.5, 3.0, 0.0]}
    assert most_helped(rows, "1")[0] == {"word": "d", "occurrences": 12, "p_cxmi": 3.0}
    assert not most_helped(rows[:9], "1")
    part = report(found, [0, 1])["contexts"]["1"]
    assert part["cxmi"] == pytest.approx(3.5 / 4) and part["cxmi_per_sentence"] == pytest.approx(3.5)
    assert part["standard_error"] == pytest.approx(0)  # both documents have the same mean


@pytest.mark.parametrize(
    ("kinds", "options"),
    [(DOCFLAT, {}), (ABD, {}), (MBE, {}), (DOCFLAT, {"batch_attention_in": "none"})],
    ids=["docflat", "abd", "mbe", "no batch attention"],
)
def test_what_is_counted_as_read_is_read(dictionary, kinds, options):
    """Of each sentence of a batch of pseudo-documents: another text there changes the score, or it is not counted."""
    model = made(dictionary, *kinds, **options)
    sides = [[[word + i, word + i + 1, word] for i in range(5)] for word in (5, 7)]
    spans = [SentenceSpan(0, max(0, i - 2), min(i, 2) + 1, (i, 1)) for i in range(5)]
    scorer = BatchScorer(model, dictionary, dictionary, 3)  # the last one has two beside it, the first of them with two

    def last(changed: int | None = None) -> SentenceTokens:
        texts = [[[4, 4, 4] if i == changed else tokens for i, tokens in enumerate(side)] for side in sides]
        corpus = Namespace(spans=spans, read=lambda i: tuple(side[max(0, i - 2) : i + 1] for side in texts))
        return score_contexts(scorer, corpus, [0, ALL_CONTEXT])[-1]

    whole = last()
    read = [4 - i for i in range(4) if last(i).scores[1] != whole.scores[1]]
    assert whole.context == [0, max(read)] and sorted(read) == list(range(1, max(read) + 1))


def test_means_over_sentences():
    """Of four tokens and of one: the mean by token, of sums and of means; the last is how the authors' code has it."""
    found = [SentenceTokens(0, 0, [1, 2, 3], [[-2.0] * 4, [-1.0] * 4], [0, 1]),
             SentenceTokens(1, 0, [], [[-5.0], [-3.0]], [0, 1])]  # fmt: skip
    part = report(found, [0, 1])["contexts"]["1"]
    assert part["cxmi"] == pytest.approx((4 + 2) / 5)
    assert part["cxmi_per_sentence"] == pytest.approx((4 + 2) / 2)
    assert part["cxmi_mean_of_means"] == pytest.approx((1 + 2) / 2)
