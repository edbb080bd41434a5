"""Systems of one's own, outside of the package: fairseq's user-dir, imported before anything asks for what is in it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fairseq import utils

from gtransformer.errors import UserError


def import_user_dir(folder: str | Path | None) -> None:
    """Import the code of a user-dir, as fairseq's programs do; nothing for None, or where it has been imported.

    fairseq's own parsers import only what the command line of the process names, and list the architectures that are
    known then. Raises UserError if there is no such folder, or another package of that name has been imported.
    """
    if folder is None:
        return
    try:
        utils.import_user_module(Namespace(user_dir=str(folder)))
    except FileNotFoundError:
        raise UserError(f"--user-dir {folder}: no such folder; give the one with the system's __init__.py") from None
    except ImportError as error:
        raise UserError(f"--user-dir {folder}: cannot be imported: {error}; mend the code there") from error
