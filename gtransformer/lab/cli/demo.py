"""Train a small G-Transformer on generated documents, and show its translations.

It unpacks and prepares the demonstration corpus, trains, translates the test set, scores translations and contrastive
items, and shows translations that need context. The same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.lab.demo.shipped import DOCUMENTS, TEST_DOCUMENTS
from gtransformer.provenance import device_name


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    epilog = "Five to ten minutes on two CPU cores."
    parser = CommandParser(prog="gtransformer demo", description=" ".join(__doc__.split()), epilog=epilog)
    add = parser.add_argument
    add("--output", type=Path, metavar="DIR", help="directory of all files (runs/demonstration)")
    add("--documents", type=int, default=DOCUMENTS, metavar="N", help="training documents, at most %(default)s")
    add("--test-documents", type=int, default=TEST_DOCUMENTS, metavar="N", help="to translate, at most %(default)s")
    add("--max-update", type=int, metavar="N", help="training updates (default: the recipe's)")
    parser.add_changes("the recipe")
    add("--compare", action="store_true", help="also train a plain Transformer on the same documents")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; 1 if the G-Transformer falls short on the full budget."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.comparison.demonstration import Demo
    from gtransformer.lab.progress import print_status

    demo = Demo(args)
    demo.results.unlink(missing_ok=True)
    print_status(
        f"demonstration in {demo.directory}: {args.documents} documents, {demo.updates} updates, {device_name()}"
    )
    if demo.at_once > 1:
        print_status(f"both systems are trained at the same time, with {demo.threads} thread(s) each")
    if demo.bfloat16:
        print_status("matrix products of training are done in bfloat16, for which this processor has instructions")
    demo.run()
    return demo.finish(argv)


if __name__ == "__main__":
    raise SystemExit(main())
