"""Options that exclude each other, one table for each place where they are met: the message names the option."""

from argparse import Namespace
from dataclasses import fields

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.tasks.accepted_options import check_training
from gtransformer.tasks.options import Options
from tests.core.models.batch_documents import made
from tests.core.tasks.loaded import setup
from tests.core.tasks.test_accepted_options import parsed
from tests.core.tasks.test_batch_readers import DOCFLAT, TRANSLATING
from tests.support import task_config, tiny_config, tiny_model, tiny_task

SINGLE = {"instances": "disjoint", "context_sentences": 0}
SLIDING = {"instances": "sliding", "context_sentences": 3}
BEFORE_SOURCE = {"instances": "current", "context_sentences": 2}
ORDERED = {**SLIDING, "batch_order": "document"}

READING = [system for system in TRANSLATING.values() if system[2].get("batch_attention_in") != "none"]


def expect(option: str):
    """An error in one line that names the option."""
    return pytest.raises(UserError, match=rf"\A[^\n]*{option}[^\n]*\Z")


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("--shuffled-context", {**SLIDING, "shuffled_context": "global"}),
        ("--batch-sentences", {**ORDERED, "batch_sentences": 0}),
        ("--max-pair-tokens", {"max_pair_tokens": 0, **SINGLE}),
        ("--batch-sentences", {**SLIDING, "batch_sentences": 4}),
        ("--first-pass", {**SINGLE, "first_pass": "a.pt"}),
        ("--first-pass", {**BEFORE_SOURCE, "target_context_sentences": 2, "first_pass": "a.pt"}),
        ("--first-pass", {**SLIDING, "first_pass": "a.pt", "strategy": "sequential"}),
        ("--window-tokens", {"strategy": "sliding"}),
        ("--strategy", {**SLIDING, "strategy": "sliding", "window_tokens": 9}),
        ("--strategy", {**SLIDING, "strategy": "sequential", "window_tokens": 9}),
        ("--strategy", {**BEFORE_SOURCE, "strategy": "sequential"}),
        ("--strategy", {**SINGLE, "strategy": "sequential"}),
    ],
)
def test_always(option, options):
    with expect(option):
        Options(task_config(**options))


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("--doc-noise-mask", {"doc_noise_mask": 1.5}),
        ("--context-loss", {"context_loss": "off"}),
        ("--max-pair-tokens", {"max_pair_tokens": 9}),
    ],
)
def test_training(option, options):
    """Generation has no loss, masks nothing, and may have other instances than training."""
    options = Options(task_config(**options))
    options.check_generation()
    with expect(option):
        options.check_training()


@pytest.mark.parametrize(
    ("option", "options", "args"),
    [
        ("--score-reference", {"strategy": "sequential"}, {"score_reference": True}),
        ("--score-reference", {**SLIDING, "first_pass": "a.pt"}, {"score_reference": True}),
        ("--sentence-rule", {**SLIDING, "first_pass": "a.pt", "sentence_rule": "off"}, {}),
        ("--sentence-rule", {"strategy": "sequential", "sentence_rule": "off"}, {}),
        ("--min-len", {"sentence_rule": "off"}, {"min_len": 3}),
        ("--doc-constraint", {"doc_constraint": True, "sentence_rule": "off"}, {}),
        ("--first-pass", {**SLIDING, "first_pass": "a.pt"}, {}),  # no data
    ],
)
def test_generation(dictionary, option, options, args):
    task = tiny_task(dictionary, **options)
    with expect(option):
        task.build_generator([tiny_model(dictionary)], Namespace(**args))


@pytest.mark.parametrize(
    ("program", "words", "option"),
    [
        ("train", "--checkpoint-suffix x", "--checkpoint-suffix"),
        ("train", "--max-update -4", "--max-update"),
        ("train", "--context-loss off", "--context-loss"),
        ("train", "--criterion label_smoothed_cross_entropy_with_alignment", "--criterion"),
        ("train", "--criterion nat_loss", "--criterion"),
        ("train", "--criterion label_smoothed_cross_entropy_with_rdrop", "--criterion"),
        ("train", "--ddp-backend slowmo", "--ddp-backend"),
        ("train", "--optimizer-overrides weight_decay=0.1", "--optimizer-overrides"),
        ("train", "--max-tokens 0", "--max-tokens"),
        ("train", "--update-freq 2,0", "--update-freq"),
        ("train", "--batch-size-valid x", "--batch-size-valid"),
        ("train", "--num-workers=-1", "--num-workers"),
        ("train", "--seed=-1", "--seed"),
        ("train", "--eval-bleu-remove-bpe x", "--eval-bleu-remove-bpe"),
        ("generate", "--post-process x", "--post-process"),
        ("train", "--lr-scheduler inverse_sqrt --warmup-updates 0", "--lr-scheduler"),
        ("train", "--lr-scheduler inverse_sqrt --stop-min-lr 1e-9", "--stop-min-lr"),
        ("train", "--lr-scheduler inverse_sqrt --stop-min-lr 1e-6 --warmup-init-lr 1e-7", "--stop-min-lr"),
        ("train", "--lr-scale-pretrained 0.05", "--lr-scale-pretrained"),
        ("train", "--weight-decay-randinit 0.5", "--weight-decay-randinit"),
        ("train", "--doc-noise-epochs 5", "--doc-noise-epochs"),
        ("train", "--doc-noise-mask 0.3 --doc-noise-epochs 1", "--doc-noise-epochs 1"),
        ("train", "--label-smoothing=-0.5", "--label-smoothing"),
        ("train", "--label-smoothing 1", "--label-smoothing"),
        ("train", "--adam-betas 0.9", "--adam-betas"),
        ("train", "--adam-betas (0.9,1.0)", "--adam-betas"),
        ("generate", "--dropout 0.7", "--dropout"),  # the checkpoint's is used
        ("generate", "--model-overrides {'autocats':'bfloat16'}", "'autocats'.*as 'autocast'"),
        ("validate", "--model-overrides {autocast:bfloat16}", "--model-overrides"),
        ("interactive", "--model-overrides ['autocast']", "--model-overrides"),
        ("generate", "--sampling-topk 3", "--sampling-topk"),
        ("generate", "--diverse-beam-groups 2", "--diverse-beam-groups"),
        ("generate", "--diverse-beam-groups 5 --diversity-rate 0.5", "--diversity-rate"),
        ("generate", "--nbest 9", "--nbest"),
        ("generate", "--beam 0", "--beam"),
        ("generate", "--temperature 0", "--temperature"),
        ("generate", "--max-len-b=-1", "--max-len-b"),
    ],
)
def test_on_the_command_line(program, words, option):
    with expect(option):
        parsed(program, *words.split())


@pytest.mark.parametrize(
    "words",
    [
        "--lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --stop-min-lr 1e-9",
        "--doc-double-lr --lr-scale-pretrained 0.05 --weight-decay-randinit 0.5",
        "--doc-noise-mask 0.1 --doc-noise-epochs 5",
        "--lr-scale-pretrained 0.2 --weight-decay-randinit 0 --doc-noise-epochs 0",  # nothing is asked for
    ],
)
def test_what_goes_together(words):
    parsed("train", *words.split())


@pytest.mark.parametrize("option", [{"doc_constraint": True}, {"sentence_rule": "on"}])
def test_unequal_sides_under_the_sentence_rule(dictionary, option):
    task = tiny_task(dictionary, **{**BEFORE_SOURCE, "context_sentences": 0, "target_context_sentences": 1}, **option)
    with expect("--target-context-sentences"):
        build(task, "full", True)


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        ("--batch-order", {"batch_order": "size"}),
        ("--instances", {"instances": "stored", "context_sentences": None}),
        ("--instances", {"instances": "disjoint"}),
        ("--instances", {"instances": "current", "target_context_sentences": 1, "doc_mode": "full"}),
        ("--strategy", {"strategy": "sequential"}),
    ],
)
def test_batches_that_are_not_the_models(dictionary, option, changed):
    for model_class, config, own in READING:
        model = made(dictionary, model_class, config, **own)
        with expect(option):
            tiny_task(dictionary, **{**DOCFLAT, "context_loss": "on", **changed}).build_generator([model], Namespace())
    for fitting in (DOCFLAT, {**SINGLE, "batch_order": "document"}):
        tiny_task(dictionary, **fitting).build_generator([model], Namespace())


def test_training_of_a_model_that_reads_its_batch_counts_the_current_sentence_alone(dictionary):
    """Of instances with context; generation has no loss, and other models may learn them all."""
    counted = Options(task_config(**{**DOCFLAT, "context_loss": "on"}))
    for model_class, config, own in READING:
        model = made(dictionary, model_class, config, **own)
        for fitting in (DOCFLAT, {**SINGLE, "batch_order": "document"}):
            Options(task_config(**fitting)).check_batches(model, training=True)
        counted.check_batches(model)
        with expect("--context-loss"):
            counted.check_batches(model, training=True)
    counted.check_batches(tiny_model(dictionary), training=True)


def test_another_seed_of_batches_that_are_made_once():
    words = ["--update-ordered-indices-seed", "--cpu"]
    check_training(convert_namespace_to_omegaconf(parsed("train", *words, "--update-epoch-batch-itr", "True")))
    with expect("--update-ordered-indices-seed"):
        check_training(convert_namespace_to_omegaconf(parsed("train", *words)))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--valid-subset valid,train", "--valid-subset"),
        ("--patience 3 --validate-interval-updates 5", "--validate-interval-updates"),
        ("--patience 3 --validate-interval-updates 5 --save-interval-updates 10", "--validate-interval-updates"),
        ("--patience 3 --save-interval 3", "--save-interval"),
        ("--patience 3 --save-interval 3 --validate-interval 2", "--save-interval"),
        ("--grouped-shuffling --batch-order document --instances disjoint --context-sentences 1", "--grouped"),
        ("--best-checkpoint-metric blue", "--best-checkpoint-metric"),
        ("--best-checkpoint-metric los --criterion label_smoothed_cross_entropy", "--best-checkpoint-metric"),
        ("--best-checkpoint-metric word_ppl --criterion label_smoothed_cross_entropy", "--best-checkpoint-metric"),
        ("--best-checkpoint-metric nll_loss --criterion cross_entropy", "--best-checkpoint-metric"),
        ("--best-checkpoint-metric bleu --maximize-best-checkpoint-metric", "--eval-bleu"),
        ("--best-checkpoint-metric d_bleu --eval-bleu", "--maximize-best-checkpoint-metric"),
        ("--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric", "--report-accuracy"),
        ("--best-checkpoint-metric word_ppl --report-accuracy", "--report-accuracy"),
        ("--best-checkpoint-metric entropy_cross_group", "--doc-attn-entropy"),
        ("--maximize-best-checkpoint-metric", "--maximize-best-checkpoint-metric"),
    ],
)
def test_validations_that_would_fail_or_mislead(words, option):
    with expect(option):
        check_training(convert_namespace_to_omegaconf(parsed("train", "--cpu", *words.split())))


def test_validations_that_fit():
    for right in (
        "--best-checkpoint-metric d_bleu --eval-bleu --maximize-best-checkpoint-metric",
        "--best-checkpoint-metric entropy_cross_group --doc-attn-entropy",
        "--best-checkpoint-metric nll_loss --criterion label_smoothed_cross_entropy",
        "--best-checkpoint-metric nll_loss --criterion cross_entropy --sentence-avg",
        "--best-checkpoint-metric ppl --criterion cross_entropy",
        "--train-subset valid --disable-validation",
        "--patience 3 --validate-interval-updates 20 --save-interval-updates 10",
        "--validate-interval-updates 5",
        "--patience 3 --save-interval 2 --validate-interval 4",
        "--patience 3 --save-interval 2 --max-epoch 1",
    ):
        check_training(convert_namespace_to_omegaconf(parsed("train", "--cpu", *right.split())))


def build(task, mode, from_checkpoint=False):
    return task.build_model(OmegaConf.structured(tiny_config(_name="gtransformer", doc_mode=mode)), from_checkpoint)


@pytest.mark.parametrize("said", ["partial", "full"])
def test_unequal_sides_are_not_for_group_attention(said):
    """How the model was trained decides, whatever the command says of it when it is used."""
    task = setup(instances="current", context_sentences=2, doc_mode=said)
    message = "--context-sentences 2 and --target-context-sentences 0: the model .*; give equal numbers"
    with pytest.raises(UserError, match=f"{message}, or train with --doc-mode full$"):
        build(task, "partial")
    with pytest.raises(UserError, match=f"{message}$"):
        build(task, "partial", from_checkpoint=True)
    with pytest.raises(UserError, match=f"{message}$"):
        task.build_generator([tiny_model(task.tgt_dict)], Namespace(beam=1))
    line = task.src_dict.encode_line("<s> </s>", add_if_not_exist=False).long()
    with pytest.raises(UserError, match="--instances current: lines that are typed"):
        task.build_dataset_for_inference([line], [len(line)])
    for model in (build(task, "full", from_checkpoint=True), tiny_model(task.tgt_dict, doc_mode="full")):
        assert task.build_generator([model], Namespace(beam=1)).rule is None


@pytest.mark.parametrize("arch", ["doc_transformer", "lst_transformer"])
def test_unequal_sides_are_for_models_that_see_the_whole_source(arch):
    """Whatever --doc-mode is by default; their translations have as many sentences as they will."""
    task = setup(instances="current", context_sentences=2)
    cfg = tiny_config()
    sizes = {field.name: getattr(cfg, field.name) for field in fields(DocumentModelConfig)}
    own = MODEL_DATACLASS_REGISTRY[arch](**sizes | {"_name": arch})
    model = task.build_model(OmegaConf.structured(own), from_checkpoint=True)
    assert task.build_generator([model], Namespace(beam=1)).rule is None


def test_equal_sides_are_for_every_model():
    task = setup(instances="current", context_sentences=1, target_context_sentences=1, doc_constraint=True)
    for mode in ("partial", "full"):
        assert task.build_generator([build(task, mode, from_checkpoint=True)], Namespace(beam=1)).rule is not None
