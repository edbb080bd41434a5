"""Systems of one's own, outside of the package: fairseq's user-dir, imported before anything asks for what is in it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fairseq import utils

from gtransformer.errors import UserError


def import_user_dir(folder: str | Path | None) -> None:
    """Import the code of a user-dir, as fairseq's programs do; nothing for None, or where it has been imported.

    fairseq's own parsers import only what the command line of the process names, and list the architectures that are
    known then. Raises UserError if there is no such folder, or its code cannot be imported.
    """
    if folder is None:
        return
    code = Path(folder).absolute() / "__init__.py"
    if not code.is_file():
        raise UserError(f"--user-dir {folder}: no {code.name} there; give the folder that holds the system's code")
    try:
        utils.import_user_module(Namespace(user_dir=str(folder)))
    except Exception as error:  # whatever a user's code may raise
        utils.import_user_module.memo.discard(str(code.parent))  # noted before it was imported: a second try is one
        said = f"{type(error).__name__}: {error}"
        raise UserError(f"--user-dir {folder}: cannot be imported: {said}; mend it, or rename the folder") from error
