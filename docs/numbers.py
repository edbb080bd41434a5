"""List the numbers of a page that no file of exp_logs holds: python docs/numbers.py [PAGE...].

A number is held if a value, an interval or a setting of any file rounds to it. Settings stand in
experiments' files, in names of metrics and in commands. Numbers in code and in links, years and
whole numbers up to 20 are left out. What is listed is to be read: it may be a setting of the text.
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
    r"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+|\(\w[\w .]* (?:19|20)\d\d\)", re.DOTALL
)
WHOLE = re.compile(r"(?<![\w.])\d+(?![\w.])")
NUMBER = re.compile(r"(?<![\w.,-])-?\d[\d,]*(?:\.\d+)?(?![\w])")


def held() -> list[float]:
    """Return the absolute values of all numbers in the results and experiments, sorted."""
    found = []
    for path in sorted((ROOT / "exp_logs").glob("*/results.csv")):
        with open(path, encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                found += [row["value"], *row["interval"].split(" to ")]
                found += WHOLE.findall(f"{row['metric']} {row['command']}")
    for path in (ROOT / "exp_logs").glob("*/experiment.yaml"):
        found += re.findall(r"\d+(?:\.\d+)?", path.read_text(encoding="utf-8"))
    return sorted(abs(float(text)) for text in found if text)


def missing(page: Path, values: list[float]) -> list[tuple[int, str]]:
    """Return line and text of the numbers on a page that no value rounds to."""
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text(encoding="utf-8"))
    found = []
    for line, words in enumerate(text.splitlines(), 1):
        for number in NUMBER.findall(words):
            plain = number.strip(",").replace(",", "").lstrip("-")
            value, decimals = float(plain), len(plain.partition(".")[2])
            if not decimals and (value <= 20 or 1990 <= value <= 2030):
                continue
            half = 0.5 * 10**-decimals + 1e-9
            place = bisect.bisect_left(values, value - half)
            if place == len(values) or values[place] > value + half:
                found.append((line, number))
    return found


def main() -> None:
    """Print PAGE:LINE NUMBER for each."""
    values = held()
    for page in sys.argv[1:] or PAGES:
        for line, number in missing(ROOT / page, values):
            print(f"{page}:{line} {number}")


if __name__ == "__main__":
    main()
