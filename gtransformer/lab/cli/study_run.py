"""One run of a study: train, translate, score, and the run's result (``python -m gtransformer.lab.cli.study_run DIR``).

``DIR/run.json`` says what to do, ``DIR/result.json`` that it is done. Every stage goes on where it stopped. Checkpoints
go at the end, if the order says so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.errors import cli_main
from gtransformer.lab.studies.one_run import do_run


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Do what a run lacks, and write its result."""
    parser = argparse.ArgumentParser(prog="python -m gtransformer.lab.cli.study_run", description=__doc__)
    parser.add_argument("directory", type=Path, help="the run's directory, with its run.json")
    args = parser.parse_args(argv)
    do_run(args.directory, argv)


if __name__ == "__main__":
    raise SystemExit(main())
