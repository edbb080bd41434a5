"""Measure two checkouts of the package in turn: ``python -m gtransformer.lab.cli.benchmark_commits OLD [NEW]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from gtransformer.errors import UserError, check_counts, cli_main
from gtransformer.evaluation.provenance import current_commit, device_name, provenance
from gtransformer.files import write_json
from gtransformer.lab.benchmark.commits import Case, check_checkout, compare, read_cases, table
from gtransformer.lab.benchmark.machine import machine
from gtransformer.lab.benchmark.one_run import PASSES, VARIED
from gtransformer.lab.benchmark.systems import Setting
from gtransformer.lab.benchmark.worker import worker_threads


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m gtransformer.lab.cli.benchmark_commits",
        description="Measure training and decoding of two checkouts in turn, the old one twice in every round, each "
        "run in a process of its own.",
    )
    parser.add_argument("old", type=Path, help="folder of the old checkout (git worktree add FOLDER COMMIT)")
    parser.add_argument(
        "new", type=Path, nargs="?", default=Path(__file__).resolve().parents[3], help="the new one (default: this)"
    )
    parser.add_argument("--output", type=Path, default=Path("exp_logs/benchmark/commits.json"), help="(%(default)s)")
    parser.add_argument(
        "--train",
        default="1x512,16x512,1x2048,16x2048",
        help="documents x tokens trained on; '' for none (%(default)s)",
    )
    parser.add_argument(
        "--passes", default="", help="the same without the optimizer, which differs between commits (default: none)"
    )
    parser.add_argument(
        "--varied",
        default="",
        help="as --passes, two batches with documents of 0.8 to 1.2 times the length (none)",
    )
    parser.add_argument("--decode", default="1x2048,16x128", help="documents x tokens decoded at once (%(default)s)")
    parser.add_argument("--arch", default="gtransformer_base", help="sizes (%(default)s)")
    parser.add_argument("--vocabulary", type=int, default=32000, help="entries of the dictionary (%(default)s)")
    parser.add_argument("--sentence", type=int, default=30, help="tokens a sentence (%(default)s)")
    parser.add_argument("--context", type=int, default=2, help="top layers with combined attention (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="in training (%(default)s)")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--engine", default="packed", choices=("packed", "dense"), help="(%(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="of each case in each turn (%(default)s)")
    parser.add_argument("--least", type=float, default=3, help="seconds of a run; short calls repeat (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1800, help="longest time for one run (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Measure, print ratios of medians; results are written after every case."""
    options = build_parser().parse_args(argv)
    checkouts = [check_checkout(path) for path in (options.old, options.new)]
    given = {"train_step": options.train, PASSES: options.passes, VARIED: options.varied}
    given["decode"] = options.decode
    cases = [case for method, text in given.items() for case in read_cases(text, method)]
    if not cases:
        raise UserError("nothing to measure; give cases with --train, --passes, --varied or --decode")
    check_counts(options, "runs")
    results: dict = {
        "device": device_name(),
        "machine": machine(worker_threads()),
        "commits": dict(zip(("old", "new"), map(current_commit, checkouts), strict=True)),
        "rows": [],
        **provenance("gtransformer.lab.cli.benchmark_commits", argv),
    }
    for case in cases:
        limits = options.runs, options.beam, options.least, options.seconds
        results["rows"].append(compare(checkouts, _setting(options, case), case, *limits))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.output, results)
    print(table(results["rows"]), flush=True)
    return 0


def _setting(options: argparse.Namespace, case: Case) -> Setting:
    return Setting(
        options.engine,
        case.tokens,
        case.documents * case.tokens,
        options.context,
        options.precision,
        options.arch,
        options.vocabulary,
        options.sentence,
        options.dropout,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )


if __name__ == "__main__":
    sys.exit(main())
