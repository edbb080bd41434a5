"""The demonstration: a G-Transformer learns to translate whole documents, a plain Transformer does not (yet).

Writes the demonstration corpus, prepares it, trains both systems on the same documents with the same budget, translates
the test set, scores translations and contrastive items, and prints a table. Run again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import check_counts, cli_main
from gtransformer.evaluation.provenance import device_name
from gtransformer.lab.comparison.demonstration import DOCUMENTS, RECIPES, TEST_DOCUMENTS, Demo, finish
from gtransformer.run.progress import say
from gtransformer.run.run_places import runs_directory


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(
        prog="scripts/demo.sh", description=" ".join(__doc__.split()), epilog="About ten minutes on two CPU cores."
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="where everything goes (runs/demo)")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, metavar="N", help="to train on (%(default)s)")
    parser.add_argument(
        "--test-documents", type=int, default=TEST_DOCUMENTS, metavar="N", help="to translate (%(default)s)"
    )
    parser.add_argument("--max-update", type=int, metavar="N", help="training updates (as the recipe says)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help="change both recipes; repeatable"
    )
    parser.add_argument("--skip-baseline", action="store_true", help="the G-Transformer only")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; 1 if the G-Transformer falls short on the full budget."""
    args = build_parser().parse_args(argv)
    check_counts(args, "documents", "test_documents", "max_update")
    directory = (args.output or runs_directory() / "demo").absolute()
    systems = ["gtransformer"] if args.skip_baseline else list(RECIPES)
    demo = Demo(directory, args.documents, args.test_documents, args.max_update, systems, args.set)
    with demo.pipeline:
        (directory / "results.json").unlink(missing_ok=True)
        say(f"demonstration in {directory}: {args.documents} documents, {demo.updates} updates, {device_name()}")
        if demo.at_once > 1:
            say(f"both systems are trained at the same time, with {demo.threads} thread(s) each")
        if demo.recipes["gtransformer"].sections["train"].get("autocast") == "bfloat16":
            say("matrix products of training are done in bfloat16, for which this processor has instructions")
        return finish(demo, demo.run(), argv)


if __name__ == "__main__":
    raise SystemExit(main())
