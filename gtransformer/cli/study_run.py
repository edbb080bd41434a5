"""One run of a study: train, translate, score, and the run's result (``python -m gtransformer.cli.study_run DIR``).

``DIR/run.json`` says what to do, ``DIR/result.json`` that it is done. Every stage goes on where it stopped. Checkpoints
go at the end, if the order says so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.errors import cli_main
from gtransformer.experiments.studies.one_run import ORDER, RESULT, make_run, remove_checkpoints, result_of, score_test
from gtransformer.files import read_json, write_json


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Do what a run lacks, and write its result."""
    parser = argparse.ArgumentParser(prog="python -m gtransformer.cli.study_run", description=__doc__)
    parser.add_argument("directory", type=Path, help="the run's directory, with its run.json")
    args = parser.parse_args(argv)
    order = read_json(args.directory / ORDER)
    run = make_run(args.directory, order)
    for stage in ("train", "generate"):
        run.execute(stage)
    score_test(run)
    write_json(args.directory / RESULT, result_of(run, order, argv))
    remove_checkpoints(args.directory)


if __name__ == "__main__":
    raise SystemExit(main())
