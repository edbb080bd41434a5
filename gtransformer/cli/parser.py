"""Option parsers of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from gtransformer.installation import with_pip_names


class _Imported(argparse.Action):
    """Action of ``--user-dir``, which imports the directory, so that models find its system."""

    def __call__(self, parser, namespace, values, option_string=None):
        from gtransformer.optional import import_user_dir

        import_user_dir(values)
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """A parser with options that several commands share.

    ``listing``: makes the text at the end of the help; it is read for the help alone.
    """

    listing: Callable[[], str] | None = None

    def format_help(self) -> str:
        """Return what ``--help`` prints."""
        self.epilog = self.listing and self.listing()
        return with_pip_names(super().format_help())

    def add_user_dir(self) -> None:
        """Add ``--user-dir``, the code of a user's own system, for commands that load a model."""
        help_text = "folder with the code of your own system (docs/new_system.md)"
        self.add_argument("--user-dir", action=_Imported, metavar="DIR", help=help_text)

    def add_langs(self) -> None:
        """Add ``-s`` and ``-t``, the languages of a corpus."""
        add = self.add_argument
        add("-s", "--source-lang", default="en", metavar="LANG", help="source (default: en)")
        add("-t", "--target-lang", default="de", metavar="LANG", help="target (default: de)")

    def add_contrapro(self) -> None:
        """Add the context of ContraPro's items."""
        folder = "contrapro.json: OpenSubtitles 2018, DIR/ID.en and DIR/ID.de"
        self.add_argument("--documents", type=Path, metavar="DIR", help=folder)
        before = "ContraPro: sentences of context (default: 1 with contrapro.json, else all)"
        self.add_argument("--context", type=int, metavar="N", help=before)

    def add_changes(self, recipes: str) -> None:
        """Add ``--set``, for commands that run ``recipes`` (as "all recipes")."""
        help_text = f"change an option of {recipes}; may be repeated"
        self.add_argument(
            "--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help=help_text
        )
