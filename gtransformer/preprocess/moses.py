"""The Perl scripts of Moses, used in place of sacremoses where ``--moses`` or the variable ``MOSES`` names them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError

SCRIPTS = {
    "tokenizer.perl": "tokenizer",
    "detokenizer.perl": "tokenizer",
    "normalize-punctuation.perl": "tokenizer",
    "train-truecaser.perl": "recaser",
    "truecase.perl": "recaser",
    "detruecase.perl": "recaser",
}


def moses_directory(option: str | None = None) -> str | None:
    """The Moses directory to use: the option, else the environment variable MOSES, else None (sacremoses)."""
    return option or os.environ.get("MOSES") or None


def moses_as_prepared(recorded: str | bool | None, option: str | None = None) -> str | None:
    """The Moses directory for new text that goes the way of a corpus, None for sacremoses.

    The option, if given. Else, for a corpus that was prepared with Moses, the variable MOSES or where Moses lay then.

    Args:
        recorded: ``moses`` of the corpus's settings: that directory; in a model directory, whether there was one.
    """
    if option or not recorded:
        return option
    return moses_directory() or (recorded if isinstance(recorded, str) else None)


def script_path(root: str | Path, script: str) -> Path:
    """Where a script lies below ``root``, which may be the Moses checkout, its ``scripts`` folder or a flat folder.

    Raises UserError if it is in none of them.
    """
    folder = SCRIPTS[script]
    candidates = [Path(root, "scripts", folder, script), Path(root, folder, script), Path(root, script)]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise UserError(
        f"{candidates[0]}: no such file; point MOSES (or --moses) at a checkout of Moses, "
        "or leave it unset to use sacremoses"
    )


def run_script(root: str | Path, script: str, arguments: Sequence[str], lines: Sequence[str] | None) -> list[str]:
    """Run a Moses script over ``lines`` and return its output lines, as many as went in.

    With ``lines`` None nothing is piped and the output is returned as it is. Raises UserError when Perl is missing, the
    script fails, or it returns another number of lines.
    """
    path = script_path(root, script)
    text = None if lines is None else "".join(f"{line}\n" for line in lines).encode()
    try:
        done = subprocess.run(["perl", str(path), *arguments], input=text, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("perl: command not found; install Perl, or unset MOSES to use sacremoses") from None
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise UserError(f"{path}: failed with status {done.returncode} ({last})")
    output = done.stdout.decode("utf-8").removesuffix("\n").split("\n") if done.stdout else []
    if lines is not None and len(output) != len(lines):
        raise UserError(f"{path}: returned {len(output)} lines for {len(lines)}; use an unmodified Moses script")
    return output
