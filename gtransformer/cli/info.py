"""Print versions, device and directories: for bug reports, ``--user-dir`` and your own recipes."""

from __future__ import annotations

import argparse

import gtransformer
from gtransformer.cli.parser import CommandParser
from gtransformer.installation import (
    PACKAGE,
    config_directory,
    current_commit,
    device_name,
    versions,
)


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--user-dir", action="store_true", help="print only the package's directory"
    )


def main(args: argparse.Namespace) -> None:
    """Print versions and paths, or one path."""
    if args.user_dir:
        print(PACKAGE)
        return
    facts = {"gtransformer": gtransformer.__version__} | versions()
    facts |= {"device": device_name(), "commit": current_commit() or "none"}
    facts |= {"user-dir": PACKAGE, "configs": config_directory()}
    width = max(map(len, facts))
    print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))
