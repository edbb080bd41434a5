"""BLEU in validation equals sacrebleu on the joined lists, however they are cut into batches and
workers.
"""

from __future__ import annotations

import random

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from gtransformer.plugin.scores import DocumentDictionary
from gtransformer.plugin.validation import sentence_bleu
from tests.support import tiny_task

WORDS = "der die das Haus Hund Tag ist war gut , . !".split()


def task_of(words: list[str], **options):
    """A task whose dictionary has these words."""
    dictionary = DocumentDictionary()
    for word in words:
        dictionary.add_symbol(word)
    return tiny_task(dictionary, langs="en,de,fr,zh", **options)


def bleu(task, hypotheses: list[str], references: list[str]):
    """BLEU of a batch of instances ``<s> a </s> <s> b </s>``."""
    words = task.target_dictionary
    sides = [
        [words.encode_line(text, append_eos=False, add_if_not_exist=False) for text in texts]
        for texts in (hypotheses, references)
    ]
    targets = torch.nn.utils.rnn.pad_sequence(sides[1], True, words.pad())
    return sentence_bleu(task, [[{"tokens": tokens}] for tokens in sides[0]], targets)


def instance(sentences: list[str]) -> str:
    return " ".join(f"<s> {sentence} </s>" for sentence in sentences)


@pytest.mark.parametrize("tokenised", [True, False])
def test_counts_add_up_to_sacrebleu(tokenised):
    draw = random.Random(1)
    references = [
        [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(draw.randint(1, 6))]
        for _ in range(12)
    ]
    hypotheses = []
    for sentences in references:
        noisy = [
            [word if draw.random() < 0.8 else draw.choice(WORDS) for word in line.split()]
            for line in sentences
        ]
        hypotheses.append([" ".join(words) for words in noisy])
    task, logs = task_of(WORDS, eval_bleu=True, eval_tokenized_bleu=tokenised), []
    for first, last in ((0, 5), (5, 6), (6, 12)):
        texts = (list(map(instance, side[first:last])) for side in (hypotheses, references))
        score = bleu(task, *texts)
        counts = {f"_bleu_counts_{place}": count for place, count in enumerate(score.counts)}
        counts |= {f"_bleu_totals_{place}": count for place, count in enumerate(score.totals)}
        lengths = {"_bleu_sys_len": score.sys_len, "_bleu_ref_len": score.ref_len}
        loss = {"loss": 1.0, "nll_loss": 1.0, "ntokens": 1, "nsentences": 1, "sample_size": 1}
        logs.append(counts | lengths | loss)
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    with metrics.aggregate() as found:
        task.reduce_metrics(logs[:2], criterion)
        task.reduce_metrics(logs[2:], criterion)
    metric = BLEU(tokenize="none" if tokenised else "13a", force=True)
    flat = [[line for sentences in side for line in sentences] for side in (hypotheses, references)]
    expected = metric.corpus_score(flat[0], [flat[1]]).score
    assert 20 < expected < 95
    assert found.get_smoothed_values()["bleu"] == pytest.approx(expected, abs=0.006)


def test_translations_without_a_word_are_counted():
    """A metric that is not logged ends the training."""
    score = bleu(task_of(WORDS), ["<s> </s>"], ["<s> der Hund . </s>"])
    assert max(score.totals) == 1 and score.counts == [0] * 4


def test_sentences_are_detokenised():
    """--eval-bleu-detok, in the languages of the task."""
    text = "so , it &apos;s l' arbre !"
    for lang in ("en", "fr"):
        task = task_of(text.split(), eval_bleu_detok="moses", target_lang=lang)
        plain = MosesDetokenizer(lang).detokenize(text.split())
        expected = BLEU().corpus_score([plain], [[plain]])
        score = bleu(task, [instance([text])], [instance([text])])
        assert plain != text and score.totals == expected.totals


@pytest.mark.parametrize(
    ("hypothesis", "pairs"),
    [
        (["a", "x"], [("a", "a"), ("x", "x y z")]),
        (["a"], [("a", "a"), ("", "x y z")]),
        (["x y z"], [("x y z", "a"), ("", "x y z")]),
        (["a", "x", "y", "z"], [("a", "a"), ("x y z", "x y z")]),
    ],
)
def test_sentences_are_aligned_by_order(hypothesis, pairs):
    """Missing ones are empty, surplus ones join the last."""
    task = task_of("a x y z".split(), eval_tokenized_bleu=True)
    score = bleu(task, [instance(hypothesis)], [instance(["a", "x y z"])])
    hypotheses, references = zip(*pairs, strict=True)
    expected = BLEU(tokenize="none", force=True).corpus_score(hypotheses, [references])
    assert (score.counts, score.totals) == (expected.counts, expected.totals)


@pytest.mark.parametrize("before", [["c d"], ["c", "c"]])
def test_context_is_left_out(before):
    """Of instances with context the last sentence counts alone."""
    context = {"instances": "sliding", "context_sentences": 1}
    task = task_of("a b c d".split(), eval_tokenized_bleu=True, **context)
    score = bleu(task, [instance([*before, "a b"])], [instance(["d d", "a b"])])
    assert (score.counts[:2], score.totals[:2], score.ref_len) == ([2, 1], [2, 1], 2)


@pytest.mark.parametrize("tokenised", [True, False])
def test_unknown_words_are_no_match(tokenised):
    task = task_of(["a", "b"], eval_tokenized_bleu=tokenised)
    score = bleu(task, ["a x b </s>"], ["a y b </s>"])
    assert (score.counts[0], score.totals[0]) == (2, 3)


def test_a_language_without_spaces_is_not_counted_by_words():
    """One wrong word of a sentence leaves n-grams that are right."""
    texts = "今天 天气 不好 ， 我们 去 公园 。", "今天 天气 很好 ， 我们 去 公园 。"
    task = task_of(" ".join(texts).split(), target_lang="zh")
    score = bleu(task, [instance(texts[:1])], [instance(texts[1:])])
    plain = ["".join(text.split()) for text in texts]
    assert score.counts == BLEU(tokenize="zh").corpus_score(plain[:1], [plain[1:]]).counts
