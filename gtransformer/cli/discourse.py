"""F1 of pronoun and formality translation, English to German (Herold and Ney 2023, appendix A.1).

``python -m gtransformer.cli.discourse --source test.en --reference test.de --hypotheses PREFIX.txt`` reads plain text,
one sentence a line (documents may be opened by ``<d>``), such as the score command writes; several systems stand side
by side. Needs spaCy and two of its models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from gtransformer.cli.score_systems import name_systems
from gtransformer.cli.score_table import align
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.discourse.f1 import discourse_f1
from gtransformer.evaluation.discourse.taggers import MODELS, Tagger
from gtransformer.evaluation.plain_text import read_plain, read_shaped
from gtransformer.evaluation.provenance import provenance
from gtransformer.files import sha256, write_json


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="scripts/discourse.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, metavar="FILE", help="English text")
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE", help="its German reference")
    parser.add_argument(
        "--hypotheses", nargs="+", required=True, metavar="[NAME=]FILE", help="its German translations, one per system"
    )
    parser.add_argument("--output", type=Path, help="where to write the JSON (beside the first: FILE.discourse.json)")
    parser.add_argument("--source-model", default=MODELS["en"], help="spaCy model for English (%(default)s)")
    parser.add_argument("--target-model", default=MODELS["de"], help="spaCy model for German (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Tag, count, print, write."""
    args = build_parser().parse_args(argv)
    systems = name_systems(args.hypotheses)
    for _, path in systems:
        if path.suffix == ".jsonl":
            raise UserError(f"{path}: plain text is needed; give the PREFIX.txt that the score command writes")
    wanted, _ = read_plain(args.reference)
    shape = [len(document) for document in wanted]

    def sentences(path: Path) -> list[str]:
        return [sentence for document in read_shaped(path, shape, args.reference) for sentence in document]

    texts = {name: sentences(path) for name, path in systems}
    plain = [sentences(args.source), sentences(args.reference)]
    english, german = Tagger(args.source_model), Tagger(args.target_model)
    sources, references = list(english(plain[0])), list(german(plain[1]))
    results = {name: discourse_f1(sources, list(german(text)), references) for name, text in texts.items()}
    first = systems[0][1]
    output = args.output or first.with_name(f"{first.name}.discourse.json")
    checksums = {str(path): sha256(path) for path in (args.source, args.reference, *(path for _, path in systems))}
    head = {"version": 1, "taggers": [english.name, german.name], "sentences": len(sources), "sha256": checksums}
    write_json(output, head | {"systems": results} | provenance("gtransformer.cli.discourse", argv))
    print(table(results))
    print(f"taggers: {english.name}, {german.name}\n\nresults: {output}")


def table(results: Mapping[str, Mapping]) -> str:
    """F1, precision and recall in per cent, overall and by class, a column per system."""
    first = next(iter(results.values()))
    rows = [["translation of", "", *results, "in the reference"]]
    for name, part in first.items():
        for value in ("f1", "precision", "recall"):
            cells = [_percent(result[name][value]) for result in results.values()]
            rows.append([name, {"f1": "F1"}.get(value, value), *cells, str(part["reference"]) if value == "f1" else ""])
        for x, counts in part["by_class"].items():
            cells = [_percent(result[name]["by_class"][x]["f1"]) for result in results.values()]
            rows.append([name, f"F1, {x}", *cells, str(counts["reference"])])
    return align(rows, range(2, len(rows[0])))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
