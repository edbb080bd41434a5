"""Accuracy of a model on the contrastive items of a generated corpus.

``gtransformer lab items PREPARED --path checkpoint_best.pt --items CORPUS/contrastive.json --output
FILE``
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.evaluation.tables import align, with_error
from gtransformer.files import write_json
from gtransformer.installation import provenance


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument("prepared", type=Path, help="prepared corpus")
    parser.add_argument(
        "--path", type=Path, required=True, metavar="CHECKPOINT", help="trained model"
    )
    parser.add_argument(
        "--items",
        type=Path,
        required=True,
        metavar="FILE",
        help="file of items, next to its corpus",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="file to write")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()


def main(args: argparse.Namespace) -> None:
    """Score, print, write."""
    from tqdm import tqdm

    from gtransformer.lab.items import measure

    progress = partial(tqdm, desc="contrastive items", unit=" batches")
    result = measure(args.prepared, args.path, args.items, args.cpu, progress)
    write_json(args.output, result | provenance(args.command_line))
    names = list(result["by_distance"])
    rows = [["", "all", *(f"at {name}" for name in names)]]
    for kind, part in {**result["by_phenomenon"], "all": result["total"]}.items():
        within = (
            result["by_distance"] if kind == "all" else result["by_phenomenon_and_distance"][kind]
        )
        rows.append(
            [
                kind,
                with_error(part),
                *(with_error(within[name]) if name in within else "-" for name in names),
            ]
        )
    print(align(rows))
