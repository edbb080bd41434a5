"""Pictures of results: translations side by side, BLEU by input length."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from jinja2 import Environment

from gtransformer.errors import UserError
from gtransformer.lab.results import SHOWN, TESTED, new_figure

BY_LENGTH = re.compile(r"(.+)-(\d+)")  # a row of an experiment, as transformer-512
TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}"
 font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">
<rect width="{{ width }}" height="{{ height }}" fill="white"/>
{% for name, x in names -%}
<text x="{{ x }}" y="24" font-weight="bold">{{ name }}</text>
{% endfor %}
{%- for words, x, y in cells -%}
<text x="{{ x }}" y="{{ y }}">
{%- for word, wrong in words %}{% if wrong -%}
<tspan fill="#C00000" font-weight="bold">{{ word }}</tspan>
{%- else %}{{ word }}{% endif %}{{ "" if loop.last else " " }}{% endfor -%}
</text>
{% endfor -%}
</svg>
"""


def side_by_side(texts: Mapping[str, Sequence[str]]) -> str:
    """Return an SVG picture of a document: a column for each text, a line for each sentence.

    Args:
        texts: sentences by name: the source, the reference, then translations. In translations
            the words that differ from the reference are marked.

    Raises UserError for texts of unequal length.
    """
    if len({len(text) for text in texts.values()}) > 1:
        raise UserError("the texts have different numbers of lines")
    reference = list(texts.values())[1]
    cells, names, x = [], [], 16
    for column, (name, text) in enumerate(texts.items()):
        names.append((name, x))
        for number, line in enumerate(text):
            expected = reference[number] if column > 1 else line
            cells.append((marked(line, expected), x, 50 + 20 * number))
        x += 30 + 7 * max(map(len, text))  # about 7 units a letter
    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(width=x, height=50 + 20 * len(reference), names=names, cells=cells)


def marked(line: str, reference: str) -> list[tuple[str, bool]]:
    """Return the words of a line, and whether each differs from the reference's."""
    words, expected = line.split(), reference.split()
    parts = SequenceMatcher(None, expected, words, autojunk=False).get_opcodes()
    return [
        (word, kind != "equal") for kind, _, _, first, end in parts for word in words[first:end]
    ]


def bleu_by_length(results: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Return length, BLEU and half its interval over seeds, by "SYSTEM, METRIC".

    Args:
        results: an experiment's results.csv with systems called SYSTEM-LENGTH.
    """
    points: dict[str, list[tuple[int, float, float]]] = {}
    with open(results, encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            name = BY_LENGTH.fullmatch(row["system"])
            if name and row["seed"] == "mean" and row["metric"] in TESTED:
                value, end = float(row["value"]), float(row["interval"].split(" to ")[1])
                curve = points.setdefault(f"{name[1]}, {SHOWN[row['metric']]}", [])
                curve.append((int(name[2]), value, end - value))
    return {name: sorted(curve) for name, curve in points.items()}


def draw_lengths(results: Path, path: Path) -> None:
    """Draw BLEU by input length with its intervals; see ``bleu_by_length``."""
    figure, (axes,) = new_figure(5.5, 3.5)
    for name, points in bleu_by_length(results).items():
        lengths, values, halves = zip(*points, strict=True)
        axes.errorbar(lengths, values, halves, marker="o", capsize=4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, map(str, lengths))
    axes.set(xlabel="longest input (tokens)", ylabel="BLEU", ylim=(0, 100))
    axes.legend(fontsize=8)
    figure.savefig(path)
