"""Scores as tables of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gtransformer.evaluation.metrics import COLUMNS, COMET, INSTANCES
from gtransformer.evaluation.realignment import MWER
from gtransformer.evaluation.references import REFERENCES
from gtransformer.evaluation.score import Evaluation
from gtransformer.evaluation.text_table import align, difference_cell


def table(systems: Sequence[Evaluation], tests: Mapping) -> str:
    """Return all scores with signatures, a column per system; below each score, the tests against the first system.

    Scores over instances, which may differ between systems, are shown for a single system only. Notes for the reader
    follow.
    """
    several = len(systems) > 1
    names = [system.name for system in systems] if several else [""]
    rows = [["reference", "score", *names, "segments", "signature"]]
    for reference, scores in systems[0].scores.items():
        for key, first in scores.values.items():
            column = COLUMNS[key]
            if several and column.level == INSTANCES:
                continue
            digits = 4 if key == COMET else 2
            cells = [f"{system.scores[reference].values[key].score:.{digits}f}" for system in systems]
            rows.append([reference, column.title, *cells, f"{first.segments} {column.level}", first.signature])
            results = tests.get(reference, {}).get(key)
            if results:
                cells = [difference_cell(result) for result in results.values()]
                signature = next(iter(results.values()))["signature"]
                rows.append(["", "  documents exchanged", "-", *cells, "", signature])
    lines = [align(rows, range(2, 2 + len(systems)))]
    if list(systems[0].scores) != ["raw"]:
        lines += [f"{reference}: {REFERENCES[reference]}" for reference in systems[0].scores]
    counts = systems[0].counts
    if systems[0].borders is not None:
        lines.append(f"{counts['sentences']} sentences in {counts['documents']} documents, {systems[0].borders}")
    for system in systems:
        lines += notes(system, several)
    return "\n".join(lines)


def notes(system: Evaluation, named: bool) -> Iterator[str]:
    """Yield notes on a system's translations: sentences that were aligned, or left out."""
    counts, start = system.counts, f"note: {system.name}: " if named else "note: "
    if counts["misaligned_instances"]:
        how = "cut again where words differ least" if system.alignment == MWER else "aligned by order"
        yield (
            f"{start}{counts['misaligned_instances']} instances (of plain text: documents) have another number of "
            f"sentences than their source; for scores over sentences they were {how}"
        )
    if counts["left_out_sentences"]:
        yield (f"{start}{counts['left_out_sentences']} sentences are in no instance and were left out of all scores")
