"""How commands read their options."""

from __future__ import annotations

import argparse

from gtransformer.installation import as_typed


class CommandParser(argparse.ArgumentParser):
    """A parser that is given the name of a script; where no checkout is, it calls itself and others as installed."""

    def __init__(self, prog: str, **options):
        super().__init__(prog=as_typed(prog), **options)

    def format_help(self) -> str:
        """What ``--help`` prints."""
        return as_typed(super().format_help())
