"""Command lines of the programs that a recipe runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from gtransformer.run.recipe import Options

# Half precision is for GPUs; recipes with these options can still be used on the CPU.
HALF_PRECISION = ("fp16", "bf16", "amp", "memory-efficient-fp16", "memory-efficient-bf16")
# Values on and off, which YAML reads as true and false.
SWITCHES = ("context-loss", "marks-loss", "sentence-rule")
PACKAGE = Path(__file__).resolve().parents[1]


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
    if program.startswith("fairseq-"):
        return [sys.executable, "-m", program.replace("fairseq-", "fairseq_cli."), *words]
    return [sys.executable, "-m", *command]


def on_device(options: Options, gpus: int) -> Options:
    """Return the options; without GPUs, for the CPU and in full precision."""
    if gpus:
        return options
    kept = {key: value for key, value in options.items() if key not in HALF_PRECISION}
    return kept | {"cpu": True}


def device_options(options: Options, devices: int, gpus: int) -> Options:
    """Return options that make updates on ``gpus`` GPUs (0: the CPU) as large as on a recipe's
    number of devices.

    With fewer devices gradients are accumulated (``update-freq``); additional ones are not used.
    The batches of an update must divide evenly: of three GPUs a recipe for four devices uses two.
    """
    batches = devices * int(options.get("update-freq", 1))
    used = max(count for count in range(1, max(1, min(devices, gpus)) + 1) if batches % count == 0)
    return {"update-freq": batches // used} | ({"distributed-world-size": used} if gpus > 1 else {})
