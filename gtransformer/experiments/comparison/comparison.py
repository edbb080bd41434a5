"""A comparison, from its options to its results."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from gtransformer.analysis.curves import plot_learning_curves, read_curve
from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import provenance
from gtransformer.experiments.comparison.corpus import RAW, split_files
from gtransformer.experiments.comparison.plan import Plan, TextSet, parse_set
from gtransformer.experiments.comparison.result import comparison_table, machine
from gtransformer.experiments.comparison.run import Comparison
from gtransformer.experiments.recipe_check import check_recipe
from gtransformer.experiments.run import corpus_directory
from gtransformer.files import write_json


def check_arguments(args: argparse.Namespace) -> tuple[Plan, list[TextSet]]:
    """The plan and the sets, the corpus's own test set first. Raises UserError for what cannot be."""
    if not args.minutes >= 0.01:
        raise UserError(f"--minutes {args.minutes:g}: give at least 0.01")
    for name in ("jobs", "every"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name} {getattr(args, name)}: give at least 1")
    names = [name for name in args.recipes.split(",") if name]
    if not names:
        raise UserError("--recipes: name at least one recipe")
    plan = Plan(names, args.set)
    for recipe in plan.corpora.values():
        check_recipe(recipe, ["prepare"])
    for recipe in plan.recipes.values():
        check_recipe(recipe, ["train", "generate"])
    raw = corpus_directory(args.corpus)
    sets = [TextSet(raw.resolve().name, "test", raw), *map(parse_set, args.also)]
    if len({one.name for one in sets}) < len(sets):
        raise UserError(f"--also: {', '.join(one.name for one in sets[1:])}: give every set a name of its own")
    if sets[1:]:
        plan.check_sets()
    for split in RAW.values():
        split_files(raw, plan.languages, split)
    for one in sets[1:]:
        split_files(one.directory, plan.languages, one.split)
    return plan, sets


def finish(comparison: Comparison, recipes: dict[str, Any], args: argparse.Namespace, argv: list[str] | None) -> None:
    """Write the results and the learning curves, and print the table."""
    directory = args.output
    curves = {name: read_curve(comparison.folder(name) / "train.log") for name in recipes}
    title = f"{comparison.sets[0].corpus}: perplexity while training, {args.minutes:g} minutes each"
    plot_learning_curves(curves, directory / "learning_curves.png", title)
    names = [one.name for one in comparison.sets]
    result = {
        "version": 1,
        "corpus": {"name": comparison.sets[0].corpus, "every": args.every},
        "minutes": args.minutes,
        "jobs": args.jobs,
        "threads": comparison.threads,
        "changes": args.set,
        "machine": machine(),
        "sets": {one.name: {key: str(value) for key, value in asdict(one).items()} for one in comparison.sets},
        "sizes": comparison.sizes(),
        "recipes": recipes,
    }
    write_json(directory / "comparison.json", result | provenance("gtransformer.cli.compare", argv))
    print(f"\n{comparison_table(recipes, names)}\n")
    print(f"results: {directory / 'comparison.json'}\ncurves:  {directory / 'learning_curves.png'}", flush=True)
