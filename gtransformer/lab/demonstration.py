"""The demonstration: a small G-Transformer, and on request a plain Transformer, on the generated
letters."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gtransformer.files import read_json
from gtransformer.installation import runs_directory
from gtransformer.lab.corpora import DEMO, ITEMS
from gtransformer.lab.experiment import Experiment, Row, Settings
from gtransformer.lab.processor import trains_faster_in_bfloat16
from gtransformer.lab.results import numbers_of
from gtransformer.preprocess.plain_text import read_plain
from gtransformer.settings import read_value

RECIPES = {"gtransformer": "demo", "transformer": "demo_full"}
# What the G-Transformer must reach with the full budget.
ENOUGH = {
    "s_bleu": 90.0,
    "accuracy": 90.0,
}
SHOWN = {
    "s_bleu": "s-BLEU",
    "d_bleu": "d-BLEU",
    "accuracy": "contrastive accuracy (%)",
    "valid_ppl": "perplexity",
}


def make_demonstration(args: argparse.Namespace) -> Experiment:
    """Return the demonstration as an experiment; its options are those of ``gtransformer demo``."""
    changes: dict[str, Any] = {}
    # Products in bfloat16 are faster on some processors, and slower on others.
    if not torch.cuda.is_available() and trains_faster_in_bfloat16():
        changes["train.autocast"] = "bfloat16"
    for change in args.set:
        key, _, value = change.partition("=")
        changes[key] = read_value(value)
    settings = Settings(
        corpus=DEMO,
        sizes={"documents": args.documents, "test_documents": args.test_documents},
        rows={name: Row(RECIPES[name]) for name in (RECIPES if args.compare else ["gtransformer"])},
        seeds=[changes.pop("train.seed", 1)],
        budget={"updates": args.max_update} if args.max_update else {},
        set=changes,
    )
    # On a CPU two trainings with half of the cores each are faster than one after the other.
    jobs = len(settings.rows) if os.cpu_count() > 1 and not torch.cuda.is_available() else 1
    return Experiment(settings, args.output or runs_directory() / "demonstration", jobs)


def summary(experiment: Experiment) -> tuple[str, dict[str, dict[str, float]]]:
    """Return sample sentences and scores as text, and the numbers of each system."""
    numbers = {run.system: numbers_of(run) for run in experiment.runs}
    lines = []
    for key, label in SHOWN.items():
        cells = [f"{one[key]:14.2f}" for one in numbers.values()]
        lines.append(f"{label:26}" + "".join(cells))
    head = " " * 26 + "".join(f"{name:>14}" for name in numbers)
    text = experiment.prepared(experiment.runs[0]) / "text"
    texts = {
        name: read_plain(text / f"test.{lang}")[0]
        for name, lang in (("source", "en"), ("reference", "de"))
    }
    texts |= {run.system: read_plain(run.folder / "test.txt")[0] for run in experiment.runs}
    items = read_json(experiment.raw / ITEMS[DEMO])["items"]
    return "\n".join([samples(items, texts), "", head, *lines]), numbers


def samples(
    items: Sequence[Mapping[str, Any]], texts: Mapping[str, Sequence[Sequence[str]]]
) -> str:
    """Return for each phenomenon a sentence with its deciding one, by source, reference and
    systems.

    Args:
        items: contrastive items; those three sentences from their deciding one come first.
        texts: by name the documents of the test set; the first is the source.
    """
    chosen: dict[str, Mapping[str, Any]] = {}
    # Near enough to be read at a glance, too far for two sentences of context.
    for item in sorted(items, key=lambda item: abs(item["distance"] - 3)):
        chosen.setdefault(item["phenomenon"], item)
    source = next(iter(texts.values()))
    blocks = []
    for phenomenon, item in sorted(chosen.items()):
        document, sentence, distance = item["document"], item["sentence"], item["distance"]
        lines = [f"{phenomenon} ({item['detail']})"]
        lines.append(f"  {distance} sentences before: {source[document][sentence - distance]}")
        lines += [
            f"  {name:14} {documents[document][sentence]}" for name, documents in texts.items()
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def too_low(numbers: Mapping[str, float]) -> list[str]:
    """Return the scores of the G-Transformer that the full budget should have raised further."""
    return [
        f"{SHOWN[key]} {numbers[key]:.2f}, below {least}"
        for key, least in ENOUGH.items()
        if numbers[key] < least
    ]


def next_steps(folder: Path) -> str:
    """Return commands that use the trained model."""
    return "\n".join([
        "Next:",
        f"  gtransformer export {folder}/gtransformer model",
        f"  gtransformer translate --model model {folder}/prepared/text/test.en -o test.de",
        "  docs/quickstart.md shows the way from your own files to translations and scores",
    ])  # fmt: skip
