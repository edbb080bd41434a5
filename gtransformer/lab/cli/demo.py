"""Train a small G-Transformer on a generated corpus, translate its test set and show what context
decides. It takes 8 to 14 minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.lab.demo.shipped import DOCUMENTS, TEST_DOCUMENTS


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add(
        "--output",
        type=Path,
        metavar="DIR",
        help="directory to write (default: runs/demonstration)",
    )
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
        help="number of training documents (default: %(default)s)",
    )
    add(
        "--test-documents",
        type=int,
        default=TEST_DOCUMENTS,
        metavar="N",
        help="number of test documents (default: %(default)s)",
    )
    add("--max-update", type=int, metavar="N", help="number of updates (default: the recipe's)")
    parser.add_changes("the recipes")


def main(args: argparse.Namespace) -> int:
    """Run the demonstration; return 1 if its full budget gives lower scores than it should."""
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
