"""Score translations: s-BLEU, d-BLEU, chrF, TER and COMET, with sacrebleu's signatures.

``gtransformer score PREPARED --split test --hypotheses PREFIX.jsonl`` prints one table, and writes
next to the hypotheses the scores as JSON and the translation as plain text (one sentence a line,
documents start with ``<d>``). Several systems are compared; the first is the baseline of
``--test``. A system may be plain text, too. With ``--reference-file`` no prepared corpus is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import DEFAULT_METRICS
from gtransformer.evaluation.references import RAW, REFERENCES
from gtransformer.evaluation.score import (
    COMET_COMMAND,
    Evaluation,
    add_comet,
    compare_systems,
    name_systems,
    score_text,
    score_translations,
)
from gtransformer.evaluation.segments import ALIGNMENTS, ORDER
from gtransformer.evaluation.tables import page, score_table
from gtransformer.files import atomic_write, check_output, write_json
from gtransformer.installation import provenance


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    against = parser.add_mutually_exclusive_group(required=True).add_argument
    against("prepared", type=Path, nargs="?", help="prepared corpus")
    plain = "instead of a prepared corpus: reference as plain text"
    against("--reference-file", type=Path, metavar="FILE", help=plain)
    add("--split", default="test", help="train, valid or test (default: %(default)s)")
    systems = "a file for each system, the first is the baseline: PREFIX.jsonl or H-lines of "
    systems += "fairseq-generate, or plain text"
    add("--hypotheses", nargs="+", required=True, metavar="[NAME=]FILE", help=systems)
    kinds = "raw: score plain text; release: as the authors' release (default: %(default)s)"
    add("--reference", choices=[*REFERENCES, "both"], default="raw", help=kinds)
    add("--source-file", type=Path, metavar="FILE", help="source for COMET, with --reference-file")
    add("--metrics", nargs="+", choices=DEFAULT_METRICS, default=DEFAULT_METRICS, help="scores")
    alignment = "align documents of another number of sentences: by order, or by word edit distance"
    add("--align", choices=ALIGNMENTS, default=ORDER, help=alignment)
    comet = f"also compute COMET, with this command (default: {COMET_COMMAND})"
    add("--comet", nargs="?", const=COMET_COMMAND, metavar="COMMAND", help=comet)
    test = "test differences from the baseline over documents: p-value and 95 %% interval"
    add("--test", action="store_true", help=test)
    tokenizer = "sacrebleu's tokeniser for raw text (default: by language, mostly 13a)"
    add("--tokenize", choices=sorted(BLEU.TOKENIZERS), help=tokenizer)
    scores = "file for the scores (default: PREFIX.scores.json; of several systems comparison.json)"
    add("--output", type=Path, metavar="JSON", help=scores)
    add("--html", type=Path, metavar="FILE", help="write a page with two systems side by side")


def main(args: argparse.Namespace) -> None:
    """Score, print, write."""
    references = REFERENCES if args.reference == "both" else (args.reference,)
    if args.reference_file and args.reference != "raw":
        raise UserError(f"--reference {args.reference} needs a prepared corpus; leave it out")
    if args.comet and ("raw" not in references or (args.reference_file and not args.source_file)):
        raise UserError("COMET needs --reference raw, and with --reference-file --source-file")
    named = name_systems(args.hypotheses)
    several = len(named) > 1
    if (args.test and not several) or (args.html and len(named) != 2):
        raise UserError("--test compares systems, --html two of them; give them to --hypotheses")
    first, *_ = named.values()
    name = "comparison.json" if several else f"{first.name.removesuffix('.jsonl')}.scores.json"
    output = args.output or first.with_name(name)
    # Before anything is scored, as TER takes its time.
    for path in filter(None, (output, args.html)):
        check_output(path, [*named.values(), args.reference_file, args.source_file])
    systems = [score_file(path, args, references) for path in named.values()]
    for system, name in zip(systems, named, strict=True):
        system.name = name
    if args.comet:
        source = args.source_file or args.prepared / RAW / f"{args.split}.{systems[0].source_lang}"
        add_comet(args.comet, systems, source)
    tests = compare_systems(systems) if args.test else {}
    results = {system.name: system.to_json() for system in systems}
    result = {"baseline": systems[0].name, "systems": results, "significance": tests}
    write_json(
        output, (result if several else results[systems[0].name]) | provenance(args.command_line)
    )
    print(score_table(systems, tests))
    print(f"\nscores: {output}")
    if args.html:
        with atomic_write(args.html) as stream:
            stream.write(page(*systems))
        print(f"side by side: {args.html}")
    for system in systems:
        if path := system.write_text():
            print(f"translation: {path}")


def score_file(path: Path, args: argparse.Namespace, references: Sequence[str]) -> Evaluation:
    """Score the translation of one system."""
    print(f"| scoring {path}", file=sys.stderr)
    options = {"tokenizer": args.tokenize, "metrics": args.metrics, "alignment": args.align}
    if args.reference_file:
        return score_text(args.reference_file, path, **options)
    return score_translations(args.prepared, args.split, path, references, **options)
