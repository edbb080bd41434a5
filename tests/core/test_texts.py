"""What no file that is shipped may hold: paths of the machine it was written on, and sentences of the papers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import SHARED

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("configs", "docs", "exp_logs", "gtransformer", "requirements", "scripts")
MACHINE = re.compile(rb"(?<![\w.~$}/])/(tmp|work|home|root|mnt|scratch|Users)\b[^\s\"'`)]*")
# A lock must lie outside of the environment that it guards, and every system has this folder.
ALLOWED = {("scripts/setup.sh", "/tmp}/gtransformer-setup-$(printf")}
PAPERS = sorted((SHARED / "papers").glob("*")) if SHARED.is_dir() else []


def shipped() -> list[Path]:
    """The files that git knows in these folders and beside them; where there is no git, all that are there."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", "*.md", "*.toml", *FOLDERS]
    try:
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = []
    files = [ROOT / name for name in names if name] or [
        *ROOT.glob("*.md"),
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts),
    ]
    return [path for path in files if path.is_file()]


def machine_paths(content: bytes) -> list[str]:
    return [found[0].decode(errors="replace") for found in MACHINE.finditer(content)]


def test_no_paths_of_a_machine():
    """In results above all: commands and file names there are shortened to those of the checkout."""
    files = {path.relative_to(ROOT).as_posix(): path for path in shipped()}
    assert {"README.md", "docs/recipes.md", "configs/base.yaml", "exp_logs/about.yaml"} <= files.keys()
    found = {(name, text) for name, path in files.items() for text in machine_paths(path.read_bytes())}
    assert found == ALLOWED


def test_what_a_path_of_a_machine_is():
    for text in (b'"/tmp/x.pt"', b"--output=/home/me/runs", b"cd /root", b'{"path": "/scratch/someone/runs"}'):
        assert machine_paths(text), text
    for text in (b"runs/tmp/x", b"https://a.org/home/x", b"../work/x", b"$HOME/tmp/x", b"/tmpfs", b"read/work"):
        assert not machine_paths(text), text


def words(text: str) -> str:
    return f" {' '.join(re.findall('[a-z0-9]+', text.lower()))} "


def prose(paper: str) -> str:
    """The sentences of a paper: without headings, rows of tables and references, which are named as they are."""
    lines = (line for line in paper.splitlines() if not line.startswith(("#", "- ")) and "\t" not in line)
    return words("\n".join(lines))


def headings(paper: str) -> set[str]:
    return {words(line) for line in paper.splitlines() if line.startswith("#")}


def quotations(text: str) -> Iterator[str]:
    """What stands in double quotes in a paragraph, comment marks and line breaks taken out: no name, no figures."""
    for paragraph in re.split(r"\n[ #]*\n", text):
        joined = " ".join(re.sub(r"^[ \t>]*#+", "", line) for line in paragraph.splitlines())
        for found in re.finditer('["“]([^"“”]+)["”]', joined):
            if sum(not word.isdigit() for word in words(found[1]).split()) > 4:
                yield found[1]


@pytest.mark.skipif(not PAPERS, reason="the papers (../shared/papers) are not here")
def test_papers_are_put_in_our_own_words():
    papers = [path.read_text(encoding="utf-8") for path in PAPERS]
    texts, names_of_parts = list(map(prose, papers)), set().union(*map(headings, papers))
    names = (".md", ".py", ".yaml", ".sh")
    found = [
        (path.relative_to(ROOT).as_posix(), quotation)
        for path in shipped()
        if path.suffix in names
        for quotation in quotations(path.read_text(encoding="utf-8"))
        if words(quotation) not in names_of_parts and any(words(quotation) in text for text in texts)
    ]
    assert not found


def test_what_a_quotation_is():
    text = '# They say "one two\n# three four five" and "one two", too.\n#\n# x "a b\n\nc d e f"'
    text += '\n\n"(a et al., 2017), b" "1.0 2.0 3.0 4.0"'
    assert [words(found).split() for found in quotations(text)] == [["one", "two", "three", "four", "five"]]
