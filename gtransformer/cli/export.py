"""Save a trained model as a directory for translation."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.files import read_record
from gtransformer.installation import provenance
from gtransformer.translation.options import add_search_options, search_of


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add("source", type=Path, metavar="RUN", help="directory of a run, or a prepared corpus")
    add("output", type=Path, metavar="MODEL", help="model directory to write")
    add("--checkpoint", type=Path, metavar="FILE", help="model to save (default: the run's)")
    add("--prepared", type=Path, metavar="DIR", help="its prepared corpus (default: the run's)")
    add_search_options(parser, "the run's recipe's")


def main(args: argparse.Namespace) -> None:
    """Find the parts, write the directory, print its contents."""
    # Imported here, so that --help need not wait for PyTorch and fairseq.
    from gtransformer.plugin.checkpoints import model_in
    from gtransformer.plugin.export import export, usual_search
    from gtransformer.run.stage import SEARCH

    for name in ("gtransformer.plugin", "fairseq"):
        logging.getLogger(name).setLevel(logging.WARNING)
    origin = provenance(args.command_line)
    checkpoint = args.checkpoint or model_in(args.source / "checkpoints")
    print(f"reading {checkpoint}", flush=True)
    # Each overrides the one before: what suits the model, the run's recipe, the command line.
    search = usual_search(checkpoint).given(search_of(read_record(args.source / SEARCH)))
    search = search.given(vars(args))
    manifest = export(args.source, args.output, search, origin, checkpoint, args.prepared)
    settings = manifest["settings"]
    said = ", ".join(f"{name} {value}" for name, value in manifest["search"].items())
    print(
        f"{args.output}: {settings['source_lang']} to {settings['target_lang']}, "
        f"{manifest['parameters']:,} "
        f"parameters; search: {said}"
    )
