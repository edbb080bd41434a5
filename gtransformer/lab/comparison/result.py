"""What a comparison has found: one JSON object a recipe, and a table of all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.evaluation.provenance import device_name
from gtransformer.evaluation.text_table import align
from gtransformer.files import read_lines
from gtransformer.lab.analysis.curves import Curve
from gtransformer.modules.cpu.processor import processor_fields
from gtransformer.run.recipe import Recipe

BLEU = ("s_bleu", "d_bleu", "d_bleu_instance")


def recipe_result(
    recipe: Recipe, curve: Curve, seconds: float, parameters: int | None, minutes: float, before: Mapping[str, float]
) -> dict[str, Any]:
    """One recipe's training as a JSON object, scores still to be added.

    Args:
        seconds: of training and validation, as the budget counts them.
        parameters: of the model, embeddings that are shared counted once.
        minutes: the budget.
        before: the recipes whose models this one's goes back to, with the budget of each.
    """
    those = ", ".join(f"{spent:g} of {name}" for name, spent in before.items())
    note = f"fine-tuned: its {minutes:g} minutes are on top of {those}" if before else None
    return {
        "description": recipe.description,
        "doc_mode": recipe.sections["task"].get("doc-mode"),
        "sentences_per_instance": recipe.max_sentences or "as many as fit",
        "minutes": minutes,
        "minutes_with_pretraining": minutes + sum(before.values()),
        "note": note,
        "updates": (curve.valid or curve.train)[-1][0],
        "parameters": parameters,
        "validation_perplexity": curve.last_valid,
        "best_update": curve.best,
        "word_perplexity": dict(curve.words).get(curve.best),
        "curve": {"train": curve.train, "valid": curve.valid, "words": curve.words},
        "seconds": {"training": round(seconds, 1)},
        "scores": {},
    }


def set_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a score file that a comparison keeps; ``aligned``: s-BLEU pairs sentences that belong together.

    There is no d-BLEU by instance where instances overlap.
    """
    return {
        "aligned": scores["counts"]["misaligned_instances"] == 0,
        "counts": scores["counts"],
        **{
            reference: {key: values[key] for key in BLEU if key in values}
            for reference, values in scores["scores"].items()
        },
    }


def count_parameters(log: Path) -> int | None:
    """How many parameters fairseq's training log says that the model has; None if it does not say."""
    for line in read_lines(log):
        found = re.search(r"num\. shared model params: ([\d,]+)", line)
        if found:
            return int(found[1].replace(",", ""))
    return None


def machine() -> dict[str, Any]:
    """What the comparison ran on; the processor as Linux names it, None where that cannot be read."""
    return {"device": device_name(), "processor": processor_fields().get("model name")}


def comparison_table(recipes: Mapping[str, Mapping[str, Any]], sets: Sequence[str]) -> str:
    """A row a recipe: updates, validation perplexity, and of each set s-BLEU and d-BLEU against the raw text.

    Perplexity is that of words, of the model that has translated, where all have it; else that of all targets at the
    end of the training.
    """
    by_words = all(result.get("word_perplexity") for result in recipes.values())
    header = ["recipe", "updates", "minutes", "validation ppl of words" if by_words else "validation ppl"]
    header += [f"{name} {kind}" for name in sets for kind in ("s-BLEU", "d-BLEU")]
    rows = [header]
    for name, result in recipes.items():
        perplexity = result["word_perplexity" if by_words else "validation_perplexity"]
        row = [name, str(result["updates"]), f"{result['seconds']['training'] / 60:.1f}"]
        row.append("-" if perplexity is None else f"{perplexity:.2f}")
        for one in sets:
            scores = result["scores"][one]
            row.append(f"{scores['raw']['s_bleu']['score']:.2f}" if scores["aligned"] else "-")
            row.append(f"{scores['raw']['d_bleu']['score']:.2f}")
        rows.append(row)
    lines = align(rows).splitlines()
    lines.insert(1, "-" * len(lines[0]))
    if any(not result["scores"][one]["aligned"] for result in recipes.values() for one in sets):
        lines.append("-: sentences are not aligned (the model chose their number itself); d-BLEU does not need that")
        found = [result["scores"][one] for result in recipes.values() for one in sets]
        if any(not scores["aligned"] and "d_bleu_instance" not in scores["raw"] for scores in found):
            lines[-1] += ", but where instances overlap, it is of sentences aligned by order"
    signatures = {result["scores"][one]["raw"]["s_bleu"]["signature"] for result in recipes.values() for one in sets}
    lines += [f"BLEU: {signature}" for signature in sorted(signatures)]
    lines += [f"{name}: {result['note']}" for name, result in recipes.items() if result["note"]]
    return "\n".join(lines)
