"""A page of HTML that shows two systems side by side, document by document."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

from jinja2 import Environment
from markupsafe import Markup, escape

from gtransformer.evaluation.metrics import SENTENCES
from gtransformer.evaluation.score import Evaluation

TEMPLATE = """<!doctype html>
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
<p>{{ documents | length }} documents, by the difference in chrF ({{ names[1] }} minus {{ names[0] }}).
Words that the other system does not have are marked.</p>
{% for document in documents %}
<h2>Document {{ document.number }}: chrF {{ "%.1f" | format(document.scores[0]) }} and
{{ "%.1f" | format(document.scores[1]) }} ({{ "%+.1f" | format(document.difference) }})</h2>
<table>
<tr><th>reference</th><th>{{ names[0] }}</th><th>{{ names[1] }}</th></tr>
{% for row in document.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table>
{% endfor %}
</html>
"""


def page(first: Evaluation, second: Evaluation) -> str:
    """Return a page with the documents of two systems, those first in which the second is most above the first."""
    reference = next(iter(first.scores))
    sides = [system.scores[reference].segments for system in (first, second)]
    counts = [side.statistics("chrf", SENTENCES) for side in sides]
    documents = []
    for number, group in groupby(enumerate(sides[0].positions), lambda item: item[1][0]):
        own = [index for index, _ in group]
        scores = [one.score(own) for one in counts]
        rows = [_row(*(side.sentences for side in sides), index) for index in own]
        difference = scores[1] - scores[0]
        documents.append({"number": number + 1, "scores": scores, "difference": difference, "rows": rows})
    documents.sort(key=itemgetter("difference"), reverse=True)
    template = Environment(autoescape=True).from_string(TEMPLATE)
    return template.render(names=[first.name, second.name], documents=documents)


def _row(first, second, index: int) -> list[str]:
    """Return a sentence's reference and its two translations, with marks where they differ."""
    texts = first.hypotheses[index], second.hypotheses[index]
    words = [text.split() for text in texts]
    blocks = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    marked = [
        _marked(words[side], [(tag, *spans[2 * side : 2 * side + 2]) for tag, *spans in blocks]) for side in (0, 1)
    ]
    return [first.references[index], *(Markup(" ").join(one) for one in marked)]


def _marked(words: list[str], blocks: list[tuple[str, int, int]]) -> Iterator[Markup]:
    """Yield the text of each block of words, marked unless both systems have it."""
    for tag, begin, end in blocks:
        text = escape(" ".join(words[begin:end]))
        if text:
            yield text if tag == "equal" else Markup("<mark>{}</mark>").format(text)
