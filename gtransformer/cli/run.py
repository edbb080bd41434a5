"""Run a recipe on a corpus: prepare, train, generate, score (``gtransformer run RECIPE CORPUS STAGE``)."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.corpus import SPLITS
from gtransformer.run.recipe import UnknownRecipe, language_changes, listing, sized, start_from


class _Parser(CommandParser):
    """Parser that reads all recipes only for its help."""

    def format_help(self) -> str:
        self.epilog = f"Options after -- are passed to the program of the stage.\n\nrecipes:\n{listing()}"
        return super().format_help()


def build_parser(stage: str | None = None) -> argparse.ArgumentParser:
    """Return the command's options; with ``stage`` those of the command for this stage only."""
    parser = _Parser(
        prog=f"gtransformer {stage or 'run'}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Prepare a corpus, train on it, translate its test set, score the translation."
        if stage is None
        else f"Run the stage {stage} of a recipe: gtransformer run RECIPE CORPUS {stage}.",
    )
    parser.add_argument("recipe", help="one of the recipes below, or the path of a YAML file")
    parser.add_argument("corpus", help="ted, news, europarl, or a directory in the raw corpus format")
    if stage is None:
        parser.add_argument(
            "stage", nargs="?", default="all", help="prepare, train, generate, score or all (%(default)s)"
        )
    else:
        parser.set_defaults(stage=stage)
    parser.add_argument("--size", choices=("small",), help="train a small model in about an hour on two CPU cores")
    parser.add_argument(
        "--sentence-model", type=Path, metavar="DIR",
        help="start from this sentence model, a directory of gtransformer model convert, with its languages and "
        "vocabulary (recipes from_sentence_model, few_documents and short_context)",
    )  # fmt: skip
    parser.add_argument(
        "--langs",
        metavar="SOURCE,TARGET",
        help="another language pair than the recipe's, as in the file names: en,fr",
    )
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where runs are ($GTRANSFORMER_RUNS, or ./runs)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="this run's directory (RUNS/RECIPE/CORPUS)")
    parser.add_argument("--prepared", type=Path, metavar="DIR", help="another path of the prepared corpus")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="generate with this (default: the run's model)")
    parser.add_argument(
        "--model-of",
        metavar="CORPUS",
        help="translate this corpus with the model, BPE and dictionary of the recipe's run on another",
    )
    parser.add_argument(
        "--start-on",
        metavar="CORPUS",
        help="start from the recipe's start model as trained on another corpus, with its BPE and dictionary",
    )
    parser.add_argument("--split", default="test", choices=[*SPLITS.values()], help="what to translate (%(default)s)")
    parser.add_changes("the recipe")
    parser.add_argument("--dry-run", action="store_true", help="print the stages' commands instead of running them")
    parser.add_argument("--again", action="store_true", help="continue training even if it was finished")
    return parser


def parse(argv: list[str], stage: str | None = None) -> argparse.Namespace:
    """Return the options; ``extra`` are those after ``--``."""
    end = argv.index("--") if "--" in argv else len(argv)
    args = build_parser(stage).parse_args(argv[:end])
    args.extra = argv[end + 1 :]
    return args


@cli_main
def main(argv: list[str] | None = None) -> int | None:
    """Run the stages; without arguments, list recipes and stages (status 2)."""
    return run_stages(sys.argv[1:] if argv is None else argv)


def run_stages(argv: list[str], stage: str | None = None) -> int | None:
    """Run the stages; ``all`` first runs those of other recipes that they need and that are not finished.

    The first failure ends the run. ``stage`` is the stage of a single-stage command.
    """
    if not argv:
        build_parser(stage).print_help()
        return 2
    args = parse(argv, stage)

    from gtransformer.run.dependencies import missing_first
    from gtransformer.run.paths import RUNS
    from gtransformer.run.recipe_check import check_recipe
    from gtransformer.run.run import make_run, stages_of

    if args.runs:
        os.environ[RUNS] = str(args.runs)  # also for started programs
    stages = stages_of(args)
    try:
        if args.sentence_model:
            for option in ("size", "langs"):
                if getattr(args, option):
                    raise UserError(f"--{option} with --sentence-model: the model has its own; leave the option out")
            args.recipe, changes = start_from(args.recipe, args.sentence_model)
            args.set = [*changes, *args.set]
        args.recipe = sized(args.recipe, args.size)
        args.set = [*language_changes(args.recipe, args.langs), *args.set]
        run = make_run(args)
    except UnknownRecipe:
        print(f"recipes:\n{listing()}")
        raise
    check_recipe(run.recipe, stages, run.extra)
    if not args.dry_run:
        run.check_files(stages)
    where, before = ["--runs", str(args.runs)] if args.runs else [], missing_first(args)
    if "train" in stages and not before:
        run.check_pretrained()  # before a corpus is prepared
    for command in ([*one, *where] for one in before):
        said = f"[all] first: gtransformer run {shlex.join(command)}"
        print(f"# {said}" if args.dry_run else said, flush=True)
        if status := main([*command, *(["--dry-run"] if args.dry_run else [])]):
            return status
    plain = run.directory.with_name(run.corpus.name)
    if not args.output and run.directory != plain:
        said = f"[run] {plain} is for another corpus (or language pair); this run is in {run.directory}"
        print(said, file=sys.stderr, flush=True)
    for stage in stages:
        run.execute(stage)
    if not args.dry_run:
        print(f"results: {run.prepared if stages == ('prepare',) else run.directory}")


if __name__ == "__main__":
    raise SystemExit(main())
