"""Contrastive accuracy as tables of plain text."""

from __future__ import annotations

from gtransformer.report.score_table import align


def table(result: dict) -> str:
    """Accuracy of a contrastive set over a prepared corpus, by phenomenon and distance."""
    distances = list(result["by_distance"])
    rows = [["phenomenon", "all", "items", *(f"at {distance}" for distance in distances)]]
    parts = {**result["by_phenomenon"], "all": result["total"]}
    by_distance = {**result["by_phenomenon_and_distance"], "all": result["by_distance"]}
    for name, part in parts.items():
        cells = [by_distance[name].get(distance) for distance in distances]
        shown = [f"{cell['solved']}/{cell['items']}" if cell else "-" for cell in cells]
        rows.append([name, f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}", *shown])
    lines = [align(rows, range(1, len(rows[0])))]
    lines.append("(at N: solved/items whose deciding sentence stands N sentences back)")
    if result["context_out_of_view"]:
        lines.append(
            f"note: of {result['context_out_of_view']} items the deciding sentence is not in the instance with the item"
        )
    return "\n".join(lines)


def suite_table(result: dict) -> str:
    """Accuracy of a published suite: in total, then a row for every group of every kind."""
    rows = [["by", "group", "accuracy", "solved"], ["", "all", *_cells(result["total"])]]
    for kind in ("phenomenon", "distance", "intrasegmental"):
        for name, part in result.get(f"by_{kind}", {}).items():
            rows.append([kind, name, *_cells(part)])
    if len(result.get("by_phenomenon", {})) > 1:
        for phenomenon, parts in result.get("by_phenomenon_and_distance", {}).items():
            rows += [[f"{phenomenon}, distance", name, *_cells(part)] for name, part in parts.items()]
    lines = [align(rows, range(2, 4))]
    if "by_distance" in result:
        lines.append("(distance: sentences back to the antecedent, or to the context that decides)")
    lines.append(f"{result['suite']}, with {result['mean_context_sentences']:.2f} sentences of context on average")
    return "\n".join(lines)


def _cells(part: dict) -> list[str]:
    return [f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}"]
