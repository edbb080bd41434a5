"""How far a program is, read from the end of its log."""

from __future__ import annotations

import re
from pathlib import Path

# What makes fairseq-generate say how far it is as ``batch_status`` reads it, and nothing else.
BATCHES = ("generate.log-format=simple", "generate.log-interval=1", "generate.quiet=true")


def _tail(path: Path, size: int = 4096) -> str:
    """The last bytes of a file as text, empty if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_status(log: Path, updates: int | None) -> str | None:
    """``128/550 updates, perplexity 1.92, validation 1.81``, from fairseq's JSON log; the end may be unknown."""
    text = _tail(log)
    done = re.findall(r'num_updates": "(\d+)"', text)
    if not done:
        return None
    parts = [f"{done[-1]}/{updates} updates" if updates else f"{done[-1]} updates"]
    for kind, name in (("ppl", "perplexity"), ("valid_ppl", "validation")):
        found = re.findall(rf'"{kind}": "([\d.]+)"', text)
        parts += [f"{name} {found[-1]}"] if found else []
    return ", ".join(parts)


def batch_status(log: Path) -> str | None:
    """``3/8 batches``, from the progress line of generation or of the contrastive command."""
    found = re.findall(r"(\d+) ?/ ?(\d+)(?: \[|\s)", _tail(log))
    return f"{found[-1][0]}/{found[-1][1]} batches" if found else None


def last_line(log: Path) -> str | None:
    """The last line of a log, in short."""
    lines = re.split(r"[\r\n]+", _tail(log).strip())
    return lines[-1].removeprefix("| ")[:70] or None
