"""All systems side by side, fine-tuned from one sentence model with one budget: what they score and how far they see.

Generates a corpus and the set that shows reach, trains the shared sentence model, then each system once a seed, and
writes arena.json, arena.txt and arena.png. Run again, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.demo_corpus import at_least
from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.evaluation.provenance import device_name
from gtransformer.experiments.arena.arena import Arena
from gtransformer.experiments.arena.plan import BASELINE, check_terms, system_names
from gtransformer.experiments.processes import end_on_signals
from gtransformer.experiments.progress import say


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(
        prog="scripts/arena.sh",
        description=" ".join(__doc__.split()),
        epilog=f"systems: {', '.join(system_names())}; '{BASELINE}' is always among them",
    )
    parser.add_argument("corpus", help="demo (generated)")
    parser.add_argument("output", type=Path, help="directory to write to")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="of configs/arena/, or YAML files (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2], metavar="N", help="(default: 1 2)")
    parser.add_argument("--updates", type=int, default=600, metavar="N", help="of training, each system (%(default)s)")
    parser.add_argument("--start-updates", type=int, metavar="N", help="of the sentence model (default: its recipe's)")
    parser.add_argument("--jobs", type=int, metavar="N", help="programs at a time (a GPU: 1; a CPU: its cores)")
    for option, default, what in (
        ("--documents", 300, "training: letters, and three documents like the set's to each"),
        ("--dev-documents", 7, "the same for validation"),
        ("--test-documents", 7, "the same for translation and its scores"),
        ("--items", 400, "of the set: at least so many for each phenomenon and row of distances"),
    ):
        help_text = f"{what} (%(default)s)"
        parser.add_argument(option, type=at_least(1), default=default, metavar="N", help=help_text)
    parser.add_argument(
        "--beside",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="arena.json of others, run on the same terms: their systems are shown beside",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.OPTION=VALUE", help="change all recipes; repeatable"
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the arena, print and write what came out."""
    args = build_parser().parse_args(argv)
    terms = check_terms(args)
    arena = Arena(args, terms)
    end_on_signals()
    with arena.pipeline as pipeline:
        pipeline.check()
        for path in arena.results.values():
            path.unlink(missing_ok=True)
        seeds = ", ".join(map(str, terms.seeds))
        say(f"{', '.join(terms.systems)}: {terms.updates} updates each, seeds {seeds}, {device_name()}")
        if arena.at_once > 1 and arena.threads:
            say(f"{arena.at_once} at a time, with {arena.threads} thread(s) each")
        arena.run()
        arena.finish(argv)


if __name__ == "__main__":
    raise SystemExit(main())
