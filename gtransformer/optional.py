"""Packages that only some systems need, and what to install where they are missing."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from gtransformer.errors import UserError


def import_transformers() -> ModuleType:
    """Hugging Face transformers; UserError, with what to install, if it is not there."""
    hide_broken("torchaudio")
    try:
        import transformers
    except ImportError:
        raise UserError("BERT needs the package transformers, an optional extra: pip install '.[bert]'") from None
    return transformers


def read_wordpiece_tokeniser(folder: str | Path):
    """Return the tokeniser of a BERT, transformers' ``BertTokenizerFast``. Raises UserError if the folder holds none."""
    transformers = import_transformers()
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such directory; it should hold a BERT as Hugging Face's transformers saves it")
    files = "tokenizer.json", "vocab.txt"
    if not any((Path(folder) / name).is_file() for name in files):  # transformers 5 makes one of special tokens alone
        raise UserError(f"{folder}: no tokeniser of a BERT ({' or '.join(files)}); save it there with save_pretrained")
    try:
        return transformers.BertTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises what its parsers raise
        raise UserError(f"{folder}: no tokeniser of a BERT ({str(error).splitlines()[0]})") from None


def hide_broken(name: str) -> None:
    """Let a package that is installed and cannot be imported count as not installed in this process.

    transformers imports torchaudio wherever it finds it, and fairseq-fixed brings it; its last release, 2.11, refuses a
    PyTorch for another CUDA. Nothing here needs it.
    """
    try:
        importlib.import_module(name)
    except Exception:  # RuntimeError, OSError: what a library of other versions raises; ImportError: not installed
        for loaded in [one for one in sys.modules if one.split(".")[0] == name]:
            del sys.modules[loaded]
        sys.modules[name] = None
