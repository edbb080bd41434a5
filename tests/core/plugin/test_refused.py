"""Options that would silently train or translate something else: the message names the option."""

from argparse import Namespace

import pytest

from gtransformer.errors import UserError
from gtransformer.plugin.options import Options
from tests.core.models.test_docflat import system
from tests.core.plugin.loaded import built, setup
from tests.core.plugin.test_document_batches import DOCFLAT
from tests.support import model_options, task_config, tiny_model, tiny_task

SINGLE = {"instances": "disjoint", "context_sentences": 0}
SLIDING = {"instances": "sliding", "context_sentences": 3}
BEFORE_SOURCE = {"instances": "current", "context_sentences": 2}
READING = "C encoder", "ABD", "MBE"


def expect(option: str):
    """An error in one line that names the option."""
    return pytest.raises(UserError, match=rf"\A[^\n]*{option}[^\n]*\Z")


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("--first-pass", {**SINGLE, "first_pass": "a.jsonl"}),
        ("--first-pass", {**SLIDING, "first_pass": "a.jsonl", "strategy": "sequential"}),
        ("--first-pass", {**SLIDING, "first_pass": "a.jsonl", "sentence_rule": "off"}),
        ("--strategy", {**SLIDING, "strategy": "sequential", "window_tokens": 9}),
        ("--strategy", {**SINGLE, "strategy": "sequential"}),
        ("--sentence-rule", {"strategy": "sequential", "sentence_rule": "off"}),
    ],
)
def test_contradictions(option, options):
    with expect(option):
        Options(task_config(**options))


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        ("--batch-order", {"batch_order": "size"}),
        ("--instances", {"instances": "disjoint"}),
        (
            "--target-context",
            {"instances": "current", "target_context_sentences": 1, "doc_mode": "full"},
        ),
        ("--strategy", {"strategy": "sequential"}),
    ],
)
def test_batches_that_are_not_the_models(dictionary, option, changed):
    for name in READING:
        model = system(dictionary, name)
        with expect(option):
            tiny_task(dictionary, **{**DOCFLAT, "context_loss": "on", **changed}).build_generator(
                [model], Namespace()
            )
    for fitting in (DOCFLAT, {**SINGLE, "batch_order": "document"}):
        tiny_task(dictionary, **fitting).build_generator([model], Namespace())


def test_training_of_a_model_that_reads_its_batch_counts_the_current_sentence_alone(dictionary):
    """Of instances with context; generation has no loss, and other models may learn them all."""
    counted = Options(task_config(**{**DOCFLAT, "context_loss": "on"}))
    for name in READING:
        model = system(dictionary, name)
        Options(task_config(**DOCFLAT)).check_model(model, training=True)
        counted.check_model(model)
        with expect("--context-loss"):
            counted.check_model(model, training=True)
    counted.check_model(tiny_model(dictionary), training=True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--maximize-best-checkpoint-metric", "--best-checkpoint-metric bleu --eval-bleu"),
        ("--maximize-best-checkpoint-metric", "--best-checkpoint-metric accuracy"),
        ("--autocast float16", "--autocast float16"),
    ],
)
def test_training(tmp_path, corpus, option, words):
    with expect(option):
        built(corpus(train=2), tmp_path, "gtransformer_mini", *words.split())


@pytest.mark.parametrize("metric", ["bleu", "accuracy"])
def test_the_highest_is_the_best(tmp_path, corpus, metric):
    options = "--maximize-best-checkpoint-metric", f"--best-checkpoint-metric={metric}"
    built(corpus(train=2), tmp_path, "gtransformer_mini", *options)


def build(task, mode, from_checkpoint=False):
    return task.build_model(model_options(doc_mode=mode), from_checkpoint)


def test_unequal_sides_under_the_sentence_rule(dictionary):
    unequal = {**BEFORE_SOURCE, "context_sentences": 0, "target_context_sentences": 1}
    task = tiny_task(dictionary, **unequal, sentence_rule="on")
    with expect("--target-context-sentences"):
        build(task, "full")


@pytest.mark.parametrize("said", ["partial", "full"])
def test_unequal_sides_are_not_for_group_attention(said):
    """How the model was trained decides, whatever the command says of it when it is used."""
    task = setup(**BEFORE_SOURCE, doc_mode=said)
    with expect("--context-sentences 2 and --target-context-sentences 0"):
        build(task, "partial")
    with expect("--context-sentences 2 and --target-context-sentences 0"):
        task.build_generator([tiny_model(task.tgt_dict)], Namespace(beam=1))
    for model in (
        build(task, "full", from_checkpoint=True),
        tiny_model(task.tgt_dict, doc_mode="full"),
    ):
        assert task.build_generator([model], Namespace(beam=1)).free


@pytest.mark.parametrize("arch", ["doc_transformer", "lst_transformer"])
def test_unequal_sides_are_for_models_that_see_the_whole_source(arch):
    """Whatever --doc-mode is by default; their translations have as many sentences as they will."""
    task = setup(**BEFORE_SOURCE)
    model = task.build_model(model_options(arch), from_checkpoint=True)
    assert task.build_generator([model], Namespace(beam=1)).free
