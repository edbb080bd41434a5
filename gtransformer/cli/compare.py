"""Recipes side by side on one corpus: each is trained for the same number of minutes, then translates the same texts.

Prepares what the recipes need once, trains them, N at a time, translates and scores the corpus's test set and further
sets, and writes comparison.json and learning_curves.png. Run again, it goes on where it stopped; a training that was
interrupted gets what is left of its minutes. A recipe that starts from another recipe's model waits for it, and has its
own minutes on top.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gtransformer.analysis.curves import plot_learning_curves, read_curve
from gtransformer.cli.compare_corpus import RAW, split_files
from gtransformer.cli.compare_plan import Plan, TextSet, parse_set
from gtransformer.cli.compare_result import comparison_table, machine
from gtransformer.cli.compare_run import Comparison
from gtransformer.cli.demo_stages import Stages, say
from gtransformer.cli.processes import end_on_signals
from gtransformer.cli.recipe_check import check_recipe
from gtransformer.cli.run import corpus_directory
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.experiments.recipe import recipe_names
from gtransformer.files import write_json


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/compare.sh",
        description=" ".join(__doc__.split()),
        epilog=f"recipes: {', '.join(recipe_names())}",
    )
    parser.add_argument("corpus", help="ted, news, europarl, or a directory in the raw corpus format")
    parser.add_argument("output", type=Path, help="directory to write to")
    parser.add_argument("--recipes", required=True, metavar="A,B,C", help="names in configs/ or YAML files")
    parser.add_argument("--minutes", type=float, required=True, metavar="M", help="of training for each recipe")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="so many at a time, each with 1/N of the cores (%(default)s)"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME:SPLIT=DIR",
        help="translate a split (train, dev, test) of another raw corpus as well; repeatable",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="train on every Nth training document only (%(default)s)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help="change all recipes; repeatable"
    )
    return parser


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


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the comparison, print and write what came out."""
    args = build_parser().parse_args(argv)
    plan, sets = check_arguments(args)
    end_on_signals()
    with Stages(args.output.absolute(), "comparison") as stages:
        comparison = Comparison(args, stages, plan, sets)
        comparison.check_models()
        (args.output / "comparison.json").unlink(missing_ok=True)
        say(f"{', '.join(plan.recipes)}: {args.minutes:g} minutes each on {args.corpus}, {device_name()}")
        if args.jobs > 1 and comparison.threads:
            say(f"{args.jobs} at a time, with {comparison.threads} thread(s) each")
        finish(comparison, comparison.run(), args, argv)


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


if __name__ == "__main__":
    raise SystemExit(main())
