"""F1 of pronoun and formality translation, English to German (Herold and Ney 2023, appendix A.1).

``gtransformer lab discourse --source test.en --reference test.de --hypotheses PREFIX.txt`` reads plain text, one
sentence per line (documents may start with ``<d>``), as the score command writes it. Several systems are compared. It
needs spaCy and two of its models.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.evaluation.score import name_systems
from gtransformer.files import write_json
from gtransformer.lab.analysis.discourse import MODELS, score_files, table
from gtransformer.provenance import provenance


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab discourse", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--source", type=Path, required=True, metavar="FILE", help="English text")
    add("--reference", type=Path, required=True, metavar="FILE", help="its German reference")
    add("--hypotheses", nargs="+", required=True, metavar="[NAME=]FILE", help="its German translations, one per system")
    add("--output", type=Path, help="where to write the JSON (default: FILE.discourse.json, next to the first)")
    add("--source-model", default=MODELS["en"], help="spaCy model for English (%(default)s)")
    add("--target-model", default=MODELS["de"], help="spaCy model for German (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Tag, count, print, write."""
    args = build_parser().parse_args(argv)
    systems = name_systems(args.hypotheses)
    first = next(iter(systems.values()))
    output = args.output or first.with_name(f"{first.name}.discourse.json")
    models = args.source_model, args.target_model
    result = score_files(args.source, args.reference, systems, models)
    write_json(output, result | provenance("lab discourse", argv))
    print(table(result["systems"]))
    print(f"taggers: {', '.join(result['taggers'])}\n\nresults: {output}")


if __name__ == "__main__":
    raise SystemExit(main())
