"""Command lines of the programs that stages start, and options that depend on the machine's devices."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.run.recipe import Options

# Half precision is for GPUs; recipes with these options can still be used on the CPU.
HALF_PRECISION = ("fp16", "bf16", "amp", "memory-efficient-fp16", "memory-efficient-bf16")


def to_arguments(options: Options) -> list[str]:
    """Convert ``{"lr": 5e-4, "fp16": True}`` to ``["--lr", "0.0005", "--fp16"]``; False omits the flag."""
    arguments = []
    for key, value in options.items():
        if value is not False and value is not None:
            values = [] if value is True else value if isinstance(value, list) else [value]
            arguments += [f"--{key}", *map(str, values)]
    return arguments


def without_half_precision(options: Options) -> Options:
    """Return the options without half precision, for a run on the CPU."""
    return {key: value for key, value in options.items() if key not in HALF_PRECISION}


def python_command(module: str, *parts: str | Options) -> list[str]:
    """Return the command ``python -m MODULE`` with positional arguments and options."""
    command = [sys.executable, "-m", module]
    for part in parts:
        command += to_arguments(part) if isinstance(part, dict) else [part]
    return command


def run_command(recipe: str, corpus: Path, stage: str, options: Options, changes: Iterable[str]) -> list[str]:
    """Return the command that runs one stage of a recipe, with changes ``SECTION.OPTION=VALUE``."""
    sets = [argument for change in changes for argument in ("--set", change)]
    return python_command("gtransformer.cli.run", recipe, str(corpus), stage, options) + sets



def call_command(name: str, *parts: str | Options) -> None:
    """Run a command (``score``, ``lab.cli.demo_corpus``) in this process. Raise UserError if it fails."""
    command = python_command(f"gtransformer.{name if '.' in name else f'cli.{name}'}", *parts)
    if importlib.import_module(command[2]).main(command[3:]):
        raise UserError(f"{shlex.join(command[2:])[:400]}: failed, see above")


def fairseq_command(name: str, data: Path, options: Options) -> list[str]:
    """Return the command of ``fairseq-train`` or ``fairseq-generate`` with this package as user-dir."""
    user_dir = Path(__file__).resolve().parents[1]
    return python_command(f"fairseq_cli.{name}", str(data), {"user-dir": user_dir, **options})


def as_typed_by_hand(command: list[str]) -> str:
    """Format a stage's command as a user would type it, with names of commands instead of modules."""
    module = command[2]
    package, _, name = module.rpartition(".")
    start = [f"fairseq-{name}"] if package == "fairseq_cli" else ["gtransformer", name]
    root, here = str(Path(__file__).resolve().parents[1]), f"{Path.cwd()}/"
    words = ("gtransformer" if word == root else word.removeprefix(here) for word in command[3:])
    return shlex.join([*start, *words])


def on_device(options: Options) -> Options:
    """Return the options; on a machine without a GPU, for the CPU and full precision."""
    return options if torch.cuda.is_available() else without_half_precision(options) | {"cpu": True}


def device_options(options: Options, wanted: int, present: int) -> Options:
    """Return options that make updates exactly as large as on the recipe's number of devices.

    With fewer devices gradients are accumulated (``update-freq``); additional devices are not used. The batches of an
    update must divide evenly among the devices: a recipe for four devices uses two of three.
    """
    batches = [wanted * frequency for frequency in frequencies(options.get("update-freq", 1))]
    present = max(1, present)
    used = next(count for count in range(min(wanted, present), 0, -1) if not any(total % count for total in batches))
    each = [total // used for total in batches]
    result: Options = {"update-freq": each[0] if len(each) == 1 else ",".join(map(str, each))}
    if present > 1:
        result["distributed-world-size"] = used
    if max(each) > 1 or wanted != used:
        print(
            f"[train] the recipe is for {wanted} device(s), {used} of {present} in use: every update sums "
            f"{result['update-freq']} batch(es) on each",
            file=sys.stderr,
        )
    return result


def frequencies(value: object) -> list[int]:
    """Parse ``update-freq``: a number, or one for each epoch, separated by commas or as a list."""
    texts = value if isinstance(value, list) else str(value).split(",")
    try:
        numbers = [int(str(text)) for text in texts]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(
            f"train.update-freq is '{value}'; give a whole number of at least 1, or one for each epoch (1,2)"
        )
    return numbers
