"""BLEU in validation equals sacrebleu on the joined lists, however they are cut into batches and
workers.
"""

import random
import types

import pytest
from fairseq.data import Dictionary
from fairseq.logging import metrics
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from gtransformer.plugin.options import Options
from gtransformer.plugin.validation import (
    BleuValidation,
    bleu_counts,
    current_alone,
    detokeniser,
    generator_options,
    log_bleu,
)
from tests.support import task_config


def random_texts(draw, documents):
    vocabulary = "der die das Haus Hund Tag ist war gut , . !".split()
    references, hypotheses = [], []
    for _ in range(documents):
        reference = [
            " ".join(draw.choices(vocabulary, k=draw.randint(4, 12)))
            for _ in range(draw.randint(1, 6))
        ]
        noisy = [
            " ".join(w if draw.random() < 0.8 else draw.choice(vocabulary) for w in r.split())
            for r in reference
        ]
        references.append(reference)
        hypotheses.append(noisy)
    return hypotheses, references


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_counts_add_up_to_sacrebleu(tokenize):
    hypotheses, references = random_texts(random.Random(1), 12)
    cuts = [(0, 5), (5, 6), (6, 12)]
    logs = [bleu_counts(hypotheses[a:b], references[a:b], tokenize) for a, b in cuts]
    with metrics.aggregate() as found:
        log_bleu(logs[:2])
        log_bleu([{}, *logs[2:]])  # a worker without a batch
    metric = BLEU(tokenize=tokenize, force=True)
    flat = [sentence for document in hypotheses for sentence in document]
    flat_references = [sentence for document in references for sentence in document]
    s_bleu = metric.corpus_score(flat, [flat_references]).score
    d_bleu = metric.corpus_score(
        [" ".join(d) for d in hypotheses], [[" ".join(d) for d in references]]
    ).score
    values = found.get_smoothed_values()
    assert 20 < s_bleu < 95
    assert values["s_bleu"] == pytest.approx(s_bleu, abs=0.006)
    assert values["d_bleu"] == pytest.approx(d_bleu, abs=0.006)
    assert values["bleu"] == values["s_bleu"]
    with metrics.aggregate() as found:
        log_bleu([{}])
    assert "s_bleu" not in found.get_smoothed_values()


def test_translations_without_a_word_score_zero():
    """A metric that is not logged ends the training."""
    with metrics.aggregate() as found:
        log_bleu([bleu_counts([[""]], [["der Hund ."]], "none")])
    values = found.get_smoothed_values()
    assert values["s_bleu"] == values["d_bleu"] == values["bleu"] == 0


def test_options_of_the_generator():
    assert (
        vars(generator_options(None))
        == vars(generator_options("{}"))
        == {"max_len_a": 1.2, "max_len_b": 10}
    )
    assert vars(generator_options('{"beam": 2, "max_len_b": 3}')) == {
        "max_len_a": 1.2,
        "max_len_b": 3,
        "beam": 2,
    }


def test_sentences_are_detokenised():
    """--eval-bleu-detok, in the languages of the task."""
    text = "so , it &apos;s l' arbre !"
    assert detokeniser(task_config())(text) == text
    for lang in ("en", "fr"):
        found = detokeniser(task_config(eval_bleu_detok="moses", target_lang=lang))(text)
        assert found == MosesDetokenizer(lang).detokenize(text.split()) != text


@pytest.mark.parametrize(
    ("hypothesis", "pairs"),
    [
        (["a", "x"], [("a", "a"), ("x", "x y z")]),
        (["a"], [("a", "a"), ("", "x y z")]),
        (["x y z"], [("x y z", "a"), ("", "x y z")]),
        ([], [("", "a"), ("", "x y z")]),
        (["a", "x", "y", "z"], [("a", "a"), ("x y z", "x y z")]),
    ],
)
def test_sentences_are_aligned_by_order(hypothesis, pairs):
    """Missing ones are empty, surplus ones join the last."""
    found = bleu_counts([hypothesis], [["a", "x y z"]], "none")
    apart = bleu_counts([[hyp] for hyp, _ in pairs], [[ref] for _, ref in pairs], "none")
    assert {key: found[key] for key in found if "s_bleu" in key} == {
        key: apart[key] for key in apart if "s_bleu" in key
    }


@pytest.mark.parametrize(
    ("hypothesis", "current"),
    [
        (["a", "b"], "b"),
        (["b"], "b"),
        ([], ""),
        (["a", "a", "b"], "b"),
        (["a", "a", "a", "a", "b"], "b"),
    ],
)
def test_context_is_left_out(hypothesis, current):
    """A sentence that is current alone has all that was written."""
    assert current_alone(hypothesis, ["x", "y"]) == ([current], ["y"])
    assert current_alone(hypothesis, ["y"]) == ([" ".join(hypothesis)], ["y"])


def test_a_language_without_spaces_is_not_counted_by_words():
    """One wrong word of a sentence leaves n-grams that are right."""
    dictionary = Dictionary()
    target, other = (
        dictionary.encode_line(f"<s> {line} </s>", append_eos=False, add_if_not_exist=True)
        for line in ("今天 天气 很好 ， 我们 去 公园 。", "今天 天气 不好 ， 我们 去 公园 。")
    )
    generator = types.SimpleNamespace(
        generate=lambda models, sample, prefix_tokens: [[{"tokens": other}]]
    )
    options = Options(task_config(target_lang="zh", eval_bleu_detok="space"))
    counts = BleuValidation(generator, dictionary, {dictionary.pad()}, options).counts(
        {"target": target[None]}, None
    )
    texts = [
        "".join(line.split())
        for line in ("今天 天气 不好 ， 我们 去 公园 。", "今天 天气 很好 ， 我们 去 公园 。")
    ]
    expected = BLEU(tokenize="zh").corpus_score(texts[:1], [texts[1:]])
    assert [counts[f"_s_bleu_{place}"] for place in range(2, 6)] == expected.counts
