"""List the numbers of a page that no file of exp_logs holds: python docs/numbers.py [PAGE...].

A number is found if a value, an interval or a setting of a file rounds to it. Settings stand in
experiments' files, in names of metrics and in commands. Where a section names folders of exp_logs
(`arena`), or the page has a folder's name, only their files count; else all. Numbers in code and
in links, years and whole numbers up to 20 are left out. What is listed is to be read: it may be a
setting of the text.
"""

from __future__ import annotations

import bisect
import csv
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/results.md", "docs/arena.md", "docs/ellipsis.md", "docs/performance.md")
CODE = re.compile(
    r"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+|\(\w[\w .]* (?:19|20)\d\d\)|95 %", re.DOTALL
)
WHOLE = re.compile(r"(?<![\w.])\d+(?![\w.])")
NUMBER = re.compile(r"(?<![\w.,-])-?\d[\d,]*(?:\.\d+)?(?![\w])")


def recorded() -> dict[str, list[float]]:
    """Return by folder the absolute values of the numbers in its results and experiment, sorted."""
    found = {}
    for path in sorted((ROOT / "exp_logs").glob("*/results.csv")):
        texts = []
        with open(path, encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                texts += [row["value"], *row["interval"].split(" to ")]
                if "bytes" in row["metric"]:  # pages say GB
                    texts.append(str(float(row["value"]) / 1e9))
                texts += WHOLE.findall(f"{row['metric']} {row['command']}")
        for settings in (*path.parent.glob("*.yaml"), *path.parent.glob("*.sh")):
            texts += re.findall(r"\d+(?:\.\d+)?", settings.read_text(encoding="utf-8"))
        found[path.parent.name] = sorted(abs(float(text)) for text in texts if text)
    return found


def missing(page: Path, recorded: dict[str, list[float]]) -> list[tuple[int, str]]:
    """Return line and text of the numbers on a page that no value rounds to."""
    found, line = [], 1
    for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        named = [name for name in recorded if name == page.stem or f"{name}`" in section]
        values = sorted(value for name in named or recorded for value in recorded[name])
        text = CODE.sub(lambda code: "\n" * code[0].count("\n"), section)
        for words in text.splitlines():
            found += [(line, number) for number in NUMBER.findall(words) if lacks(values, number)]
            line += 1
    return found


def lacks(values: list[float], number: str) -> bool:
    """Return whether no value rounds to a number of a page."""
    plain = number.strip(",").replace(",", "").lstrip("-")
    value, decimals = float(plain), len(plain.partition(".")[2])
    if not decimals and (value <= 20 or 1990 <= value <= 2030):
        return False
    half = 0.5 * 10**-decimals + 1e-9
    place = bisect.bisect_left(values, value - half)
    return place == len(values) or values[place] > value + half


def main() -> None:
    """Print PAGE:LINE NUMBER for each."""
    values = recorded()
    for page in sys.argv[1:] or PAGES:
        for line, number in missing(ROOT / page, values):
            print(f"{page}:{line} {number}")


if __name__ == "__main__":
    main()
