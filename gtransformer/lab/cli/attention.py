"""Measure entropy of attention and its share on the aligned sentence; draw cross-attention.

``gtransformer lab attention PREPARED --path checkpoint_best.pt --picture attention.png``
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.evaluation.tables import align
from gtransformer.files import write_json
from gtransformer.installation import provenance


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument("prepared", type=Path, help="prepared corpus")
    parser.add_argument(
        "--path", type=Path, required=True, metavar="CHECKPOINT", help="trained model"
    )
    parser.add_argument(
        "--split", default="test", help="train, valid or test (default: %(default)s)"
    )
    parser.add_argument(
        "--instances",
        type=int,
        default=20,
        metavar="N",
        help="use at most N (default: %(default)s)",
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the first one (.png, .svg)"
    )
    parser.add_argument("--output", type=Path, metavar="JSON", help="file for the numbers")
    parser.add_user_dir()


def main(args: argparse.Namespace) -> None:
    """Measure, print, draw, write."""
    from gtransformer.lab.attention import draw, inspect_split

    found = list(inspect_split(args.prepared, args.path, args.split, args.instances))
    rows = []
    for several in zip(*found, strict=True):
        first = several[0]
        bits, flat = (
            statistics.fmean(values)
            for values in zip(*(one.entropy() for one in several), strict=True)
        )
        gates = [float(one.gate.mean()) for one in several if one.gate is not None]
        rows.append({
            "part": first.part, "reach": first.reach, "layer": first.layer,
            "entropy": bits, "flat": flat,
            "share": statistics.fmean(one.share() for one in several),
            "gate": statistics.fmean(gates) if gates else None,
        })  # fmt: skip
    cells = [
        [f"{value:.3f}" if isinstance(value, float) else str(value or "") for value in row.values()]
        for row in rows
    ]
    print(align([list(rows[0]), *cells]))
    if args.picture:
        draw(found[0], args.picture)
    if args.output:
        write_json(args.output, {"attention": rows, **provenance(args.command_line)})
