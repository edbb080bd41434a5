"""Convergence studies: the runs that a figure of the paper needs, and the figure (scripts/study.sh FIGURE CORPUS OUT).

Runs that are done, for this figure or another one, are kept; an interrupted one goes on from its checkpoint. One that
fails does not end the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from gtransformer.analysis.study_figures import draw_study
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.experiments.pipeline import Stages
from gtransformer.experiments.processes import end_on_signals
from gtransformer.experiments.progress import say
from gtransformer.experiments.recipe import load_recipe
from gtransformer.experiments.studies.data import Corpora
from gtransformer.experiments.studies.plan import Study, study_names
from gtransformer.experiments.studies.runner import BFLOAT16, Runner, check_complete, make_study
from gtransformer.experiments.studies.table import table
from gtransformer.files import write_json
from gtransformer.preprocess.parallel import available_cores


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="scripts/study.sh", description=" ".join(__doc__.split()))
    parser.add_argument("figure", help=f"{', '.join(study_names())}, or the path of a YAML file")
    parser.add_argument("corpus", help="ted, news, europarl, a directory in the raw corpus format, or demo (generated)")
    parser.add_argument("output", type=Path, help="directory for data, runs, FIGURE.json and FIGURE.png")
    parser.add_argument(
        "--miniature", action="store_true", help="fewer and smaller runs, for a CPU and the corpus demo"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at a time (a GPU: 1; a CPU: its cores, at most 2)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help="change all recipes; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="show the runs and which are done, and stop")
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="draw the figure without runs that fail; it says how many",
    )
    parser.add_argument("--keep-checkpoints", action="store_true", help="else a run's go when its result is written")
    return parser


def show(study: Study, runner: Runner) -> None:
    """Print the runs and which are done, as far as that can be told without making anything."""
    corpora = runner.corpora
    missing = corpora.look()
    notes = [f"{missing} (what is done is not known before)"] if missing else study.limit(corpora.known_instances)
    runs = study.runs()
    drawn = [run for run in runs if run.data.instances]
    if drawn and (missing or any(corpora.known_instances(run.data) is None for run in drawn)):
        notes.append("points larger than the corpus will be left out; its instances are counted when it is prepared")
    for note in notes:
        say(note)
    for run in runs:
        done = missing is None and runner.is_done(run)
        print(f"{'done' if done else 'to do'}  {run.label if missing else runner.folder(run).name}")


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Do the study."""
    args = build_parser().parse_args(argv)
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: give at least 1")
    end_on_signals()
    study = make_study(args)
    directory = args.output.absolute()
    recipe = load_recipe(next(iter(study.recipes.values())), study.changes)
    corpora = Corpora(None, directory, args.corpus, study.corpus, recipe)
    jobs = args.jobs or (1 if torch.cuda.is_available() else min(2, available_cores()))
    runner = Runner(study, corpora, directory, jobs, args.keep_checkpoints)
    if args.list:
        show(study, runner)
        return
    with Stages(directory, "study") as corpora.stages:
        say(f"{study.figure}, {'miniature' if study.miniature else 'full'}, in {directory}: {device_name()}")
        if BFLOAT16 in study.changes and recipe.sections["train"].get("autocast") == "bfloat16":
            say(f"{BFLOAT16}, as this CPU has the instructions; --set train.autocast= trains in float32 (other runs)")
        corpora.begin()
        for note in study.limit(corpora.instances):
            say(note)
        runs = study.runs()
        if not runs:
            raise UserError(f"{args.corpus}: too small for every point of {study.figure}; use a larger corpus")
        failures = runner.run(runs)
        check_complete(study, runner, failures, args.allow_missing)
        result = runner.collect(failures) | {"device": device_name(), **provenance("gtransformer.cli.study", argv)}
        path = directory / f"{study.figure}.json"
        write_json(path, result)
        draw_study(result, path.with_suffix(".png"))
    print(f"\n{table(result)}\n\nresults: {path}\nfigure:  {path.with_suffix('.png')}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
