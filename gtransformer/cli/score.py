"""Score translations: s-BLEU, d-BLEU per document and per instance, chrF and TER, with sacrebleu's signatures.

``gtransformer score PREPARED --split test --hypotheses PREFIX.jsonl`` prints one table, and writes next to the
hypotheses the scores as JSON and the translation as plain text (one sentence per line, documents start with ``<d>``).
Several systems are compared; the first is the baseline of ``--test``. A system may be plain text, too. With
``--reference-file`` no prepared corpus is needed.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from sacrebleu.metrics import BLEU

from gtransformer.cli.parser import CommandParser
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.comet import COMMAND, comet_scores
from gtransformer.evaluation.metrics import COMET, DEFAULT_METRICS
from gtransformer.evaluation.prepared_split import find_instance_index, read_side
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.realignment import ALIGNMENTS, ORDER
from gtransformer.evaluation.references import REFERENCES
from gtransformer.evaluation.score import (
    compare_systems,
    name_systems,
    score_systems,
    score_text,
    score_translations,
)
from gtransformer.evaluation.score_table import table
from gtransformer.evaluation.significance import DOCUMENTS, UNITS
from gtransformer.files import check_output, write_json
from gtransformer.preprocess.plain_text import Documents, read_plain, read_shaped


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer score", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, nargs="?", help="prepared corpus (made by gtransformer prepare)")
    add("--split", default="test", help="which split of PREPARED was translated: train, valid or test (%(default)s)")
    add(
        "--hypotheses",
        nargs="+",
        required=True,
        metavar="[NAME=]FILE",
        help="the translations to score, one file per system: PREFIX.jsonl as generation writes it, or plain text, one "
        "sentence per line; the first is the baseline",
    )
    add(
        "--reference",
        choices=[*REFERENCES, "both"],
        default="raw",
        help="; ".join(f"{name}: {what}" for name, what in REFERENCES.items()) + " (%(default)s)",
    )
    add(
        "--reference-file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="instead of PREPARED: one or several references as plain text (documents start with <d> or follow a blank "
        "line)",
    )
    add("--source-file", type=Path, metavar="FILE", help="with --reference-file: the source, for COMET")
    add("--metrics", nargs="+", choices=DEFAULT_METRICS, default=DEFAULT_METRICS, help="which scores (default: all)")
    add(
        "--align",
        choices=ALIGNMENTS,
        default=ORDER,
        help="for another number of sentences than in the source: order: missing ones are empty, surplus ones "
        "joined to the last; mwer: documents are cut again with minimal word edit distance (%(default)s)",
    )
    add(
        "--comet",
        nargs="?",
        const=COMMAND,
        metavar="COMMAND",
        help=f"also compute COMET (raw reference) with unbabel-comet's command (default: {COMMAND})",
    )
    add(
        "--test",
        nargs="?",
        const=DOCUMENTS,
        choices=UNITS,
        help="significance of the difference to the first system, two-sided, with its 95 %% interval: a permutation "
        "test that exchanges whole documents (default) or, for text without documents, sentences",
    )
    add("--samples", type=int, help="exchanges to draw if there are too many for an exact test (10000)")
    add(
        "--tokenize",
        choices=sorted(BLEU.TOKENIZERS),
        help="sacrebleu's tokeniser for the raw reference (default: by target language or script, mostly 13a)",
    )
    add("--output", type=Path, help="where to write the JSON (PREFIX.scores.json; comparison.json for several systems)")
    add("--text", type=Path, help="where to write the plain-text translation of a single system (PREFIX.txt)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    if args.prepared is None and not args.reference_file and Path(args.hypotheses[-1]).is_dir():
        args.prepared = Path(args.hypotheses.pop())
    if (args.prepared is None) == (args.reference_file is None):
        raise UserError("give either a prepared corpus or --reference-file to score against")
    references = tuple(REFERENCES) if args.reference == "both" else (args.reference,)
    if args.comet and ("raw" not in references or (args.reference_file and not args.source_file)):
        raise UserError("COMET needs the raw reference and the source (with --reference-file also --source-file)")
    named = name_systems(args.hypotheses)
    if args.text and len(named) > 1:
        raise UserError("--text names one file; leave it out for several systems")
    options = {"tokenizer": args.tokenize, "metrics": tuple(args.metrics), "alignment": args.align}
    if args.prepared:
        score = partial(score_translations, args.prepared, args.split, references=references, **options)
    else:
        score = partial(score_text, args.reference_file, **options)
    first = next(iter(named.values()))
    name = "comparison.json" if len(named) > 1 else f"{first.name.removesuffix('.jsonl')}.scores.json"
    output = args.output or first.with_name(name)
    check_output(output, named.values())
    systems = score_systems(named, score)
    if args.comet:
        segments = [system.scores["raw"].segments for system in systems]
        for system, found in zip(systems, comet_scores(args.comet, segments, read_sources(args)), strict=True):
            system.scores["raw"].values[COMET] = found
    tests = compare_systems(systems, args.test, args.samples) if args.test else {}
    results = {system.name: system.to_json() for system in systems}
    if len(systems) > 1:
        result = {"baseline": systems[0].name, "systems": results, "significance": tests}
    else:
        result = results[systems[0].name]
    write_json(output, result | provenance("score", argv))
    print(table(systems, tests, args.test))
    print(f"\nscores: {output}")
    for system in systems:
        path = system.write_text(args.text)
        if path is not None:
            print(f"translation: {path}")


def read_sources(args: argparse.Namespace) -> Documents:
    """Return the source text of the scored translations."""
    if args.prepared:
        instance_index = InstanceIndex.load(find_instance_index(args.prepared, args.split))
        return read_side(args.prepared, instance_index, instance_index.source_lang)
    documents, _ = read_plain(args.reference_file[0])
    return read_shaped(args.source_file, [len(document) for document in documents], args.reference_file[0])


if __name__ == "__main__":
    raise SystemExit(main())
