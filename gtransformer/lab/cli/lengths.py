"""Score one model over test lengths: the same test set, translated in instances of several lengths.

``gtransformer lab lengths RECIPE CORPUS OUT --tokens 128 256 512`` uses the model of a recipe's run and writes
``lengths.json`` and ``lengths.txt``. The same command resumes an interrupted run; lengths can be added.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.files import atomic_write, write_json
from gtransformer.preprocess.corpus import SPLITS


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab lengths", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("recipe", help="a recipe, or the path of a YAML file")
    add("corpus", help="ted, news, europarl, or a directory in the raw corpus format")
    add("output", type=Path, help="directory to write to")
    add("--tokens", nargs="+", type=int, default=[], metavar="N", help="instances filled up to N tokens")
    add("--sentences", nargs="+", type=int, default=[], metavar="N", help="instances of N sentences")
    add("--run", type=Path, metavar="DIR", help="the recipe's run (runs/RECIPE/CORPUS)")
    add("--prepared", type=Path, metavar="DIR", help="the prepared corpus (default: the run's)")
    add("--checkpoint", type=Path, metavar="FILE", help="the model (default: the run's)")
    add("--split", default="test", choices=[*SPLITS.values()], help="split to translate (%(default)s)")
    add("--jobs", type=int, metavar="N", help="programs at a time (a GPU: 1; a CPU: its cores)")
    parser.add_changes("the recipe")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Translate and score what is missing, print and write the results."""
    args = build_parser().parse_args(argv)

    from gtransformer.lab.comparison.lengths import Lengths, lengths_text
    from gtransformer.run.jobs import shares

    lengths = Lengths(args)
    with lengths.pipeline as pipeline:
        pipeline.run("lengths", *shares(args.jobs))
        result = lengths.collect()
        write_json(args.output / "lengths.json", result | provenance("lab lengths", argv))
        shown = lengths_text(result)
        with atomic_write(args.output / "lengths.txt") as stream:
            stream.write(shown + "\n")
    print(f"\n{shown}\n\nresults: {args.output / 'lengths.json'}")


if __name__ == "__main__":
    raise SystemExit(main())
