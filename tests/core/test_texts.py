"""What no file that is shipped may hold: paths of the machine it was written on, and names of what
is elsewhere.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("configs", "docs", "exp_logs", "gtransformer", "requirements", "scripts")
MACHINE = re.compile(rb"(?<![\w.~$}/])/(tmp|work|home|root|mnt|scratch|Users)\b[^\s\"'`)]*")
# What people who built this had at hand and what is not part of it: plans, tickets, material of
# theirs.
ELSEWHERE = re.compile(
    r"\bDESIGN\b(?=[. ,]?(?:md|section|\d))|\bSYSTEMS\.md\b|\bissues? #?\d|(?<!\.\./)\bshared/"
)
PAGE = re.compile(r"(?<![\w/.])docs/[\w-]+\.md")
# A lock must lie outside of the environment that it guards, and every system has this folder.
ALLOWED = {("scripts/setup.sh", "/tmp}/gtransformer-setup-$(printf")}


def shipped() -> list[Path]:
    """The files that git knows in these folders and beside them; where there is no git, all that
    are there.
    """
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", "*.md", "*.toml", *FOLDERS]
    try:
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\0"
        )
    except (OSError, subprocess.CalledProcessError):
        names = []
    files = [ROOT / name for name in names if name] or [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in FOLDERS
            for path in (ROOT / folder).rglob("*")
            if "__pycache__" not in path.parts
        ),
    ]
    return [path for path in files if path.is_file()]


def machine_paths(content: bytes) -> list[str]:
    return [found[0].decode(errors="replace") for found in MACHINE.finditer(content)]


def test_no_paths_of_a_machine():
    """In results above all: commands and file names there are shortened to those of the
    checkout.
    """
    files = {path.relative_to(ROOT).as_posix(): path for path in shipped()}
    assert {"README.md", "docs/train.md", "configs/base.yaml", "exp_logs/README.md"} <= files.keys()
    found = {
        (name, text) for name, path in files.items() for text in machine_paths(path.read_bytes())
    }
    assert found == ALLOWED


def test_what_files_name_is_part_of_the_repository():
    """Pages that code names are there; nothing refers to plans and tickets."""
    files = [
        path for path in shipped() if path.suffix in (".md", ".py", ".sh", ".yaml", ".toml", ".txt")
    ]
    texts = {
        path: path.read_text(encoding="utf-8") for path in files if "exp_logs" not in path.parts
    }
    pages = {page for text in texts.values() for page in PAGE.findall(text)}
    assert not [page for page in pages if not (ROOT / page).exists()]
    assert not [(path, names) for path, text in texts.items() if (names := ELSEWHERE.findall(text))]
