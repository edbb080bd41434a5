"""Generative accuracy: does a system's translation contain the form that the context requires?

``gtransformer generative --items ctxpro.json -t pt --hypotheses X.txt --output result.json``. The
hypotheses are plain text: a line or a document for each entry, whose last sentence is scored. Of
several systems, the first is the baseline of sign tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.evaluation.accuracy import (
    judge,
    last_sentence,
    read_outputs,
    sign_tests,
    suite_report,
)
from gtransformer.evaluation.score import name_systems
from gtransformer.evaluation.tables import accuracy_table
from gtransformer.files import check_output, write_json
from gtransformer.installation import provenance
from gtransformer.preprocess.suites import expects_word, read_suite


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add("--items", type=Path, required=True, metavar="JSON", help="items of ctxpro or ContraPro")
    add("-t", "--target-lang", required=True, metavar="LANG", help="language of the translations")
    texts = (
        "a plain text for each system: a line or document for each item, whose last sentence counts"
    )
    add("--hypotheses", nargs="+", required=True, metavar="[NAME=]FILE", help=texts)
    add("--output", type=Path, required=True, metavar="JSON", help="file to write")


def main(args: argparse.Namespace) -> None:
    """Judge, print, write."""
    named = name_systems(args.hypotheses)
    check_output(args.output, [args.items, *named.values()])
    # Context has no part in the verdicts, so none is looked up.
    items = read_suite([args.items], context=0).items
    odd = [item for item in items if not expects_word(item.expected)]
    if len(odd) == len(items):
        raise UserError(
            f"{args.items}: no item expects a word; for sets of Voita et al. use gtransformer "
            "contrastive"
        )
    last = last_sentence(args.target_lang)
    judged = {
        name: judge(items, list(map(last, read_outputs(path, items))))
        for name, path in named.items()
    }
    systems = {
        name: {
            "hypotheses": str(path),
            **suite_report(judged[name]),
            "items": [outcome.to_json() for outcome in judged[name]],
        }
        for name, path in named.items()
    }
    (_, first), *others = judged.items()
    tests = {name: sign_tests(first, outcomes) for name, outcomes in others}
    references = [item.candidates[item.correct][-1] for item in items]
    result = {"items": str(args.items), "left_out": [item.id for item in odd]}
    result |= {"systems": systems, "significance": tests}
    shown = dict(systems)
    if all(references):
        result["reference"] = shown["(reference)"] = suite_report(
            judge(items, list(map(last, references)))
        )
    write_json(args.output, result | provenance(args.command_line))
    print(accuracy_table(shown, tests))
    if odd:
        names = ", ".join(f"{item.id} ({item.expected!r})" for item in odd)
        print(f"note: {len(odd)} items without an expected word were left out: {names}")
    print(f"\nresults: {args.output}")
