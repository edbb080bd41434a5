"""Command lines of the programs that a recipe runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import torch

from gtransformer.run.recipe import Options
from gtransformer.settings import HALF_PRECISION

# Values on and off, which YAML reads as true and false.
SWITCHES = ("compile", "context-loss", "marks-loss", "sentence-rule")
LARGE_GPU = 60e9  # bytes: room for every recipe's update in one batch


def to_arguments(options: Options) -> list[str]:
    """Convert ``{"lr": 5e-4, "fp16": True}`` to ``["--lr", "0.0005", "--fp16"]``; False and None
    omit the option.
    """
    arguments = []
    for key, value in options.items():
        if key in SWITCHES and isinstance(value, bool):
            value = "on" if value else "off"
        if value is True:
            arguments.append(f"--{key}")
        elif isinstance(value, list):
            arguments += [f"--{key}", *map(str, value)]
        elif value is not False and value is not None:
            arguments += [f"--{key}", str(value)]
    return arguments


def as_typed(command: list[str]) -> str:
    """Format a command as a user would type it, with paths relative to the working directory."""
    return shlex.join([word.removeprefix(f"{Path.cwd()}/") for word in command])


def executable(command: list[str]) -> list[str]:
    """Return a command of fairseq or of this package as one of this Python, wherever PATH leads."""
    program, *words = command
    return [sys.executable, "-m", program.replace("fairseq-", "fairseq_cli."), *words]


def on_device(options: Options, gpus: int) -> Options:
    """Return the options; without GPUs, for the CPU and in full precision."""
    # Recipes whose precision is for GPUs can still be used on the CPU.
    if gpus:
        return options
    kept = {key: value for key, value in options.items() if key not in HALF_PRECISION}
    return kept | {"cpu": True}


def device_options(options: Options, devices: int, gpus: int) -> Options:
    """Return options that make updates on ``gpus`` GPUs (0: the CPU) as large as on a recipe's
    number of devices.

    With fewer devices gradients are accumulated (``update-freq``); additional ones are not used.
    The batches of an update must divide evenly: of three GPUs a recipe for four devices uses two.
    What this machine's GPUs do better is in ``gpu_options``.
    """
    batches = devices * int(options.get("update-freq", 1))
    used = max(count for count in range(1, max(1, min(devices, gpus)) + 1) if batches % count == 0)
    found = {"update-freq": batches // used}
    if gpus > 1:
        found["distributed-world-size"] = used
    return found | (gpu_options(options, batches // used) if gpus else {})


def gpu_options(options: Options, batches: int) -> Options:
    """Return other options for the same update of so many batches, by the GPU of this machine.

    With much memory they are one batch of as many tokens, unless batches are stretches of
    documents. Where there is bfloat16, it replaces float16, which needs a loss scale.
    """
    found: Options = {}
    if not torch.cuda.is_available():
        return found
    large = torch.cuda.get_device_properties(0).total_memory >= LARGE_GPU
    if large and options.get("batch-order") != "document":
        limits = {key: options[key] for key in ("max-tokens", "batch-size") if key in options}
        found = {key: int(value) * batches for key, value in limits.items()}
        found["update-freq"] = 1
    if options.get("fp16") and torch.cuda.is_bf16_supported(including_emulation=False):
        found |= {"fp16": None, "autocast": "bfloat16"}
    return found


def for_this_machine(command: str) -> str:
    """Return a command line of fairseq-train as a recipe's is for this machine's GPUs.

    Without a GPU it stays as it is, in the setting of the paper.
    """
    gpus = torch.cuda.device_count()
    if not gpus:
        return command
    program, data, *words = shlex.split(command)
    options: Options = {}
    for word in words:
        if word.startswith("--"):
            name = word.removeprefix("--")
            options[name] = True
        else:
            options[name] = word
    devices = int(options.pop("distributed-world-size", 1))
    options |= device_options(options, devices, gpus)
    return as_typed([program, data, *to_arguments(options)])


if __name__ == "__main__":  # for scripts/common.sh
    print(for_this_machine(sys.argv[1]))
