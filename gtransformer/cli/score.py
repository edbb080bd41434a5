"""Score translations: s-BLEU, d-BLEU per document and per instance, chrF and TER, with sacrebleu's signatures.

``gtransformer score PREPARED --split test --hypotheses PREFIX.jsonl`` prints one table, and writes next to the
hypotheses the scores as JSON and the translation as plain text (one sentence per line, documents start with ``<d>``).
Several systems are compared; the first is the baseline of ``--test``. A system may be plain text, too. With
``--reference-file`` no prepared corpus is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.comet import COMET, DEFAULT_MODELS, LEARNED, SLIDE, LearnedMetrics, parse_models
from gtransformer.evaluation.metrics import COLUMNS, COUNTED, DEFAULT_METRICS
from gtransformer.evaluation.prepared_split import corpus_files, find_instance_index, read_side
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.realignment import ALIGNMENTS, MWER, ORDER, Alignment
from gtransformer.evaluation.reference_texts import GivenText, References, read_references, read_test_set
from gtransformer.evaluation.references import REFERENCES, TOGETHER
from gtransformer.evaluation.score import (
    BREAKDOWNS,
    compare_systems,
    is_generated,
    name_systems,
    score_systems,
    score_text,
    score_translations,
)
from gtransformer.evaluation.score_table import breakdown_tables, table
from gtransformer.evaluation.significance import DOCUMENTS, SENTENCES, TESTS, allowed
from gtransformer.files import check_outputs, write_json
from gtransformer.preprocess.formats.documents import SOURCE, Side
from gtransformer.preprocess.formats.wmt import layout_files
from gtransformer.preprocess.manifest import check_translated
from gtransformer.preprocess.plain_text import Documents, read_shaped


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer score", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, nargs="?", help="prepared corpus (made by gtransformer prepare)")
    add("--split", help="which split of PREPARED was translated: train, valid or test (test)")
    add(
        "--hypotheses",
        nargs="+",
        default=[],
        metavar="[NAME=]FILE",
        help="the translations to score, one file per system: PREFIX.jsonl as generation writes it, or plain text, one "
        "sentence per line, or another format; the first is the baseline",
    )
    add(
        "--reference",
        choices=[*REFERENCES, "both"],
        default="raw",
        help="; ".join(f"{name}: {what}" for name, what in REFERENCES.items())
        + "; both: raw and release (%(default)s)",
    )
    add("--paper", action="store_const", const="release", dest="reference", help="short for --reference release")
    add(
        "--reference-file",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="instead of PREPARED: one or several references as plain text (documents start with <d> or follow a blank "
        "line), or in another format that names documents",
    )
    add(
        "--test-set",
        type=Path,
        metavar="PATH",
        help="instead of PREPARED: sources, references and outputs of systems in WMT's folder or XML",
    )
    add("--langs", metavar="SOURCE-TARGET", help="of --test-set: the language pair, as en-de")
    add("--references", nargs="+", metavar="NAME", help="of --test-set: which references (default: all)")
    add("--systems", nargs="+", metavar="NAME", help="of --test-set: which systems (default: all)")
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
    add(
        "--align-pieces",
        type=Path,
        metavar="MODEL",
        help="with --align mwer, for languages without blanks: a SentencePiece model, whose pieces are the words "
        "(default: characters)",
    )
    add(
        "--comet",
        nargs="*",
        choices=LEARNED,
        metavar="METRIC",
        help=f"also compute learned metrics (raw reference): {', '.join(LEARNED)} (without a name: {COMET}); needs "
        "--comet-python",
    )
    add("--comet-python", metavar="PATH", help="the Python of an environment that has unbabel-comet")
    add(
        "--comet-context",
        type=int,
        default=0,
        metavar="N",
        help="with --comet: each sentence with N previous ones (Vernikos et al. 2022: 2); not for slide",
    )
    models = ", ".join(f"{metric}={model}" for metric, model in DEFAULT_MODELS.items())
    add("--comet-model", nargs="+", default=[], metavar="[METRIC=]MODEL", help=f"names or .ckpt files ({models})")
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
    add(
        "--output",
        type=Path,
        help="where to write the JSON (PREFIX.scores.json; comparison.json for several systems; of --test-set: "
        "NAME.LANGS.json in this folder)",
    )
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
    named: list[tuple[str, Path | GivenText]] = list(name_systems(args.hypotheses))
    options = {"tokenizer": args.tokenize, "alignment": Alignment(args.align, args.align_pieces)}
    if args.prepared:
        references = TOGETHER if args.reference == "both" else (args.reference,)
        score = partial(
            score_translations, args.prepared, args.split, references=references, **options
        )
        for _, path in named:
            check_translated(path, args.prepared, args.split)
    else:
        references, others = read_text_references(args)
        score = partial(score_text, references, **options)
        double = next((name for name, _ in others if name in dict(named)), None)
        if double is not None:
            raise UserError(f"{args.test_set}: has a system {double!r}, too; name yours --hypotheses NAME=FILE")
        named += others
        if not named:
            raise UserError(f"{args.test_set}: has no outputs of systems; give translations with --hypotheses")
    sources = partial(source_documents, args, None if args.prepared else references)
    output = output_path(args, named)
    check_results(args, named, output)
    learned = None
    if args.comet is not None:
        metrics = list(dict.fromkeys(args.comet or [COMET]))
        models, kept = parse_models(args.comet_model, metrics), output.with_name(f"{output.name}.part")
        learned = LearnedMetrics(args.comet_python, models, kept, args.comet_context)
    if args.html:  # report mistakes before scoring
        from gtransformer.lab.report.pages.compare import (
            read_split_items,
            write_comparison,
        )  # the only import from the lab

        items = read_split_items(args.items, args.split if args.prepared else None) if args.items else []
        shown = sources() if args.prepared or args.source_file or args.test_set else None
    systems = score_systems(named, score, args.metrics, learned, sources)
    tests = compare_systems(systems, args.test, args.samples)
    first, several = systems[0], len(systems) > 1
    written = [system.text for system in systems if system.write_text(args.text)]
    results = {system.name: system.to_json(args.by) for system in systems}
    if several:
        result = {"version": 2, "baseline": first.name, "systems": results, "significance": tests}
    else:
        result = results[first.name]
    write_json(output, result | provenance("score", argv))
    if learned is not None:
        learned.finish()
    if args.html:
        given = args.test_set or (args.reference_file or [None])[0]
        name = given.name if given else "/".join(args.prepared.resolve().parts[-2:])
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


def check_results(args: argparse.Namespace, named: Sequence[tuple[str, Path | GivenText]], output: Path) -> None:
    """Raise UserError if a result cannot be written, or would replace a file that is read."""
    files = [path for _, path in named if isinstance(path, Path)]
    texts = [args.text] if args.text else []
    texts += [path.with_suffix(".txt") for path in files if args.prepared and not args.text and is_generated(path)]
    read = [*files, *(args.reference_file or ()), args.source_file, args.items, args.align_pieces, args.test_set]
    read += corpus_files(args.prepared) if args.prepared else []
    if args.test_set and args.test_set.is_dir():
        sides, ids = layout_files(args.test_set, args.langs)
        read += [*sides.values(), ids]
    check_outputs([output, *texts, *filter(None, [args.html])], read)


def output_path(args: argparse.Namespace, named: Sequence[tuple[str, Path | GivenText]]) -> Path:
    """Return where to write the JSON."""
    if args.output or args.test_set:  # in the current folder; the test set's own is somebody else's
        output = args.output or Path(f"{args.test_set.resolve().name}.{args.langs}.json")
    else:
        first = Path(named[0][1])
        own = f"{first.name.removesuffix('.jsonl')}.scores.json"
        output = first.with_name("comparison.json" if len(named) > 1 else own)
    return output


def read_text_references(args: argparse.Namespace) -> tuple[References, list[tuple[str, GivenText]]]:
    """Return references without a prepared corpus, and the outputs of systems that a test set has."""
    if args.reference_file:
        return read_references(args.reference_file), []
    langs = args.langs.split("-")
    if len(langs) != 2 or not all(langs):
        raise UserError(f"--langs {args.langs}: give source and target, as en-de")
    return read_test_set(args.test_set, (langs[0], langs[1]), args.references or (), args.systems)


def source_documents(args: argparse.Namespace, references: References | None) -> Documents:
    """Return the source text of the scored translations."""
    if references is None:
        instance_index = InstanceIndex.load(find_instance_index(args.prepared, args.split))
        return read_side(args.prepared, instance_index, instance_index.source_lang)
    if references.source is not None:
        return references.source
    shape = [len(document) for document in references.texts[0]]
    return read_shaped(args.source_file, shape, references.path, Side(SOURCE))


def check_arguments(args: argparse.Namespace) -> None:
    """Take a directory after the hypotheses for the corpus. Raise UserError for options that cannot be combined."""
    given = args.prepared, args.reference_file, args.test_set
    if given == (None, None, None) and len(args.hypotheses) > 1:
        if Path(args.hypotheses[-1]).is_dir():
            args.prepared = Path(args.hypotheses.pop())
        given = args.prepared, None, None
    comet = args.comet is not None
    raw, several = args.reference in ("raw", "both"), len(args.hypotheses) > 1 or bool(args.test_set)
    for wrong, said in (
        (
            sum(one is not None for one in given) != 1,
            "give either a prepared corpus or --reference-file or --test-set to score against",
        ),
        (not args.hypotheses and not args.test_set, "give the translations to score with --hypotheses"),
        (args.test_set and not args.langs, "--test-set may have several language pairs; give one with --langs"),
        (
            not args.test_set and (args.langs or args.references or args.systems),
            "--langs, --references and --systems are for --test-set",
        ),
        (args.test_set and args.source_file, "--test-set has the source; leave out --source-file"),
        (args.align_pieces and args.align != MWER, "--align-pieces is for --align mwer; add it"),
        (args.prepared is None and args.reference != "raw", "--reference needs a prepared corpus, as does --paper"),
        (comet and not raw, "COMET reads plain text; score against the raw reference"),
        (
            args.comet_context < 0 or (args.comet_context and (not comet or args.comet == [SLIDE])),
            "--comet-context: give 1 or more, and --comet with another metric than slide",
        ),
        (comet and not args.comet_python, "--comet: name the Python that has unbabel-comet with --comet-python"),
        (
            not comet and (args.comet_python or args.comet_model),
            "--comet-python and --comet-model are for --comet; add it, or leave them out",
        ),
        (comet and args.reference_file and not args.source_file, "COMET needs the source; give --source-file"),
        (args.test and not several, "--test compares systems; give another file after --hypotheses"),
        (args.text and several, "--text names one file; leave it out for several systems"),
        (args.prepared and args.source_file, "the prepared corpus has the source; leave --source-file out"),
        (
            args.source_file and not comet and not args.html,
            "--source-file is read for --comet and --html; leave it out without them",
        ),
        (not args.prepared and args.split is not None, "--split is for a prepared corpus; leave it out"),
        (args.tokenize and not raw, "--tokenize is for the raw reference; leave it out"),
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
    scores = [key for key, column in COLUMNS.items() if column.metric in args.metrics]
    for test in args.test:
        if not any(allowed(key, test) for key in scores):
            raise UserError(f"--test {test}: is not for {', '.join(args.metrics)}; leave it out")
    if args.prepared:
        args.split = args.split or "test"


if __name__ == "__main__":
    raise SystemExit(main())
