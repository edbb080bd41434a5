"""A Dockerfile as a shell script that does the same in a fresh folder: ``python .ci/dockerfile.py
FILE >script``.

The folder stands for the image's file system and PATH's first Python for the one that the image
begins with. Lines COPY, RUN, ENV, ARG, WORKDIR and the last CMD are done, each RUN by a shell of
its own as Docker does; another instruction is refused, as the script would leave it out.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

HEAD = """\
#!/usr/bin/env bash
# CONTEXT: the folder that is copied from; FILES: the one that stands for the image's file system.
set -euo pipefail
mkdir -p "$FILES"
cd "$FILES"
"""


def instructions(text: str) -> list[tuple[str, str]]:
    """Keyword and rest of every instruction; comments are left out and continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = (line.strip().partition(" ") for line in lines.replace("\\\n", " ").splitlines())
    return [(keyword.upper(), rest.strip()) for keyword, _, rest in found if keyword]


def copied(text: str) -> list[str]:
    """What is copied out of the context."""
    return [
        name
        for keyword, rest in instructions(text)
        if keyword == "COPY"
        for name in shlex.split(rest)[:-1]
    ]


def base_image(text: str) -> str:
    """The image that it begins with."""
    return next(rest for keyword, rest in instructions(text) if keyword == "FROM")


def as_script(text: str) -> str:
    """The script. Raises ValueError for an instruction that it cannot have."""
    parts, last = [HEAD], ""
    for keyword, rest in instructions(text):
        if keyword == "RUN":
            parts.append(f"sh -c {shlex.quote(rest)}")
        elif keyword == "ENV":
            parts.append(f"export {rest}")
        elif keyword == "ARG":
            name, _, default = rest.partition("=")
            parts.append(f"export {name}=${{{name}-{default}}}")
        elif keyword == "WORKDIR":
            parts.append(
                f'mkdir -p "$FILES/"{shlex.quote(rest)} && cd "$FILES/"{shlex.quote(rest)}'
            )
        elif keyword == "COPY":
            *names, target = shlex.split(rest)
            parts += [_copy(name, target) for name in names]
        elif keyword == "CMD":
            last = shlex.join(json.loads(rest))
        elif keyword != "FROM":
            raise ValueError(f"{keyword}: not known here; let .ci/dockerfile.py say what it does")
    return "\n".join([*parts, last]) + "\n"


def _copy(name: str, target: str) -> str:
    """A folder's content goes into the target, as Docker copies it; a file goes by its name into a
    target with /.
    """
    source = f'"$CONTEXT/"{shlex.quote(name)}'
    place = shlex.quote(target)
    return (
        f"if [ -d {source} ]; then mkdir -p {place} && cp -r {source}/. {place}; else cp "
        f"{source} {place}; fi"
    )


if __name__ == "__main__":
    print(as_script(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
