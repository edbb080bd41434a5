"""Reproduce a figure or table of a paper, with all its runs (gtransformer lab study FIGURE CORPUS OUT).

Finished runs, for this figure or another one, are kept; an interrupted one resumes from its checkpoint. A failed run
does not stop the others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, check_counts, cli_main
from gtransformer.evaluation.provenance import device_name
from gtransformer.lab.cli import benchmark
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.recipe import load_recipe

MEMORY = "table2"  # of the window-attention paper
MEMORY_OPTIONS = (
    "--name memory_by_length --what train --windows 10,20 --context 2 --lengths 736,1472,2208 --batch-tokens 1 "
    "--vocabularies 15000 --fresh "
    "--systems window_transformer,doc_transformer_dense,doc_transformer,lst_transformer,packed,fairseq"
).split()


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
    text = "score all models on contrastive items, as gtransformer contrastive does (the generated corpus has some)"
    add("--items", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    text = "ContraPro's JSON: OpenSubtitles2018, DIR/ID.en and DIR/ID.de"
    add("--documents", type=Path, metavar="DIR", help=text)
    text = (
        "ContraPro: at most N sentences before the scored one (default: as many as the instances of each "
        "system have; else one, or all in the items)"
    )
    add("--context", type=int, metavar="N", help=text)
    text = "list the runs and their state, then stop; without FIGURE: list the studies"
    add("--list", action="store_true", help=text)
    text = "make the figure or table without failed runs; their number is noted"
    add("--allow-missing", action="store_true", help=text)
    add("--only-finished", action="store_true", help="make it of the finished runs, without further ones")
    text = "take the finished runs of these results, for instance of another machine; with FIGURE.tar.xz beside each"
    add("--earlier-results", type=Path, nargs="+", default=[], metavar="FIGURE.json", help=text)
    add(
        "--keep-checkpoints",
        action="store_true",
        help="keep checkpoints (default: delete them when the run's result is written)",
    )
    return parser


def measure_memory(arguments: list[str]) -> int:
    """Measure memory by length with the benchmark; no corpus and no full training is needed."""
    import torch

    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"give a directory for the results: gtransformer lab study {MEMORY} OUTPUT")
    # A GPU's peak includes the optimizer's state from the second step on.
    runs = str(int(torch.cuda.is_available()))
    return benchmark.main(["--output", arguments[0], *MEMORY_OPTIONS, "--runs", runs, *arguments[1:]])


@cli_main
def main(argv: list[str] | None = None) -> int | None:
    """Run the study."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == [MEMORY]:
        return measure_memory(argv[1:])
    parser = build_parser()
    args = parser.parse_args(argv)

    import torch

    from gtransformer.lab.progress import print_status
    from gtransformer.lab.studies.data import Corpora
    from gtransformer.lab.studies.plan import listing
    from gtransformer.lab.studies.questions import Questions
    from gtransformer.lab.studies.runner import BFLOAT16, Runner, make_figure, make_study, show

    if args.list and args.figure is None:
        print(f"studies:\n{listing()}")
        return None
    missing = [name for name in ("figure", "corpus", "output") if getattr(args, name) is None]
    if missing:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    check_counts(args, "jobs")
    study = make_study(args)
    recipe = load_recipe(next(iter(study.recipes.values())), study.changes)
    corpora = Corpora(args.output, args.corpus, study.corpus, recipe, args.items)
    jobs = args.jobs or (1 if torch.cuda.is_available() else min(2, available_cores()))
    questions = Questions(tuple(args.items), args.documents, args.context)
    runner = Runner(study, corpora, jobs, args.keep_checkpoints, questions)
    if args.list:
        for name in ("earlier_results", "jobs", "keep_checkpoints", "only_finished", "allow_missing"):
            if getattr(args, name):
                raise UserError(f"--list only looks; leave --{name.replace('_', '-')} out")
        show(runner)
        return None
    if args.only_finished:
        for name in ("jobs", "keep_checkpoints"):
            if getattr(args, name):
                raise UserError(f"--only-finished runs nothing; leave --{name.replace('_', '-')} out")
    questions.check(study, corpora)
    with corpora.pipeline:
        size = "miniature" if study.miniature else "full"
        print_status(f"{study.figure}, {size}, in {corpora.directory}: {device_name()}")
        if BFLOAT16 in study.changes and recipe.sections["train"].get("autocast") == "bfloat16":
            print_status(
                f"{BFLOAT16}, which is faster on this CPU; --set train.autocast= trains in float32 (other runs)"
            )
        make_figure(runner, argv, args.allow_missing, args.only_finished, args.earlier_results)


if __name__ == "__main__":
    raise SystemExit(main())
