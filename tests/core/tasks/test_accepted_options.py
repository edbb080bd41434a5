"""All options that fairseq's parsers accept for the task: each is judged, and has an effect or is refused."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from gtransformer.errors import UserError
from gtransformer.tasks.accepted_options import (
    REFUSED,
    SCORERS,
    USED_IN,
    check_training,
    option_of,
)

PARSERS: dict[str, tuple[Callable[[], argparse.ArgumentParser], str]] = {
    "train": (options.get_training_parser, "--arch gtransformer_tiny --optimizer adam --max-tokens 9 --criterion "),
    "generate": (options.get_generation_parser, "--path x"),
    "validate": (options.get_validation_parser, "--path x --max-tokens 9"),
    "interactive": (options.get_interactive_generation_parser, "--path x"),
}
CRITERION = "fused_label_smoothed_cross_entropy"


def parsed(program: str, *words: str, own: type = argparse.ArgumentParser) -> argparse.Namespace:
    """A command line of a program, with what it cannot do without, read by a parser of one's ``own`` kind."""
    get, needed = PARSERS[program]
    parser = get()
    parser.__class__ = own
    if program == "generate":  # as the program itself adds it
        parser.add_argument("--arch", default="wav2vec2")
    line = f"data --task translation_doc {needed}{CRITERION if program == 'train' else ''}"
    return options.parse_args_and_arch(parser, [*line.split(), *words])


def actions(program: str, *words: str) -> dict[str, argparse.Action]:
    """All that a program's parser knows once a task, an architecture and so on are chosen, by destination."""
    found: dict[str, argparse.Action] = {}

    class Spy(argparse.ArgumentParser):
        def parse_known_args(self, *arguments, **more):
            found.update({action.dest: action for action in self._actions})
            return super().parse_known_args(*arguments, **more)

    with pytest.raises(UserError, match="^--arch") if program == "generate" else nullcontext():
        parsed(program, *words, *(["--arch", "gtransformer_tiny"] if program == "generate" else []), own=Spy)
    return found


@pytest.mark.parametrize("program", PARSERS)
def test_every_option_is_judged(program):
    """One of a later fairseq that nobody has looked at stands in no table; those of our systems are a system's own."""
    chosen = {"train": ["--lr-scheduler", "inverse_sqrt"], "generate": ["--scoring", "bleu"]}.get(program, [])
    kinds = {name: MODEL_REGISTRY[name] for name in MODEL_DATACLASS_REGISTRY}
    ours = [name for name, kind in kinds.items() if kind.__module__.startswith("gtransformer")]
    of_models = {option for name in ours for option in vars(MODEL_DATACLASS_REGISTRY[name]())}
    unjudged = actions(program, *chosen).keys() - USED_IN.keys() - REFUSED.keys() - of_models
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
            parsed(program, *words)
        said = str(error.value)
        assert "\n" not in said and "; " in said, said
        assert said.startswith("--") and option_of(name).removeprefix("--memory-efficient-") in said, (words, said)
        refused += 1
    assert refused > 50


ACCEPTED = {
    "train": """--lr 0.1,0 --label-smoothing 0 --num-workers 0 --update-freq 1 --warmup-updates 0
        --max-tokens-valid 2000 --batch-size-valid 8 --optimizer-overrides {'weight_decay':0.1}""",
    "generate": "--model-overrides {'autocast':'x','context_gate':'x','doc_mode':'x','data':'x'} --sacrebleu",
    "validate": "--model-overrides {'max_source_positions':9}",
    "interactive": "--beam 3",
}


@pytest.mark.parametrize("program", PARSERS)
def test_what_has_an_effect_is_let_through(program):
    """At the edge of what it may be, too. fairseq's parser leaves sizes for validation as they were typed."""
    usual = "--seed 7 --batch-size 1 --required-batch-size-multiple 1 --dataset-impl mmap --log-interval 3"
    found = parsed(program, *usual.split(), *ACCEPTED[program].split())
    assert (found.seed, found.batch_size) == (7, 1)
    cfg = convert_namespace_to_omegaconf(found)
    if program == "train":
        assert (cfg.dataset.max_tokens_valid, cfg.dataset.batch_size_valid) == (2000, 8)
    if program == "generate":
        assert cfg.scoring._name == "sacrebleu"


@pytest.mark.parametrize("scorer", SCORERS)
def test_scorers_whose_packages_are_not_there(monkeypatch, scorer):
    package = SCORERS[scorer][0]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"--scoring {scorer}: the package {package} is not installed; install it"):
        parsed("generate", "--scoring", scorer)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == package)
    parsed("generate", "--scoring", scorer)


def test_options_of_hydra_are_the_same():
    """fairseq-hydra-train has no command line of this kind; what its configuration says is judged as well."""
    whole = convert_namespace_to_omegaconf(parsed("train"))
    check_training(whole)
    changes = (("task", "upsample_primary", 3), ("dataset", "curriculum", 2), ("ema", "store_ema", True))
    for section, name, value in changes:
        other = whole.copy()
        other[section][name] = value
        with pytest.raises(UserError, match=option_of(name)):
            check_training(other)


@pytest.mark.parametrize("option", ["fp16", "memory_efficient_fp16", "amp", "profile"])
def test_what_is_for_gpus(monkeypatch, option):
    whole = convert_namespace_to_omegaconf(parsed("train", option_of(option)))
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
    with pytest.raises(UserError, match="--find-unused-parameters: PyTorch does not detect that --criterion fused"):
        check_training(convert_namespace_to_omegaconf(parsed("train", *words)))
    check_training(convert_namespace_to_omegaconf(parsed("train", *words, "--share-all-embeddings")))
    check_training(convert_namespace_to_omegaconf(parsed("train", words[0])))


def test_validation_without_a_task():
    """It takes the checkpoint's; fairseq looks for the options of none."""
    line = ["data", "--path", "x", "--max-tokens", "9"]
    assert options.parse_args_and_arch(options.get_validation_parser(), line).task == "translation_doc"
    given = options.parse_args_and_arch(options.get_validation_parser(), line, suppress_defaults=True)
    assert vars(given) == {"data": "data", "path": "x", "max_tokens": 9}
    with pytest.raises(UserError, match="--save-interval|--criterion"):
        options.parse_args_and_arch(options.get_validation_parser(), [*line, "--criterion", CRITERION])


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        ("train", "--arch gtransformer_tiny", "fairseq-train needs --"),
        ("generate", "", "fairseq-generate needs --"),
        ("validate", "", "fairseq-validate needs --"),
        ("interactive", "", "fairseq-interactive needs --"),
        ("validate", "--path a.pt --max-tokens 9 --cpu --distributed-world-size 2", "--distributed-world-size 2: "),
        (
            "train",
            "--arch gtransformer_tiny --optimizer adam --max-tokens 9 --lr-scheduler polynomial_decay",
            "--total-num-update",
        ),
        (
            "train",
            "--arch gtransformer_tiny --optimizer adam --max-tokens 9 --lr-scheduler polynomial_decay "
            "--total-num-update 4 --max-update 8",
            "give --total-num-update 8, too",
        ),
        ("generate", "--path x --sampling", "--nbest"),
        ("interactive", "--path x --batch-size 4", "--buffer-size"),
    ],
)
def test_what_a_program_or_an_option_needs(monkeypatch, program, words, said):
    """Of whole command lines."""
    monkeypatch.setattr(sys, "argv", [program, "data", "--task", "translation_doc", *words.split()])
    with pytest.raises(UserError, match=said):
        options.parse_args_and_arch(PARSERS[program][0]())
