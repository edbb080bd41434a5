"""Count what keeps the pages readable: ``python docs/readability.py``; with ``--help-times`` also how long help takes.

Prose only: tables and code are left out. Limits: README 130 lines; 22,000 words outside docs/lab/; 18 words a sentence
on average, at most 3 % of sentences above 25 words. The exit status is 1 where a limit is passed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES, WORDS, MEAN, LONG, SHARE = 130, 22_000, 18, 25, 0.03


def prose(text: str) -> str:
    """Return a page without code blocks, comments and tables."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


def sentence_lengths(text: str) -> list[int]:
    """Return the number of words of each sentence; code in a line counts as one word."""
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lengths = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)|\n(?=#)", text):
        sentences = re.split(r"(?<=[.!?:;])\s+(?=[A-Z`\"(])", " ".join(block.split()).lstrip("#-* "))
        lengths += [len(sentence.split()) for sentence in sentences if len(sentence.split()) > 2]
    return lengths


def help_times() -> None:
    """Print how long ``--help`` of every command takes, and ``python -c pass``."""
    from gtransformer.cli.commands import COMMANDS

    commands = {name: ["-m", "gtransformer", *name.split(), "--help"] for name in COMMANDS}
    for name, arguments in {"python -c pass": ["-c", "pass"], **commands}.items():
        began = time.monotonic()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        print(f"{time.monotonic() - began:5.2f} s  {name}")


def main() -> int:
    """Print a line for each page and the totals; 1 where a limit is passed."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    words, lengths = 0, []
    for page in pages:
        text = prose(page.read_text(encoding="utf-8"))
        found, count = sentence_lengths(text), len(re.sub(r"[#*_>]", "", text).split())
        words += 0 if "lab" in page.parts else count
        lengths += found
        mean = sum(found) / max(1, len(found))
        name = page.relative_to(ROOT)
        print(f"{count:6,} words, {mean:4.1f} a sentence, {sum(n > LONG for n in found):3} above {LONG}: {name}")
    lines = len((ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    mean, share = sum(lengths) / len(lengths), sum(length > LONG for length in lengths) / len(lengths)
    print(f"README: {lines} lines; pages outside docs/lab/: {words:,} words")
    print(f"all pages: {mean:.1f} words a sentence, {share:.1%} of sentences above {LONG}")
    if "--help-times" in sys.argv:
        help_times()
    return int(lines > LINES or words > WORDS or mean > MEAN or share > SHARE)


if __name__ == "__main__":
    raise SystemExit(main())
