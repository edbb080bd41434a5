"""Consistency of terms as a table of plain text."""

from __future__ import annotations

from collections.abc import Mapping

from gtransformer.evaluation.score_table import test_cell
from gtransformer.evaluation.significance import SIDES
from gtransformer.evaluation.terms import SCORES
from gtransformer.evaluation.text_table import align

TITLES = {"ltcr": "LTCR", "ltcr_stem": "LTCR by stem"}


def table(systems: Mapping[str, Mapping], significance: Mapping[str, Mapping]) -> str:
    """A row per system, in per cent, with the tests against the first."""
    tested = f"p {SIDES}, documents exchanged"
    head = [part for key in SCORES for part in (TITLES[key], *([tested] if significance else []))]
    rows = [["system", *head, "terms", "occurrences", "translated"]]
    for name, one in systems.items():
        tests = significance.get(name, {})
        scores = [
            part
            for key in SCORES
            for part in (f"{one[key]:.2f}", *([test_cell(tests[key]) if key in tests else "-"] if significance else []))
        ]
        rows.append([name, *scores, *(str(one[key]) for key in ("terms", "occurrences", "translated"))])
    return align(rows, range(1, len(rows[0])))
