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

from gtransformer.cli.parser import CommandParser
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.comet import DEFAULT_MODEL
from gtransformer.evaluation.metrics import COUNTED, DEFAULT_METRICS
from gtransformer.evaluation.prepared_split import find_instance_index, read_side
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.realignment import ALIGNMENTS, ORDER
from gtransformer.evaluation.references import REFERENCES, TOGETHER
from gtransformer.evaluation.score import (
    BREAKDOWNS,
    compare_systems,
    name_systems,
    read_aligned,
    score_systems,
    score_text,
    score_translations,
)
from gtransformer.evaluation.score_table import breakdown_tables, table
from gtransformer.evaluation.significance import DOCUMENTS, SENTENCES, TESTS
from gtransformer.files import check_output, write_json
from gtransformer.preprocess.manifest import check_translated
from gtransformer.preprocess.plain_text import Documents

PAPER = "paper"  # on the command line: alias of release, the score of the paper's tables


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer score", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, nargs="?", help="prepared corpus (made by gtransformer prepare)")
    add("--split", default="test", help="which split was translated: train, valid or test (%(default)s)")
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
        choices=[*REFERENCES, PAPER, "both"],
        default="raw",
        help="; ".join(f"{name}: {what}" for name, what in REFERENCES.items())
        + "; paper: another name of release; both: raw and release (%(default)s)",
    )
    add("--paper", action="store_const", const="release", dest="reference", help="short for --reference release")
    add(
        "--reference-file",
        type=Path,
        metavar="FILE",
        help="instead of PREPARED: the reference as plain text (documents start with <d> or follow a blank line)",
    )
    add("--source-file", type=Path, metavar="FILE", help="with --reference-file: the source, for COMET and --html")
    add(
        "--metrics",
        nargs="+",
        choices=COUNTED,
        default=list(DEFAULT_METRICS),
        help=f"which scores; bleu-lc: s-BLEU and d-BLEU of lower-cased text (default: {' '.join(DEFAULT_METRICS)})",
    )
    add(
        "--align",
        choices=ALIGNMENTS,
        default=ORDER,
        help="for another number of sentences than in the source: order: missing ones are empty, surplus ones "
        "joined to the last; mwer: documents are cut again with minimal word edit distance (%(default)s)",
    )
    add("--comet", action="store_true", help="also compute COMET (raw reference; pip install '.[comet]')")
    add(
        "--comet-context",
        type=int,
        default=0,
        metavar="N",
        help="with --comet: each sentence with N previous ones (Vernikos et al. 2022: 2); only the last one is pooled",
    )
    add("--comet-model", default=DEFAULT_MODEL, help="name or .ckpt file (%(default)s)")
    add("--by", nargs="+", choices=list(BREAKDOWNS), default=[], help="scores by document, by position in the document")
    add(
        "--test",
        nargs="+",
        choices=TESTS,
        default=[],
        help="significance of the difference to the first system, two-sided, with its 95 %% interval: documents: a "
        "permutation test that exchanges whole documents; sentences: the same with sentences, for text without "
        "documents; sign (Collins et al. 2005, as in the paper); seed: the variable SACREBLEU_SEED",
    )
    add("--samples", type=int, help="exchanges to draw if there are too many for an exact test (10000)")
    add(
        "--tokenize",
        help="sacrebleu's tokeniser for the raw reference (default: by target language or script, mostly 13a)",
    )
    add("--moses", metavar="DIR", help="detokenise for the raw reference with this Moses' scripts (variable MOSES)")
    add("--output", type=Path, help="where to write the JSON (PREFIX.scores.json; comparison.json for several systems)")
    add("--text", type=Path, help="where to write the plain-text translation (PREFIX.txt)")
    add("--html", type=Path, metavar="FILE", help="also write an HTML page with the translations side by side")
    add(
        "--items",
        type=Path,
        metavar="FILE",
        help="with --html: contrastive items of the split (contrastive.json of the demo), to mark their words",
    )
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    check_arguments(args)
    named = name_systems(args.hypotheses)
    options = {"tokenizer": args.tokenize, "alignment": args.align}
    if args.prepared:
        references = TOGETHER if args.reference == "both" else (args.reference,)
        score = partial(
            score_translations, args.prepared, args.split, references=references, moses=args.moses, **options
        )
        for _, path in named:
            check_translated(path, args.prepared, args.split)
    else:
        score = partial(score_text, args.reference_file, **options)
    sources = partial(source_documents, args)
    if args.html:  # report mistakes before scoring
        from gtransformer.lab.report.pages.compare import (
            read_split_items,
            write_comparison,
        )  # the only import from the lab

        check_output(args.html)
        items = read_split_items(args.items, args.split if args.prepared else None) if args.items else []
        shown = sources() if args.prepared or args.source_file else None
    comet = args.comet_model if args.comet else None
    systems = score_systems(named, score, args.metrics, comet, args.comet_context, sources)
    tests = compare_systems(systems, args.test, args.samples)
    first, several = systems[0], len(systems) > 1
    own_name = f"{first.hypotheses.name.removesuffix('.jsonl')}.scores.json"
    output = args.output or first.hypotheses.with_name("comparison.json" if several else own_name)
    written = [system.text for system in systems if system.write_text(args.text)]
    results = {system.name: system.to_json(args.by) for system in systems}
    if several:
        result = {"version": 2, "baseline": first.name, "systems": results, "significance": tests}
    else:
        result = results[first.name]
    write_json(output, result | provenance("score", argv))
    if args.html:
        name = args.reference_file.name if args.reference_file else "/".join(args.prepared.resolve().parts[-2:])
        title = f"Translations of {name}{f', {args.split}' if args.prepared else ''}"
        write_comparison(args.html, systems, shown, items, title)
    print(table(systems, tests))
    for part in breakdown_tables(results, args.by):
        print(f"\n{part}")
    print(f"\nscores: {output}")
    for text in written:
        print(f"translation: {text}")
    if args.html:
        print(f"page: {args.html}")


def source_documents(args: argparse.Namespace) -> Documents:
    """Return the source text of the scored translations."""
    if args.prepared:
        instance_index = InstanceIndex.load(find_instance_index(args.prepared, args.split))
        return read_side(args.prepared, instance_index, instance_index.source_lang)
    _, _, (source,) = read_aligned(args.reference_file, [args.source_file])
    return source


def check_arguments(args: argparse.Namespace) -> None:
    """Move a directory given after the hypotheses to its option, and replace ``paper`` by ``release``.

    Raises UserError for options that cannot be combined.
    """
    if args.reference == PAPER:
        args.reference = "release"
    if args.prepared is None and args.reference_file is None and len(args.hypotheses) > 1:
        if Path(args.hypotheses[-1]).is_dir():
            args.prepared = Path(args.hypotheses.pop())
    raw, several = args.reference in ("raw", "both"), len(args.hypotheses) > 1
    for wrong, said in (
        (
            (args.prepared is None) == (args.reference_file is None),
            "give either a prepared corpus or --reference-file to score against",
        ),
        (args.reference_file and args.reference != "raw", "--reference and --paper need a prepared corpus"),
        (args.comet and not raw, "COMET reads plain text; score against the raw reference"),
        (
            args.comet_context < 0 or (args.comet_context and not args.comet),
            "--comet-context: give 1 or more, and --comet",
        ),
        (args.comet and args.reference_file and not args.source_file, "COMET needs the source; give --source-file"),
        (args.test and not several, "--test compares systems; give another file after --hypotheses"),
        (args.text and several, "--text names one file; leave it out for several systems"),
        (args.items and not args.html, "--items marks words on a page; name its file with --html"),
        (args.html and not raw, "--html shows untouched text; use the raw reference, or both"),
        (args.samples is not None and args.samples < 1, f"--samples {args.samples}: give 1 or more"),
        (
            args.samples is not None and not {DOCUMENTS, SENTENCES}.intersection(args.test),
            "--samples is for --test documents or sentences; leave it out without them",
        ),
    ):
        if wrong:
            raise UserError(said)


if __name__ == "__main__":
    raise SystemExit(main())
