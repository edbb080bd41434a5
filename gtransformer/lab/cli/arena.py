"""Train all systems with one budget on one corpus, and compare their scores and their use of context by distance.

It prepares a corpus (demo: generated, with a contrastive set by distance), trains the sentence model that all start
from, then each system once per seed, and writes arena.json, arena.txt and arena.png. The same command resumes an
interrupted run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.lab.arena.systems import BASELINE, DEFAULT_UPDATES, FROM_SCRATCH, SIZES, system_names
from gtransformer.lab.cli.demo_corpus import at_least
from gtransformer.provenance import device_name

SIZE_HELP = {
    "documents": "demo: training letters; each adds three documents like the set's",
    "dev_documents": "the same for validation",
    "test_documents": "the same for translation and scores",
    "items": "demo: least items for each phenomenon and row of distances",
}


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    epilog = f"systems: {', '.join(system_names())}; '{BASELINE}' is always among them"
    parser = CommandParser(prog="gtransformer lab arena", description=" ".join(__doc__.split()), epilog=epilog)
    add = parser.add_argument
    text = "demo (generated); ted, news, europarl, or a directory in the raw corpus format (no accuracy by distance)"
    add("corpus", help=text)
    add("output", type=Path, help="directory to write to")
    add("--systems", nargs="+", metavar="NAME", help="names in configs/arena/, or YAML files (default: all)")
    add("--seeds", nargs="+", type=int, default=[1, 2], metavar="N", help="(default: 1 2)")
    add("--updates", type=int, metavar="N", help=f"training updates of each system (default: {DEFAULT_UPDATES})")
    add("--minutes", type=float, metavar="M", help="training minutes of each system, instead of --updates")
    text = "target tokens of each system's training, instead of --updates; all tokens of the corpus are an epoch"
    add("--tokens", type=int, metavar="N", help=text)
    text = f"initial weights: start, one sentence model, or {FROM_SCRATCH}, random (%(default)s)"
    add("--from", dest="begin", choices=("start", FROM_SCRATCH), default="start", help=text)
    add("--start-updates", type=int, metavar="N", help="updates of the sentence model (default: its recipe's)")
    add("--jobs", type=int, metavar="N", help="programs at a time (a GPU: 1; a CPU: its cores)")
    for name, what in SIZE_HELP.items():
        text = f"{what} (default: {SIZES[name]})"
        add(f"--{name.replace('_', '-')}", type=at_least(1), metavar="N", help=text)
    parser.add_changes("all recipes")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the arena, print and write the results."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.arena.arena import Arena
    from gtransformer.lab.arena.budget import budget_words
    from gtransformer.lab.arena.outcome import finish
    from gtransformer.lab.progress import print_status

    arena = Arena(args)
    pipeline = arena.pipeline
    pipeline.check()
    for path in arena.results.values():
        path.unlink(missing_ok=True)
    seeds = ", ".join(map(str, arena.seeds))
    print_status(f"{', '.join(arena.systems)}: {budget_words(arena.common())} each, seeds {seeds}, {device_name()}")
    if arena.at_once > 1 and arena.threads:
        print_status(f"{arena.at_once} at a time, with {arena.threads} thread(s) each")
    pipeline.run("arena", arena.at_once, arena.threads)
    finish(arena, argv)


if __name__ == "__main__":
    raise SystemExit(main())
