"""Compare recipes on one corpus: each is trained for the same number of minutes, then translates the test set.

It prepares each needed corpus once, trains the recipes, N at a time, translates and scores the corpus's test set, and
writes comparison.json and learning_curves.png. The same command resumes an interrupted run; a training then gets its
remaining minutes. A recipe that starts from another recipe's model waits for it, and has its own minutes in addition;
the other one may have more.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.provenance import device_name
from gtransformer.run.recipe import recipe_names


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    epilog = f"recipes: {', '.join(recipe_names())}"
    parser = CommandParser(prog="gtransformer lab compare", description=" ".join(__doc__.split()), epilog=epilog)
    add = parser.add_argument
    add("corpus", help="ted, news, europarl, or a directory in the raw corpus format")
    add("output", type=Path, help="directory to write to")
    add("--recipes", required=True, metavar="A,B,C", help="names in configs/ or YAML files")
    add("--minutes", type=float, required=True, metavar="M", help="minutes of training for each recipe")
    text = "minutes of recipes that others start from (default: --minutes)"
    add("--start-minutes", type=float, metavar="M", help=text)
    text = "trainings at a time, each with 1/N of the cores; the one that all others start from has all (%(default)s)"
    add("--jobs", type=int, default=1, metavar="N", help=text)
    parser.add_changes("all recipes")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the comparison, print and write the results."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.comparison.comparison import Comparison
    from gtransformer.lab.progress import print_status

    comparison = Comparison(args)
    pipeline = comparison.pipeline
    pipeline.check()
    comparison.results.unlink(missing_ok=True)
    starts = "" if args.start_minutes is None else f", {args.start_minutes:g} where others start"
    print_status(
        f"{', '.join(comparison.recipes)}: {args.minutes:g} minutes each{starts}, on {args.corpus}, {device_name()}"
    )
    if args.jobs > 1 and comparison.threads:
        alone = comparison.recipe_set.common_start
        first = f"; {alone} alone, with {comparison.start_threads}" if alone else ""
        print_status(f"{args.jobs} at a time, with {comparison.threads} thread(s) each{first}")
    pipeline.run("compare", comparison.at_once, comparison.threads)
    comparison.finish(argv)


if __name__ == "__main__":
    raise SystemExit(main())
