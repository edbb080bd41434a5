"""How commands read their options."""

from __future__ import annotations

import argparse

from gtransformer.installation import as_typed


class _Imported(argparse.Action):
    """Of ``--user-dir``: imported when it is read, so that what is loaded later finds the system there."""

    def __call__(self, parser, namespace, values, option_string=None):
        from gtransformer.tasks.trained import import_user_dir

        import_user_dir(values)
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """A parser with the options that several commands have."""

    def format_help(self) -> str:
        """Return what ``--help`` prints."""
        return as_typed(super().format_help())

    def add_user_dir(self) -> None:
        """``--user-dir``, for commands that load a model: the code of a system of one's own."""
        help_text = "code of a system of one's own, the folder that fairseq-train was given (docs/new_system.md)"
        self.add_argument("--user-dir", action=_Imported, metavar="DIR", help=help_text)

    def add_changes(self, recipes: str) -> None:
        """``--set``, for commands that run ``recipes``, as "all recipes"."""
        help_text = f"change {recipes}; repeatable"
        self.add_argument("--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help=help_text)
