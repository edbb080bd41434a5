"""Generative accuracy: does a system's translation contain the form that the context requires?

``gtransformer generative PREPARED --items contrastive.json --hypotheses X.jsonl`` scores items in the demo's format in
translations of their split. With ctxpro's JSON as ``--items`` (or ContraPro's, as ``gtransformer convert``
writes it) no prepared corpus is needed, and the hypotheses are plain text. They have a line per entry, or a document
per entry, whose last sentence is scored. Of several systems, the first is the baseline of sign tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.prepared_split import corpus_files
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.realignment import ALIGNMENTS, ORDER, Alignment
from gtransformer.evaluation.score import name_systems
from gtransformer.evaluation.text_table import align, difference_cell, with_error
from gtransformer.files import check_output, read_json, sha256, write_json
from gtransformer.preprocess.ctxpro import is_ctxpro, read_expectations

RULES = {
    "phenomenon": "the right translation's counts of all words whose counts differ between right and wrong ones, and "
    "of what else context decides in the sentence if the words are the same",
    "rule": "ctxpro, ContraPro: the expected word in the sentence, lower-cased, without punctuation",
}


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer generative", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, nargs="?", help="prepared corpus that was translated (not for ctxpro)")
    add(
        "--items",
        type=Path,
        required=True,
        metavar="JSON",
        help="a set in the demo's format, a file of ctxpro, or ContraPro as gtransformer convert writes it",
    )
    add(
        "--hypotheses",
        nargs="+",
        required=True,
        metavar="[NAME=]FILE",
        help="one translation per system: PREFIX.jsonl as generation writes it or plain text; ctxpro a line per entry, "
        "or a document per entry, whose last sentence is scored",
    )
    add("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    add(
        "--align",
        choices=ALIGNMENTS,
        default=ORDER,
        help="alignment if numbers of sentences differ, as in the score command (%(default)s)",
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Judge, print, write."""
    args = build_parser().parse_args(argv)

    from gtransformer.evaluation.contrastive import read_items
    from gtransformer.evaluation.generative import judge_lines, judge_translations, report, sign_tests

    if args.prepared is None and len(args.hypotheses) > 1 and Path(args.hypotheses[-1]).is_dir():
        args.prepared = Path(args.hypotheses.pop())
    named = name_systems(args.hypotheses)
    read = [args.items, *dict(named).values(), *(corpus_files(args.prepared) if args.prepared else ())]
    check_output(args.output, read)
    head: dict = {"version": 1, "items": str(args.items), "items_sha256": sha256(args.items)}
    misaligned: dict[str, int] = {}
    data = read_json(args.items)
    if isinstance(data, list) and not is_ctxpro(data):
        raise UserError(
            f"{args.items}: not ctxpro's items, nor a set on a prepared corpus; of contrapro.json, gtransformer "
            "convert contrapro makes items"
        )
    if is_ctxpro(data):
        if args.prepared is not None:
            raise UserError(f"{args.prepared}: ctxpro needs no prepared corpus; leave it out")
        if args.align != ORDER:
            raise UserError(f"--align {args.align}: ctxpro's sentences are not aligned; leave it out")
        kind, expected = "rule", read_expectations(args.items)
        judged = {name: judge_lines(expected, path) for name, path in named}
    else:
        if args.prepared is None:
            raise UserError(f"{args.items}: also give the prepared corpus of these items")
        kind, (split, items) = "phenomenon", read_items(args.items)
        how = Alignment(args.align)
        judged = {}
        for name, path in named:
            judged[name], misaligned[name] = judge_translations(items, args.prepared, split, path, how)
        head |= {"split": split, "align": args.align}
    systems = {
        name: {
            "hypotheses": str(path),
            "hypotheses_sha256": sha256(path),
            **({"misaligned_instances": misaligned[name]} if name in misaligned else {}),
            **report(judged[name], kind),
            "outcomes": [one.to_json() for one in judged[name]],
        }
        for name, path in named
    }
    (_, first), *others = judged.items()
    if kind == "rule":
        named_documents = any("document id" in entry for entry in expected)
    else:
        named_documents = all(item.group is None for item in items)
    unit = "documents" if named_documents else "groups"
    tests = {name: sign_tests(first, one, kind, unit) for name, one in others}
    result = head | {"rule": RULES[kind], "systems": systems} | ({"significance": tests} if tests else {})
    write_json(args.output, result | provenance("generative", argv))
    print(table(systems, kind, tests))
    for name, number in misaligned.items():
        if number:
            again = "they were cut again where words differ least"
            done = "outcomes may be those of other sentences; see --align mwer" if args.align == ORDER else again
            print(f"note: {name}: {number} instances have another number of sentences than their source; {done}")
    print(f"\nresults: {args.output}")


def table(systems: dict, kind: str, tests: Mapping[str, Mapping] = MappingProxyType({})) -> str:
    """Return a row per kind and system: accuracy, the three outcomes, accuracy by the nearest disclosing sentence.

    ``tests``: of every system but the first, its sign tests, which are the last column.
    """
    from gtransformer.evaluation.generative import OUTCOMES

    distances = dict.fromkeys(row for system in systems.values() for row in system.get("by_distance", {}))
    rows = [["system", kind, "accuracy", *OUTCOMES, *(f"at {distance}" for distance in distances)]]
    if tests:
        rows[0].append(f"sign test, {next(iter(tests.values()))['total']['unit']}")
    for name, system in systems.items():
        within = {**system.get(f"by_{kind}_and_distance", {}), "all": system.get("by_distance", {})}
        test = {**tests[name][f"by_{kind}"], "all": tests[name]["total"]} if name in tests else {}
        for part, found in {**system[f"by_{kind}"], "all": system["total"]}.items():
            cells = [within.get(part, {}).get(distance) for distance in distances]
            shown = [f"{cell['right']}/{cell['items']}" if cell else "-" for cell in cells]
            counts = [str(found[outcome]) for outcome in OUTCOMES]
            tested = [difference_cell(test[part]) if test else "-"] if tests else []
            rows.append([name, part, with_error(found), *counts, *shown, *tested])
    return align(rows, range(2, len(rows[0])))


if __name__ == "__main__":
    raise SystemExit(main())
