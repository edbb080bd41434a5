"""A page of HTML that shows two systems side by side, document by document."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from jinja2 import Environment

from gtransformer.evaluation.metrics import SENTENCES
from gtransformer.evaluation.score import Evaluation

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
        own = [index for index, _ in group]
        scores = [one.score(own) for one in counts]
        rows = [
            (sides[0].sentences.references[i], *(side.sentences.hypotheses[i] for side in sides))
            for i in own
        ]
        difference = scores[1] - scores[0]
        documents.append(
            {"number": number + 1, "scores": scores, "difference": difference, "rows": rows}
        )
    documents.sort(key=itemgetter("difference"), reverse=True)
    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(names=[first.name, second.name], documents=documents)
