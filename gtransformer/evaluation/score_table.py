"""Scores as tables of plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gtransformer.evaluation.metrics import COLUMNS, INSTANCES, METRICS, Score
from gtransformer.evaluation.references import REFERENCES
from gtransformer.evaluation.score import Evaluation, Scores
from gtransformer.evaluation.significance import DOCUMENTS, MIN_UNITS, SENTENCES, SIDES, SIGN
from gtransformer.evaluation.text_table import align, difference_cell


def table(systems: Sequence[Evaluation], tests: Mapping) -> str:
    """Return all scores with signatures, a column per system; below each score, the tests against the first system.

    Systems that translated different instances have separate rows for scores over instances. Notes for the reader
    follow.
    """
    names = [system.name for system in systems] if len(systems) > 1 else [""]
    warned: dict[str, None] = {}
    rows = [["reference", "score", *names, "segments", "signature"]]
    for reference in systems[0].scores:
        found = [system.scores[reference] for system in systems]
        for key in dict.fromkeys(key for scores in found for key in scores.values):
            title, unit = COLUMNS[key].title, COLUMNS[key].level
            comparable = _comparable(key, found)
            for values in comparable:
                known = [value for value in values if value is not None]
                warned |= {f"note: {title}: {value.warning}": None for value in known if value.warning}
                shown = [score_cell(key, value) for value in values]
                rows.append([reference, title, *shown, f"{known[0].segments} {unit}", known[0].signature])
            if len(comparable) > 1:
                warned[f"note: {title}: the systems' {unit} differ; compare only what is in one row"] = None
            rows += _test_rows(tests.get(reference, {}).get(key, {}))
    lines = [align(rows, range(2, 2 + len(systems)))]
    if list(systems[0].scores) != ["raw"]:
        lines += [f"{reference}: {REFERENCES[reference]}" for reference in systems[0].scores]
    borders, counts = systems[0].borders, systems[0].counts
    if borders is not None:
        several = "" if counts["documents"] == 1 else "s"
        lines.append(f"{counts['sentences']} sentences in {counts['documents']} document{several}, {borders}")
    lines += [*warned, *_test_notes(tests, counts["documents"])]
    for system in systems:
        lines += notes(system, len(systems) > 1)
    return "\n".join(lines)


def score_cell(key: str, value: Score | None) -> str:
    """Return a score of the column ``key``, formatted."""
    return "-" if value is None else f"{value.score:.{METRICS[COLUMNS[key].metric].digits}f}"


def _comparable(key: str, found: Sequence[Scores]) -> list[list[Score | None]]:
    """Return rows of every system's score ``key`` (None: no score), a row for each set of instances."""
    rows: list[tuple[list[str] | None, list[Score | None]]] = []
    for number, scores in enumerate(found):
        if key not in scores.values:
            continue
        over = scores.segments.instances.references if COLUMNS[key].level == INSTANCES else None
        row = next((row for other, row in rows if other == over), None)
        if row is None:
            row = [None] * len(found)
            rows.append((over, row))
        row[number] = scores.values[key]
    return [row for _, row in rows]


def _test_rows(results: Mapping[str, Mapping[str, Mapping]]) -> Iterator[list[str]]:
    """Yield a row per test and signature, as few exchanges make a test exact: by system the difference with its 95 %
    interval, or the counts of the sign test, and p.
    """
    for test in next(iter(results.values()), {}):
        parts, name = [found[test] for found in results.values()], "sign test" if test == SIGN else f"{test} exchanged"
        for signature in dict.fromkeys(part["signature"] for part in parts):
            cells = (difference_cell(part) if part["signature"] == signature else "" for part in parts)
            yield ["", f"  p {SIDES}, {name}", "-", *cells, "", signature]


def _test_notes(tests: Mapping, documents: int) -> Iterator[str]:
    """Yield notes on tests: too few documents, or sentences that are not independent."""
    made = {test for found in tests.values() for one in found.values() for parts in one.values() for test in parts}
    if DOCUMENTS in made and documents < MIN_UNITS:
        yield (
            f"note: {documents} document(s): a test over documents needs {MIN_UNITS} or more; start each with <d>, or "
            "use --test sentences for independent sentences"
        )
    if {SENTENCES, SIGN} & made and documents > 1:
        yield (
            "note: sentences of a document are not independent, so p-values over sentences are too small if systems "
            "differ from document to document; --test documents is the test to quote"
        )
    by_system = (systems for scores in tests.values() for systems in scores.values())
    results = (result for systems in by_system for found in systems.values() for result in found.values())
    number = sum(result["p_value"] is not None for result in results)
    if number > 1:
        yield f"note: {number} p-values, not corrected for their number"


def notes(system: Evaluation, named: bool) -> Iterator[str]:
    """Yield notes on a system's translations: sentences that were aligned, or left out."""
    counts, start = system.counts, f"note: {system.name}: " if named else "note: "
    if counts["misaligned_instances"] and system.alignment.cuts:
        yield (
            f"{start}{counts['misaligned_instances']} instances (of plain text: documents) have another number of "
            "sentences than their source; for scores over sentences they were cut again where words differ least"
        )
    elif counts["misaligned_instances"]:
        overlapping = any(scores.segments.instances is None for scores in system.scores.values())
        yield (
            f"{start}{counts['misaligned_instances']} of {counts['instances']} instances were translated into another "
            "number of sentences than they have; "
            + (
                "these were aligned by order from the end, where the current sentence is (missing: empty, surplus: "
                "joined to the first), for s-BLEU and d-BLEU alike"
                if overlapping
                else "for s-BLEU these were aligned by order (missing: empty, surplus: joined to the last), d-BLEU is "
                "unaffected"
            )
        )
    if counts["left_out_sentences"]:
        yield (
            f"{start}{counts['left_out_sentences']} sentences are in no instance (of a test set: have no reference) "
            "and were left out of all scores"
        )


def breakdown_tables(results: Mapping[str, Mapping], breakdowns: Sequence[str]) -> Iterator[str]:
    """Yield a table per breakdown and reference: a row per document or position, a column per score and system."""
    for name in breakdowns:
        first = next(iter(results.values()))[f"by_{name}"]
        for reference, rows in first.items():
            keys = [key for key in COLUMNS if key in rows[0]]
            titles = [(COLUMNS[key].title, system) for key in keys for system in results]
            lines = [[name, "sentences", *(f"{title} {one}" if len(results) > 1 else title for title, one in titles)]]
            for number, row in enumerate(rows):
                parts = [result[f"by_{name}"][reference][number] for result in results.values()]
                cells = [f"{part[key]:.2f}" for key in keys for part in parts]
                lines.append([row.get("id") or str(row[name]), str(row["sentences"]), *cells])
            yield f"by {name}, reference {reference}\n" + align(lines)
