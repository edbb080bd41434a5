"""Train, translate and compare systems as an experiment's YAML file says.

``gtransformer lab experiment FILE OUTPUT`` writes results.csv, results.md, translations and
figures. The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.settings import read_value


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument("file", type=Path, help="YAML file, as exp_logs/arena/experiment.yaml")
    parser.add_argument("output", type=Path, help="directory to write corpora, runs and results to")
    parser.add_argument("--corpus", help="corpus (default: the file's)")
    parser.add_argument(
        "--rows", nargs="+", metavar="ROW", help="run only these rows and what they start from"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="N", help="seeds (default: the file's)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of trainings at a time (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    parser.add_changes("all recipes")


def main(args: argparse.Namespace) -> None:
    """Run what is missing, then write and print the results."""
    from gtransformer.lab.experiment import Experiment, read_experiment

    settings = read_experiment(args.file)
    settings.corpus = args.corpus or settings.corpus
    settings.seeds = args.seeds or settings.seeds
    for change in args.set:
        key, _, value = change.partition("=")
        settings.set[key] = read_value(value)
    experiment = Experiment(settings, args.output, args.jobs, args.dry_run)
    if args.rows:
        experiment.keep(args.rows)
    if args.dry_run:
        lines = [line for _, line in experiment.preparations().values()]
        lines += [line for run in experiment.runs for line in experiment.commands(run)]
        for line in lines:
            print(f"gtransformer {shlex.join(line)}")
        return
    experiment.run()

    from gtransformer.lab.results import write_results

    print(write_results(experiment))
    print(f"results: {experiment.folder}")
