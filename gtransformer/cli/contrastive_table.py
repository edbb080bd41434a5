"""Contrastive accuracy as tables of plain text."""

from __future__ import annotations

from gtransformer.evaluation.text_table import align, with_error


def table(result: dict) -> str:
    """Accuracy of a contrastive set over a prepared corpus, by phenomenon and distance."""
    if "by_distance_source" in result:
        lines = [_reach_table(result, side) for side in ("source", "target")]
        lines.append("(accuracy and standard error of items whose answer the nearest sentence N back discloses)")
    else:
        lines = [_distance_table(result), "(at N: solved/items whose deciding sentence stands N sentences back)"]
    if "context_in_batch" in result:
        lines.append(
            f"note: of {result['context_in_batch']} items only the other sentences of the batch tell the answer"
        )
    if result["context_out_of_view"]:
        lines.append(f"note: of {result['context_out_of_view']} items nothing that the model reads tells the answer")
    return "\n".join(lines)


def _distance_table(result: dict) -> str:
    distances = list(result["by_distance"])
    rows = [["phenomenon", "all", "items", *(f"at {distance}" for distance in distances)]]
    parts = {**result["by_phenomenon"], "all": result["total"]}
    by_distance = {**result["by_phenomenon_and_distance"], "all": result["by_distance"]}
    for name, part in parts.items():
        cells = [by_distance[name].get(distance) for distance in distances]
        shown = [f"{cell['solved']}/{cell['items']}" if cell else "-" for cell in cells]
        rows.append([name, f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}", *shown])
    return align(rows, range(1, len(rows[0])))


def _reach_table(result: dict, side: str) -> str:
    """Accuracy by the distance of one side, beside that of guessing; phenomena differ in it, so there is no mean."""
    distances = list(result[f"by_distance_{side}"])
    rows = [[f"disclosed by {side}", "items", "chance", *(f"at {distance}" for distance in distances)]]
    for name, part in result["by_phenomenon"].items():
        cells = result[f"by_phenomenon_and_distance_{side}"][name]
        shown = [with_error(cells[distance]) if distance in cells else "-" for distance in distances]
        rows.append([name, str(part["items"]), f"{part['chance']:.1f}", *shown])
    return align(rows, range(1, len(rows[0]))) + "\n"


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
    behind = result["mean_context_sentences_right"]
    more = f" before and {behind:.2f} behind it" if behind else ""
    lines.append(
        f"{result['suite']}, with {result['mean_context_sentences']:.2f} sentences of context{more} on average"
    )
    return "\n".join(lines)


def _cells(part: dict) -> list[str]:
    return [f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}"]
