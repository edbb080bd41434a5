"""A command for the campaign's own test: ``python -m tests.faults.example careful|careless FILE``.

It keeps a file that is there, as all commands keep what they have done; the careless one writes it in two steps under
its name.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gtransformer.files import atomic_write

LINES = ("one half\n", "the other half\n")


def main(kind: str, path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    with atomic_write(path) if kind == "careful" else open(path, "w") as stream:
        for line in LINES:
            stream.write(line)
            stream.flush()
            time.sleep(0.3)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
