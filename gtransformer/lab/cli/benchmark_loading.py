"""Memory and time of loading a corpus: ``python -m gtransformer.lab.cli.benchmark_loading --output FILE``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import current_commit
from gtransformer.files import check_output, write_json
from gtransformer.lab.benchmark.loading import INSTANCES, KINDS, SENTENCES, apart, measure, write_corpus
from gtransformer.lab.benchmark.machine import machine


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m gtransformer.lab.cli.benchmark_loading",
        description="Measure what a training process needs to load a prepared corpus of random words, and to cut it "
        "into batches.",
    )
    parser.add_argument("--pairs", type=int, default=1_000_000, help="sentence pairs (%(default)s)")
    parser.add_argument("--processes", type=int, default=64, help="of the training (%(default)s)")
    parser.add_argument("--others", type=int, default=32, help="that have begun an epoch to go on with (%(default)s)")
    parser.add_argument("--max-tokens", type=int, default=4096, help="of a batch (%(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="a JSON file to write")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Measure, print a line for each way of grouping, write the file."""
    args = build_parser().parse_args(argv)
    check_output(args.output)
    if args.pairs < SENTENCES * INSTANCES or min(args.processes, args.others, args.max_tokens) < 1:
        raise UserError(
            f"--pairs {args.pairs}: give {SENTENCES * INSTANCES} or more, and at least 1 of everything else"
        )
    with tempfile.TemporaryDirectory() as folder:
        files = apart(write_corpus, Path(folder), args.pairs)
        result = {
            "about": "loading a corpus of random words in the layout of scripts/prepare.sh",
            "settings": {"pairs": args.pairs, "processes": args.processes, "others": args.others}
            | {"max_tokens": args.max_tokens},
            "commit": current_commit(),
            "machine": machine(1),
            "bytes": files,
            "runs": [],
        }
        for kind in KINDS:
            found = measure(Path(folder), kind, args.processes, args.others, args.max_tokens)
            result["runs"].append(found)
            seconds = ", ".join(f"{name} {value} s" for name, value in found["seconds"].items())
            grown = found["mib"]["epoch"] - found["mib"]["before"]
            print(
                f"{kind}: {found['instances']} instances, {found['batches']} batches, {grown} MiB, {seconds}",
                flush=True,
            )
    write_json(args.output, result)


if __name__ == "__main__":
    raise SystemExit(main())
