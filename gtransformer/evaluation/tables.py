"""Tables of results: plain text, and a page of HTML with two systems side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from jinja2 import Environment

from gtransformer.evaluation.metrics import COLUMNS, COMET, INSTANCES, SENTENCES
from gtransformer.evaluation.score import Evaluation
from gtransformer.evaluation.segments import MWER


def align(rows: Sequence[Sequence[str]], right: range | None = None) -> str:
    """Return rows of cells as lines; columns are two spaces apart.

    Args:
        right: right-aligned columns; None: all but the first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = range(1, len(widths)) if right is None else right
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if i in right else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def with_error(part: Mapping[str, Any]) -> str:
    """Return an accuracy with its standard error. The error is left out if all items or none are
    right, as it would be 0 for any number of items.
    """
    known = part["standard_error"] is not None and 0 < part["accuracy"] < 100
    return f"{part['accuracy']:.1f}" + (f" ±{part['standard_error']:.1f}" if known else "")


def difference_cell(part: Mapping[str, Any]) -> str:
    """Return a test's result from its JSON object: ``+0.31 [-0.02, +0.64] p 0.0612``."""
    if part["p_value"] is None:
        return "too few documents"
    low, high = part["interval"]
    return f"{part['difference']:+.2f} [{low:+.2f}, {high:+.2f}] p {part['p_value']:.2g}"


def sign_cell(part: Mapping[str, Any]) -> str:
    """Return a sign test's result from its JSON object: ``+5 -1 p 0.22``."""
    shown = "too few" if part["p_value"] is None else f"p {part['p_value']:.2g}"
    return f"+{part['better']} -{part['worse']} {shown}"


def accuracy_table(systems: Mapping[str, Mapping], tests: Mapping[str, Mapping]) -> str:
    """Return a row per system and phenomenon: accuracy, right items, these by distance, and the
    sign test.

    ``systems`` and ``tests`` are reports of ``accuracy.suite_report`` by name.
    """
    distances = dict.fromkeys(
        row for system in systems.values() for row in system.get("by_distance", ())
    )
    rows = [
        [
            "system",
            "phenomenon",
            "accuracy",
            "right",
            *(f"at {distance}" for distance in distances),
            "sign test",
        ]
    ]
    for name, system in systems.items():
        within = system.get("by_phenomenon_and_distance", {}) | {
            "all": system.get("by_distance", {})
        }
        for part, found in {**system["by_phenomenon"], "all": system["total"]}.items():
            cells = [found, *(within.get(part, {}).get(distance) for distance in distances)]
            shown = [f"{cell['solved']}/{cell['items']}" if cell else "-" for cell in cells]
            test = "-"
            if name in tests:
                test = sign_cell(
                    {**tests[name]["by_phenomenon"], "all": tests[name]["total"]}[part]
                )
            rows.append([name, part, with_error(found), *shown, test])
    return align(rows, range(2, len(rows[0])))


def score_table(systems: Sequence[Evaluation], tests: Mapping) -> str:
    """Return all scores with signatures, a column per system; below each score, the tests against
    the first system.

    Scores over instances, which may differ between systems, are shown for a single system only.
    Notes for the reader follow.
    """
    several = len(systems) > 1
    names = [system.name for system in systems] if several else [""]
    rows = [["reference", "score", *names, "segments", "signature"]]
    for reference, scores in systems[0].scores.items():
        for key, first in scores.values.items():
            column = COLUMNS[key]
            # Their instances may differ, so the scores cannot be compared.
            if several and column.level == INSTANCES:
                continue
            digits = 4 if key == COMET else 2
            cells = [
                f"{system.scores[reference].values[key].score:.{digits}f}" for system in systems
            ]
            rows.append(
                [
                    reference,
                    column.title,
                    *cells,
                    f"{first.segments} {column.level}",
                    first.signature,
                ]
            )
            results = tests.get(reference, {}).get(key)
            if results:
                cells = [difference_cell(result) for result in results.values()]
                signature = next(iter(results.values()))["signature"]
                rows.append(["", "  documents exchanged", "-", *cells, "", signature])
    lines = [align(rows, range(2, 2 + len(systems)))]
    counts = systems[0].counts
    if systems[0].borders is not None:
        lines.append(
            f"{counts['sentences']} sentences in {counts['documents']} documents, "
            f"{systems[0].borders}"
        )
    for system in systems:
        lines += notes(system, several)
    return "\n".join(lines)


def notes(system: Evaluation, named: bool) -> Iterator[str]:
    """Yield notes on a system's translations: sentences that were aligned, or left out."""
    counts, start = system.counts, f"note: {system.name}: " if named else "note: "
    if counts["misaligned_instances"]:
        how = (
            "cut again where words differ least" if system.alignment == MWER else "aligned by order"
        )
        yield (
            f"{start}{counts['misaligned_instances']} instances (of plain text: documents) have "
            "another number of sentences than their source; for scores over sentences they were "
            f"{how}"
        )
    if counts["left_out_sentences"]:
        yield (
            f"{start}{counts['left_out_sentences']} sentences are in no instance and were left out "
            "of all scores"
        )


# The words are escaped by Jinja, which leaves alone what a macro such as mark makes.
TEMPLATE = """{% macro marked(text, other) -%}
{% for word in text.split() %}{{ word if word in other.split() else mark(word) }}
{{- "" if loop.last else " " }}{% endfor %}
{%- endmacro -%}
{% macro mark(word) %}<mark>{{ word }}</mark>{% endmacro -%}
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{ names | join(" and ") }}</title>
<style>
body { font-family: sans-serif; max-width: 90em; margin: auto }
table { border-collapse: collapse; width: 100% }
td, th { border: 1px solid #ccc; padding: 0.3em; text-align: left; vertical-align: top; width: 33% }
mark { background: #fde58a }
</style>
<h1>{{ names | join(" and ") }}</h1>
<p>{{ documents | length }} documents,
by the difference in chrF ({{ names[1] }} minus {{ names[0] }}).
Words that the other system does not have are marked.</p>
{% for document in documents %}
<h2>Document {{ document.number }}: chrF {{ "%.1f" | format(document.scores[0]) }} and
{{ "%.1f" | format(document.scores[1]) }} ({{ "%+.1f" | format(document.difference) }})</h2>
<table>
<tr><th>reference</th><th>{{ names[0] }}</th><th>{{ names[1] }}</th></tr>
{% for reference, first, second in document.rows %}
<tr><td>{{ reference }}</td><td>{{ marked(first, second) }}</td>
<td>{{ marked(second, first) }}</td></tr>
{% endfor %}
</table>
{% endfor %}
</html>
"""


def page(first: Evaluation, second: Evaluation) -> str:
    """Return a page with the documents of two systems, those first in which the second is most
    above the first.
    """
    reference = next(iter(first.scores))
    sides = [system.scores[reference].segments for system in (first, second)]
    counts = [side.statistics("chrf", SENTENCES) for side in sides]
    documents = []
    for number, group in groupby(enumerate(sides[0].positions), lambda item: item[1][0]):
        segments = [index for index, _ in group]
        scores = [statistics.score(segments) for statistics in counts]
        rows = [
            (sides[0].sentences.references[i], *(side.sentences.hypotheses[i] for side in sides))
            for i in segments
        ]
        difference = scores[1] - scores[0]
        documents.append(
            {"number": number + 1, "scores": scores, "difference": difference, "rows": rows}
        )
    # What a reader looks for first is where the second system is ahead.
    documents.sort(key=itemgetter("difference"), reverse=True)
    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(names=[first.name, second.name], documents=documents)
