"""Prepare a corpus, train on it, translate its test set, score the translation."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.run.recipe import listing, load_recipe, start_from

STAGES = ("prepare", "train", "generate", "score", "all")


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.formatter_class, parser.listing = argparse.RawDescriptionHelpFormatter, listing
    add = parser.add_argument
    words = "a recipe (listed below, or YAML), a corpus (ted, news, europarl, or a directory) "
    words += "and a stage: prepare, train, generate, score or all (default)"
    add("words", nargs="+", metavar="RECIPE CORPUS [STAGE]", help=words)
    model = "start from this directory of gtransformer model convert (recipes "
    model += "from_sentence_model, few_documents, short_context)"
    add("--sentence-model", type=Path, metavar="DIR", help=model)
    add("--langs", metavar="SOURCE,TARGET", help="as in the file names (default: the recipe's)")
    add("--output", type=Path, metavar="DIR", help="of this run (default: runs/RECIPE/CORPUS)")
    add("--prepared", type=Path, metavar="DIR", help="use this prepared corpus")
    parser.add_changes("the recipe")
    add("--gpus", type=int, metavar="N", help="GPUs; 0: the CPU (default: all)")
    add("--dry-run", action="store_true", help="print the commands, run nothing")
    again = "run stages again; a training goes on from its last checkpoint"
    add("--again", action="store_true", help=again)


def parse(parser: CommandParser, argv: list[str]) -> argparse.Namespace:
    """Return the options, with ``recipe``, ``corpus`` and ``stage``."""
    args = parser.parse_intermixed_args(argv)
    # Recipe, corpus and stage in any order. A corpus with the name of a stage is written ./train.
    stages = [word for word in args.words if word in STAGES] or ["all"]
    names = [word for word in args.words if word not in STAGES]
    if len(names) != 2 or len(stages) != 1:
        words = " ".join(args.words)
        parser.error(f"give a recipe, a corpus and one stage of {', '.join(STAGES)}, not {words}")
    (args.recipe, args.corpus), (args.stage,) = names, stages
    return args


def changes_of(args: argparse.Namespace) -> list[str]:
    """Return the changes of the recipe by --sentence-model, --langs and --set, in this order."""
    changes = []
    if args.sentence_model:
        # The one starts from a model that another recipe trains, the other from the user's.
        if args.recipe == "from_sentence_model":
            args.recipe = "from_own_sentence_model"
        if "sentence-model" not in load_recipe(args.recipe).train:
            raise UserError(
                f"--sentence-model: recipe '{args.recipe}' starts from none; give "
                "from_sentence_model"
            )
        changes += start_from(args.sentence_model)
    if args.langs:
        source, _, target = args.langs.partition(",")
        pair = {"source-lang": source, "target-lang": target, "langs": args.langs}
        # Quoted: no is Norwegian.
        changes += [f"task.{option}='{value}'" for option, value in pair.items()]
    return [*changes, *args.set]


def main(args: argparse.Namespace) -> None:
    """Run a stage, or ``all``; the first failure ends the run."""
    # Imported here, so that --help need not wait for PyTorch.
    import torch

    from gtransformer.run.run import make_run

    changes = changes_of(args)
    run = make_run(
        args.recipe,
        args.corpus,
        changes,
        output=args.output,
        prepared=args.prepared,
        gpus=torch.cuda.device_count() if args.gpus is None else args.gpus,
        dry=args.dry_run,
        again=args.again,
    )
    print(f"# {run.recipe.name}: {run.recipe.description}", flush=True)
    if args.stage != "all":
        getattr(run, args.stage)()
    else:
        run.all()
    if not args.dry_run:
        print(f"results: {run.directory}")
