"""Generative accuracy: does a system's translation contain the form that the context requires?

``gtransformer generative --items ctxpro.json -t pt --hypotheses X.txt --output result.json``. The hypotheses are plain
text: a line or a document per entry, whose last sentence is scored. Of several systems, the first is the baseline of
sign tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.evaluation.generative import judge, judge_lines, last_sentence, report, sign_tests
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import name_systems
from gtransformer.evaluation.suite_files import read_entries
from gtransformer.evaluation.text_table import accuracy_table
from gtransformer.files import check_output, write_json


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer generative", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--items", type=Path, required=True, metavar="JSON", help="ctxpro, contrapro.json, or what convert wrote")
    add("-t", "--target-lang", required=True, help="of the translations, for splitting a line into sentences")
    add(
        "--hypotheses",
        nargs="+",
        required=True,
        metavar="[NAME=]FILE",
        help="one translation per system: a line or a document (<d>) per entry, whose last sentence is scored",
    )
    add("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Judge, print, write."""
    args = build_parser().parse_args(argv)
    named = name_systems(args.hypotheses)
    check_output(args.output, [args.items, *named.values()])
    entries, odd = read_entries(args.items)
    last = last_sentence(args.target_lang)
    judged = {name: judge_lines(entries, path, last, odd) for name, path in named.items()}
    systems = {
        name: {"hypotheses": str(path), **report(judged[name]), "outcomes": [vars(one) for one in judged[name]]}
        for name, path in named.items()
    }
    (_, first), *others = judged.items()
    tests = {name: sign_tests(first, one) for name, one in others}
    result = {"items": str(args.items), "left_out": odd, "systems": systems, "significance": tests}
    if all("ref segment" in entry for entry in entries):
        result["reference"] = report(judge(entries, [last(entry["ref segment"]) for entry in entries], odd))
    write_json(args.output, result | provenance("generative", argv))
    shown = systems | ({"(reference)": result["reference"]} if "reference" in result else {})
    print(accuracy_table(shown, tests))
    if odd:
        names = ", ".join(f"{number} ({entries[number]['expected']!r})" for number in odd)
        print(f"note: {len(odd)} entries without an expected word were left out: {names}")
    print(f"\nresults: {args.output}")


if __name__ == "__main__":
    raise SystemExit(main())
