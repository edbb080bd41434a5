"""``gtransformer SUBCOMMAND``: find the command, import only its module, and run it."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping
from types import ModuleType

from gtransformer.cli.commands import COMMANDS, LAB, MAP, module_of
from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main

END = (
    "gtransformer COMMAND --help lists the options of a command, gtransformer lab --help the "
    "commands for\n"
    "experiments. Start with README.md."
)


def command_map(parts: Mapping[str, Mapping[str, str]], title: str) -> str:
    """Return the text of ``--help``: the commands by part, one per line."""
    width = max(len(name) for commands in parts.values() for name in commands)
    lines = [title]
    for part, commands in parts.items():
        lines += [
            "",
            f"{part}:",
            *(f"  {name:{width}}  {summary}" for name, summary in commands.items()),
        ]
    return "\n".join([*lines, "", END])


def find(words: list[str]) -> tuple[str, list[str]]:
    """Return the command named by the first one or two words ("" for none), and the remaining
    words.
    """
    # Two words first: model convert is a command, and so is convert.
    count = next((count for count in (2, 1) if " ".join(words[:count]) in COMMANDS), 0)
    return " ".join(words[:count]), words[count:]


def parse(name: str, words: list[str]) -> tuple[ModuleType, Namespace]:
    """Return the module of a command and its options, with the whole ``command_line``.

    The module's docstring begins with the description, ``add_options`` adds the options to a
    parser, and ``main`` takes them; ``parse`` reads them, where argparse alone cannot.
    """
    module = importlib.import_module(f"gtransformer.{module_of(name)}")
    description = module.__doc__.replace("``", "").split("\n\n")[0]
    parser = CommandParser(prog=f"gtransformer {name}", description=description)
    module.add_options(parser)
    args = getattr(module, "parse", CommandParser.parse_args)(parser, words)
    args.command_line = shlex.join(["gtransformer", *name.split(), *words])
    return module, args


def keep_freed_memory() -> None:
    """Restart the program with malloc settings that keep freed memory, unless the user has set
    them.

    Otherwise every training step on a CPU returns memory to the system and page-faults it in again.
    The C library reads these variables only at program start.
    """
    if sys.platform == "linux" and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        os.environ |= dict.fromkeys(
            ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**33)
        )
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status: 2 for an unknown command, 0 for ``--help``."""
    # Not in tests and other callers, whose process must not be replaced.
    if argv is None:
        keep_freed_memory()
    words = sys.argv[1:] if argv is None else argv
    if words == ["--version"]:
        import gtransformer

        print(f"gtransformer {gtransformer.__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        print(
            command_map(
                MAP, "usage: gtransformer COMMAND ...\n\nDocument-level machine translation."
            )
        )
        return 0 if words else 2
    name, rest = find(words)
    if name:
        module, args = parse(name, rest)
        return module.main(args)
    if words[0] == "lab" and words[1:] in ([], ["-h"], ["--help"]):
        print(command_map(LAB, "usage: gtransformer lab COMMAND ..."))
        return 0 if words[1:] else 2
    given = " ".join(words[:2])
    print(f"error: '{given}' is not a command; gtransformer --help lists them", file=sys.stderr)
    return 2
