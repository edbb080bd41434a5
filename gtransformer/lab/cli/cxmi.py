"""Measure by how much context raises the log probability of the reference (CXMI).

Fernandes et al. (2021).

``gtransformer lab cxmi PREPARED --path checkpoint_best.pt --output cxmi.json``
"""

from __future__ import annotations

import argparse
from functools import partial
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
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="file to write")
    parser.add_argument(
        "--context", type=int, nargs="+", default=[1, 2, 3], metavar="N",
        help="numbers of previous sentences, in addition to none and all (default: 1 2 3)",
    )  # fmt: skip
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()


def main(args: argparse.Namespace) -> None:
    """Score, print, write."""
    from tqdm import tqdm

    from gtransformer.lab.cxmi import measure

    progress = partial(tqdm, desc="cxmi", unit=" batches")
    found = measure(args.prepared, args.path, args.split, args.context, args.cpu, progress)
    write_json(args.output, {"contexts": found, **provenance(args.command_line)})
    rows = [["context", "CXMI", "standard error", "log q per token"]]
    for name, part in found.items():
        rows.append([name, *("-" if value is None else f"{value:.4f}" for value in part.values())])
    print(align(rows))
