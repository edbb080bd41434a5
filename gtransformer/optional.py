"""A BERT's tokeniser, and the code of a user's own system."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gtransformer.errors import UserError


def read_wordpiece_tokeniser(folder: str | Path):
    """Return the tokeniser of a BERT, transformers' ``BertTokenizerFast``.

    Raises UserError if the folder has none.
    """
    from transformers import BertTokenizerFast

    files = "tokenizer.json", "vocab.txt"
    # transformers 5 would make one from special tokens only.
    if not any((Path(folder) / name).is_file() for name in files):
        raise UserError(
            f"{folder}: no tokeniser of a BERT ({' or '.join(files)}); save it there with "
            "save_pretrained"
        )
    return BertTokenizerFast.from_pretrained(folder, local_files_only=True)


def import_user_dir(folder: str | Path) -> None:
    """Import the code of a user-dir, unless it has been imported.

    fairseq's own parsers import only the user-dir on the command line of the process. Raises
    UserError if there is no such folder.
    """
    folder = Path(folder).absolute()
    if not (folder / "__init__.py").is_file():
        raise UserError(
            f"--user-dir {folder}: no __init__.py there; give the folder that holds the system's "
            "code"
        )
    if folder.name not in sys.modules:
        sys.path.insert(0, str(folder.parent))
        importlib.import_module(folder.name)
