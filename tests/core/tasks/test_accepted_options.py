"""All options that fairseq's parsers accept for the task: each is judged, and has an effect or is refused."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

from gtransformer.errors import UserError
from gtransformer.tasks.accepted_options import (
    ALLOWED,
    BACKENDS,
    LOSSES,
    REFUSED,
    SCORERS,
    USED_IN,
    check_given,
    check_training,
    option_of,
)

PARSERS: dict[str, tuple[Callable[[], argparse.ArgumentParser], str]] = {
    "train": (options.get_training_parser, "--arch gtransformer_tiny --optimizer adam --max-tokens 9 --criterion "),
    "generate": (options.get_generation_parser, "--path x --arch gtransformer_tiny"),
    "validate": (options.get_validation_parser, "--path x --max-tokens 9"),
    "interactive": (options.get_interactive_generation_parser, "--path x"),
}
CRITERION = "fused_label_smoothed_cross_entropy"
OURS = [name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("gtransformer")]


def parse(program: str, *words: str) -> argparse.Namespace:
    get, needed = PARSERS[program]
    parser = get()
    parser.exit_on_error = False
    line = f"data --task translation_doc {needed}{CRITERION if program == 'train' else ''}".split()
    line = [word for word in line if program != "generate" or word not in ("--arch", "gtransformer_tiny")]
    return options.parse_args_and_arch(parser, [*line, *words])


def actions(program: str, *words: str) -> dict[str, argparse.Action]:
    """All that a program's parser knows once a task, an architecture and so on are chosen, by destination."""
    found: dict[str, argparse.Action] = {}

    class Spy(argparse.ArgumentParser):
        def parse_known_args(self, *arguments, **more):
            found.update({action.dest: action for action in self._actions})
            return super().parse_known_args(*arguments, **more)

    get, needed = PARSERS[program]
    parser = get()
    parser.__class__ = Spy
    line = f"data --task translation_doc {needed}{CRITERION if program == 'train' else ''}".split()
    if program == "generate":  # as the program itself adds it
        parser.add_argument("--arch", default="wav2vec2")
    try:
        options.parse_args_and_arch(parser, [*line, *words])
    except UserError as error:
        assert program == "generate" and str(error).startswith("--arch")
    return found


def of_models() -> set[str]:
    """The options of this package's architectures."""
    return {name for arch in OURS for name in vars(MODEL_DATACLASS_REGISTRY[_name(arch)]())}


def _name(arch: str) -> str:
    model = ARCH_MODEL_REGISTRY[arch]
    return next(name for name, one in MODEL_DATACLASS_REGISTRY.items() if ARCH_MODEL_REGISTRY.get(name) is model)


@pytest.mark.parametrize("program", PARSERS)
def test_every_option_is_judged(program):
    """One of a later fairseq that nobody has looked at stands in no table."""
    chosen = {"train": ["--lr-scheduler", "inverse_sqrt"], "generate": ["--scoring", "bleu"]}.get(program, [])
    unjudged = actions(program, *chosen).keys() - USED_IN.keys() - REFUSED.keys() - of_models()
    assert not unjudged
    assert not USED_IN.keys() & REFUSED.keys()
    assert len(actions(program)) > 160


def changed(action: argparse.Action) -> list[str]:
    """An option with a value that is not the default."""
    name = action.option_strings[-1]
    if action.nargs == 0:
        return [name]
    if action.choices:
        return [name, next(str(one) for one in action.choices if str(one) not in (str(action.default), "none", "None"))]
    for value in ("7", "0.7", "x", "{'x': 1}", "True"):
        try:
            found = action.type(value) if callable(action.type) else value
        except (ValueError, SyntaxError, TypeError, argparse.ArgumentTypeError):
            continue
        if found != action.default:
            return [name, value]
    raise AssertionError(action)


@pytest.mark.parametrize("program", PARSERS)
def test_what_has_no_effect_is_refused(program):
    """In one sentence, which begins with the option, and before there is anything to load."""
    refused = 0
    for name, action in actions(program).items():
        elsewhere = name in USED_IN and program not in USED_IN[name]
        settled = name in ("no_seed_provided", "task", "arch")
        if not action.option_strings or settled or not (name in REFUSED or elsewhere):
            continue
        words = changed(action)
        if name == "bf16" or name == "memory_efficient_bf16":
            words = [action.option_strings[-1]]
        with pytest.raises(UserError) as error:
            parse(program, *words)
        said = str(error.value)
        assert "\n" not in said and "; " in said, said
        assert said.startswith("--") and option_of(name).removeprefix("--memory-efficient-") in said, (words, said)
        refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (
            "train",
            "--arch gtransformer_tiny --optimizer adam --max-tokens 9 --lr-scheduler polynomial_decay",
            "ends at",
        ),
        ("generate", "--path x --sampling", "--nbest is 1; give the same"),
        ("interactive", "--path x --batch-size 4", "--buffer-size 0 reads less"),
    ],
)
def test_what_an_option_needs(monkeypatch, program, words, said):
    monkeypatch.setattr(sys, "argv", [program, "data", "--task", "translation_doc", *words.split()])
    with pytest.raises(UserError, match=said):
        options.parse_args_and_arch(PARSERS[program][0]())


@pytest.mark.parametrize("program", PARSERS)
def test_what_has_an_effect_is_let_through(program):
    parsed = parse(program, "--seed", "7", "--max-tokens", "11", "--log-interval", "3")
    assert (parsed.seed, parsed.max_tokens, parsed.batch_size) == (7, 11, None)
    parse(program, "--batch-size", "1", "--required-batch-size-multiple", str(ALLOWED["required_batch_size_multiple"]))


@pytest.mark.parametrize(
    "criterion", ["adaptive_loss", "label_smoothed_cross_entropy_with_alignment", "nat_loss", "composite_loss"]
)
def test_losses_for_something_else(criterion):
    """One with alignments would be the plain one, since no alignments are read; others end in a traceback."""
    whole = convert_namespace_to_omegaconf(parse("train"))
    whole.criterion._name = criterion
    with pytest.raises(UserError, match=f"--criterion {criterion}: is for other models, or .*; give fused_"):
        check_training(whole)
    with pytest.raises(UserError, match=f"--criterion {criterion}: "):
        check_given({"criterion": criterion}, "train")


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers_whose_packages_are_not_there(monkeypatch, scorer):
    package = SCORERS[scorer][0]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"--scoring {scorer}: the package {package} is not installed; install it"):
        parse("generate", "--scoring", scorer)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == package)
    parse("generate", "--scoring", scorer)


@pytest.mark.parametrize("criterion", LOSSES)
def test_losses_of_pairs(criterion):
    check_given({"criterion": criterion}, "train")


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_are_not_sharded(backend):
    with pytest.raises(UserError, match=f"--ddp-backend {backend}: a model lies whole on each device"):
        parse("train", "--ddp-backend", backend)


def test_options_of_an_architecture_in_generation():
    """fairseq-generate takes them, and the checkpoint's are used."""
    parser = options.get_generation_parser()
    parser.add_argument("--arch", default="wav2vec2")
    line = ["data", "--task", "translation_doc", "--path", "x"]
    options.parse_args_and_arch(parser, line)
    parser = options.get_generation_parser()
    parser.add_argument("--arch", default="wav2vec2")
    with pytest.raises(UserError, match="--dropout 0.7: is for fairseq-train; fairseq-generate takes no notice"):
        options.parse_args_and_arch(parser, [*line, "--dropout", "0.7"])


@pytest.mark.parametrize("program", PARSERS)
def test_what_a_program_cannot_do_without(monkeypatch, program):
    arch = ["--arch", "gtransformer_tiny"] if program == "train" else []
    monkeypatch.setattr(sys, "argv", [program, "data", "--task", "translation_doc", *arch])
    with pytest.raises(UserError, match=f"fairseq-{program} needs --"):
        options.parse_args_and_arch(PARSERS[program][0]())


def test_a_training_without_an_architecture(capsys):
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_training_parser(), ["data", "--task", "translation_doc"])
    assert "the following arguments are required: --arch" in capsys.readouterr().err


def test_options_of_hydra_are_the_same():
    """fairseq-hydra-train has no command line of this kind; what its configuration says is judged as well."""
    whole = convert_namespace_to_omegaconf(parse("train"))
    check_training(whole)
    changes = (("task", "upsample_primary", 3), ("dataset", "curriculum", 2), ("ema", "store_ema", True))
    for section, name, value in changes:
        other = whole.copy()
        other[section][name] = value
        with pytest.raises(UserError, match=option_of(name)):
            check_training(other)


@pytest.mark.parametrize("option", ["fp16", "memory_efficient_fp16", "amp", "profile"])
def test_what_is_for_gpus(monkeypatch, option):
    whole = convert_namespace_to_omegaconf(parse("train", option_of(option)))
    for present, cpu in ((False, False), (True, True)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda present=present: present)
        whole.common.cpu = cpu
        with pytest.raises(UserError, match="is for GPUs, and this training has none"):
            check_training(whole)
    whole.common.cpu = False
    check_training(whole)


def test_unused_parameters_and_the_fused_loss():
    """Its output layer is used outside of what PyTorch watches, unless it is an embedding, too."""
    words = ["--find-unused-parameters", "--distributed-world-size", "2", "--cpu"]
    with pytest.raises(UserError, match="--find-unused-parameters: PyTorch does not see that --criterion fused"):
        check_training(convert_namespace_to_omegaconf(parse("train", *words)))
    check_training(convert_namespace_to_omegaconf(parse("train", *words, "--share-all-embeddings")))
    check_training(convert_namespace_to_omegaconf(parse("train", words[0])))


def test_sacrebleu_is_the_scoring_of_that_name():
    assert parse("generate").scoring == "bleu"
    cfg = convert_namespace_to_omegaconf(parse("generate", "--sacrebleu"))
    assert cfg.scoring._name == "sacrebleu"


def test_validation_without_a_task():
    """It takes the checkpoint's; fairseq looks for the options of none."""
    line = ["data", "--path", "x", "--max-tokens", "9"]
    assert options.parse_args_and_arch(options.get_validation_parser(), line).task == "translation_doc"
    given = options.parse_args_and_arch(options.get_validation_parser(), line, suppress_defaults=True)
    assert vars(given) == {"data": "data", "path": "x", "max_tokens": 9}
    with pytest.raises(UserError, match="--save-interval|--criterion"):
        options.parse_args_and_arch(options.get_validation_parser(), [*line, "--criterion", CRITERION])


@pytest.mark.parametrize("program", ["generate", "validate", "interactive"])
def test_overrides_of_what_no_model_has(program):
    """fairseq replaces what there is, and says nothing of the rest."""
    for known in ("autocast", "context_gate", "decode_alignment", "doc_mode", "data", "max_source_positions"):
        parse(program, "--model-overrides", str({known: "x"}))
    with pytest.raises(UserError, match="--model-overrides: no model or task has an option 'autocats'; .* 'autocast'"):
        parse(program, "--model-overrides", "{'autocats': 'bfloat16'}")
    for text in ("{autocast: bfloat16}", "['autocast']", "autocast", "{'autocast'"):
        with pytest.raises(UserError, match="is no dictionary; write one"):
            parse(program, "--model-overrides", text)


def test_overrides_of_an_optimizer():
    parse("train", "--optimizer-overrides", "{'weight_decay': 0.1}")
    with pytest.raises(UserError, match="--optimizer-overrides weight_decay=0.1: is no dictionary"):
        parse("train", "--optimizer-overrides", "weight_decay=0.1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--max-tokens 0", "--max-tokens 0: give 1 or more"),
        ("--batch-size=-3", "--batch-size -3: give 1 or more"),
        ("--log-interval 0", "--log-interval 0: give 1 or more"),
        ("--save-interval 0", "--save-interval 0: give 1 or more"),
        ("--update-freq 2,0", "--update-freq 0: give 1 or more"),
        ("--max-tokens-valid 0", "--max-tokens-valid 0: give 1 or more"),
        ("--batch-size-valid x", "--batch-size-valid x: is no number; give one"),
        ("--num-workers=-1", "--num-workers -1: give 0 or more"),
        ("--lr=-0.1", "--lr -0.1: give 0 or more"),
        ("--label-smoothing=-0.5", "--label-smoothing -0.5: give 0 or more"),
        ("--label-smoothing 1", "--label-smoothing 1.0: give less than 1"),
        ("--adam-betas 0.9", "--adam-betas 0.9: give two numbers"),
        ("--adam-betas (0.9,1.0)", r"--adam-betas \(0.9,1.0\): give two numbers"),
    ],
)
def test_numbers_that_mean_nothing(words, said):
    with pytest.raises(UserError, match=said):
        parse("train", *words.split())


def test_sizes_of_batches_in_validation():
    """fairseq's parser leaves them as text, since their default is another option."""
    cfg = convert_namespace_to_omegaconf(parse("train", "--max-tokens-valid", "2000", "--batch-size-valid", "8"))
    assert (cfg.dataset.max_tokens_valid, cfg.dataset.batch_size_valid) == (2000, 8)


@pytest.mark.parametrize("program", ["train", "generate"])
def test_the_storage_that_data_have_may_be_named(program):
    parse(program, "--dataset-impl", "mmap")


def test_numbers_at_the_edge():
    edge = "--lr 0.1,0 --label-smoothing 0 --num-workers 0 --update-freq 1 --warmup-updates 0"
    parse("train", *edge.split(), "--adam-betas", "(0.9, 0.999)")
