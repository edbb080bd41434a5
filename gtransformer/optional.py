"""Optional packages, and what to install if they are missing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from gtransformer.errors import UserError


def import_transformers() -> ModuleType:
    """Import Hugging Face transformers. Raises UserError, with the install command, if it is missing."""
    try:
        import transformers
    except ImportError:
        raise UserError("BERT needs the package transformers, an extra: pip install -e '.[bert]'") from None
    return transformers


def read_wordpiece_tokeniser(folder: str | Path):
    """Return the tokeniser of a BERT, transformers' ``BertTokenizerFast``.

    Raises UserError if the folder has none.
    """
    transformers = import_transformers()
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such directory; it should hold a BERT as Hugging Face's transformers saves it")
    files = "tokenizer.json", "vocab.txt"
    # transformers 5 would make one from special tokens only.
    if not any((Path(folder) / name).is_file() for name in files):
        raise UserError(f"{folder}: no tokeniser of a BERT ({' or '.join(files)}); save it there with save_pretrained")
    try:
        return transformers.BertTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises what its parsers raise
        raise UserError(f"{folder}: no tokeniser of a BERT ({str(error).splitlines()[0]})") from None
