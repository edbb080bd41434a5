"""Reproduce a figure or table of a paper, with all its runs (gtransformer lab study FIGURE CORPUS OUT).

Finished runs, for this figure or another one, are kept; an interrupted one resumes from its checkpoint. A failed run
does not stop the others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import check_counts, cli_main
from gtransformer.preprocess.parallel import available_cores
from gtransformer.provenance import device_name
from gtransformer.run.recipe import load_recipe


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab study", description=" ".join(__doc__.split()))
    add = parser.add_argument
    add("figure", nargs="?", help="a name from --list, or the path of a YAML file")
    text = "ted, news, europarl, a directory in the raw corpus format, or demo (generated)"
    add("corpus", nargs="?", help=text)
    add("output", nargs="?", type=Path, help="directory for data, runs, FIGURE.json and (figures) FIGURE.png")
    add("--miniature", action="store_true", help="fewer and smaller runs, for a CPU and the corpus demo")
    add("--jobs", type=int, metavar="N", help="runs at a time (a GPU: 1; a CPU: its cores, at most 2)")
    parser.add_changes("all recipes")
    add("--list", action="store_true", help="list the studies")
    text = "make the figure or table without failed runs; their number is noted"
    add("--allow-missing", action="store_true", help=text)
    text = "keep checkpoints (default: delete them when the run's result is written)"
    add("--keep-checkpoints", action="store_true", help=text)
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the study."""
    argv = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    args = parser.parse_args(argv)

    import torch

    from gtransformer.lab.progress import print_status
    from gtransformer.lab.studies.data import Corpora
    from gtransformer.lab.studies.plan import listing
    from gtransformer.lab.studies.runner import Runner, make_figure, make_study

    if args.list:
        print(f"studies:\n{listing()}")
        return
    if args.output is None:
        parser.error("FIGURE, CORPUS and OUTPUT are required")
    check_counts(args, "jobs")
    study = make_study(args)
    recipe = load_recipe(next(iter(study.recipes.values())), study.changes)
    corpora = Corpora(args.output, args.corpus, study.corpus, recipe)
    jobs = args.jobs or (1 if torch.cuda.is_available() else min(2, available_cores()))
    size = "miniature" if study.miniature else "full"
    print_status(f"{study.figure}, {size}, in {corpora.directory}: {device_name()}")
    make_figure(Runner(study, corpora, jobs, args.keep_checkpoints), argv, args.allow_missing)


if __name__ == "__main__":
    raise SystemExit(main())
