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


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = _Parser(
        prog="gtransformer run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Prepare a corpus, train on it, translate its test set, score the translation.",
    )
    parser.add_argument("recipe", help="one of the recipes below, or the path of a YAML file")
    parser.add_argument("corpus", help="ted, news, europarl, or a directory in the raw corpus format")
    parser.add_argument("stage", nargs="?", default="all", help="prepare, train, generate, score or all (%(default)s)")
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
    parser.add_argument("--split", default="test", choices=[*SPLITS.values()], help="what to translate (%(default)s)")
    parser.add_changes("the recipe")
    parser.add_argument("--dry-run", action="store_true", help="print the stages' commands instead of running them")
    parser.add_argument("--again", action="store_true", help="continue training even if it was finished")
    return parser


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the options; ``extra`` are those after ``--``."""
    end = argv.index("--") if "--" in argv else len(argv)
    args = build_parser().parse_args(argv[:end])
    args.extra = argv[end + 1 :]
    return args


@cli_main
def main(argv: list[str] | None = None) -> int | None:
    """Run the stages; ``all`` first runs those of other recipes that they need and that are not finished.

    Without arguments, list recipes and stages (status 2). The first failure ends the run.
    """
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        build_parser().print_help()
        return 2
    args = parse(argv)

    from gtransformer.optional import import_user_dir
    from gtransformer.run.dependencies import missing_first
    from gtransformer.run.paths import RUNS
    from gtransformer.run.run import make_run, stages_of

    if args.runs:
        os.environ[RUNS] = str(args.runs)  # also for started programs
    stages = stages_of(args)
    try:
        if args.sentence_model:
            if args.size or args.langs:
                raise UserError("--sentence-model: the model has its own size and languages")
            args.recipe, changes = start_from(args.recipe, args.sentence_model)
            args.set = [*changes, *args.set]
        args.recipe = sized(args.recipe, args.size)
        args.set = [*language_changes(args.recipe, args.langs), *args.set]
        run = make_run(args)
    except UnknownRecipe:
        print(f"recipes:\n{listing()}")
        raise
    import_user_dir(run.recipe.training().get("user-dir"))
    if not args.dry_run:
        run.check_files(stages)
    where = ["--runs", str(args.runs)] if args.runs else []
    for command in missing_first(args):
        print(f"# first: gtransformer run {shlex.join(command)}", flush=True)
        if status := main([*command, *where, *(["--dry-run"] if args.dry_run else [])]):
            return status
    for stage in stages:
        run.execute(stage)
    if not args.dry_run:
        print(f"results: {run.prepared if stages == ('prepare',) else run.directory}")
    return None


if __name__ == "__main__":
    raise SystemExit(main())
