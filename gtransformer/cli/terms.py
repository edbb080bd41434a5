"""Consistency of terms: is a source word translated alike throughout a document (LTCR, Lyu et al. 2021)?

``gtransformer terms --source test.en --reference test.de --hypotheses PREFIX.txt`` reads plain text, one sentence per
line, documents start with ``<d>``, as the score command writes it. Several systems are compared; the first is the
baseline of the test. ``--training`` names the parallel text of the lexicon.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import name_systems
from gtransformer.evaluation.terms import MAX_SHARE, REFERENCE, score_files, table
from gtransformer.files import check_output, write_json


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer terms", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--source", type=Path, required=True, metavar="FILE", help="source text, with documents")
    add("--reference", type=Path, required=True, metavar="FILE", help="its reference")
    add("--hypotheses", nargs="+", required=True, metavar="[NAME=]FILE", help="its translations, one per system")
    add(
        "--training",
        type=Path,
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="parallel text of the lexicon, such as PREPARED/text/train.en and train.de; default: source "
        "and reference, which favours translations like the reference",
    )
    add(
        "--max-share",
        type=float,
        default=MAX_SHARE,
        metavar="P",
        help="a term is in at most this share of the lexicon's sentences (%(default)s)",
    )
    add("--output", type=Path, help="where to write the JSON (default: FILE.terms.json, next to the first)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Count, print, write."""
    args = build_parser().parse_args(argv)
    if not 0 < args.max_share <= 1:
        raise UserError(f"--max-share {args.max_share:g}: give a share, above 0 and at most 1")
    systems = name_systems(args.hypotheses)
    first = systems[0][1]
    output = args.output or first.with_name(f"{first.name}.terms.json")
    training = tuple(args.training) if args.training else None
    check_output(output, [args.source, args.reference, *dict(systems).values(), *(training or ())])
    result = score_files(args.source, args.reference, dict(systems), training, args.max_share)
    write_json(output, result | provenance("terms", argv))
    print(table(result["systems"] | {REFERENCE: result[REFERENCE]}, result["significance"]))
    print(f"documents: {result['documents']}, {result['borders']}")
    print(f"lexicon: {result['lexicon_sentences']} sentence pairs\n\nresults: {output}")


if __name__ == "__main__":
    raise SystemExit(main())
