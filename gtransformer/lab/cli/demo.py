"""Train a small G-Transformer on a generated corpus, translate its test set and show what context
decides.

Five to ten minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.lab.demo.shipped import DOCUMENTS, TEST_DOCUMENTS


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer demo", description=" ".join(__doc__.split()))
    add = parser.add_argument
    add("--output", type=Path, metavar="DIR", help="where to write (runs/demonstration)")
    add(
        "--compare",
        action="store_true",
        help="also train a plain Transformer over the same documents",
    )
    add(
        "--documents",
        type=int,
        default=DOCUMENTS,
        metavar="N",
        help="training documents (%(default)s)",
    )
    add(
        "--test-documents",
        type=int,
        default=TEST_DOCUMENTS,
        metavar="N",
        help="test documents (%(default)s)",
    )
    add("--max-update", type=int, metavar="N", help="training updates (the recipe's)")
    parser.add_changes("the recipes")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; return 1 if its full budget gives lower scores than it should."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.demonstration import make_demonstration, next_steps, summary, too_low
    from gtransformer.lab.results import write_results

    experiment = make_demonstration(args)
    experiment.run()
    write_results(experiment)
    text, numbers = summary(experiment)
    print(
        f"\n{text}\n\nresults: {experiment.folder}/results.csv\n\n{next_steps(experiment.folder)}"
    )
    full = args.documents >= DOCUMENTS and not args.max_update and not args.set
    failed = too_low(numbers["gtransformer"]) if full else []
    for line in failed:
        print(f"FAILED: {line}; please report this", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
