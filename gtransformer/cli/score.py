"""Score translations: s-BLEU, d-BLEU per document and per instance, with sacrebleu's signatures.

``python -m gtransformer.cli.score PREPARED --split test --hypotheses PREFIX.jsonl`` prints one table, writes the scores
as JSON and the translation as plain text (one sentence a line, documents opened by ``<d>``) beside the hypotheses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.errors import cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import REFERENCES, Evaluation, score_translations
from gtransformer.files import atomic_write, write_json

NAMES = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "d_bleu_instance": "d-BLEU per instance"}
UNITS = {"s_bleu": "sentences", "d_bleu": "documents", "d_bleu_instance": "instances"}


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="gtransformer.cli.score", description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path, help="prepared corpus (made by scripts/prepare.sh)")
    parser.add_argument(
        "--split", default="test", help="which split was translated: train, valid or test (%(default)s)"
    )
    parser.add_argument(
        "--hypotheses", type=Path, required=True, metavar="PREFIX.jsonl", help="the translations to score"
    )
    parser.add_argument(
        "--reference",
        choices=[*REFERENCES, "both"],
        default="raw",
        help="raw: detokenised translation against the untouched text; paper: tokenised, truecased translation against "
        "text preprocessed likewise, as in the paper's tables; both: one after the other (%(default)s)",
    )
    parser.add_argument(
        "--paper", action="store_const", const="paper", dest="reference", help="short for --reference paper"
    )
    parser.add_argument(
        "--tokenize", help="sacrebleu's tokeniser for the raw reference (by target language, mostly 13a)"
    )
    parser.add_argument(
        "--moses", metavar="DIR", help="detokenise with this Moses' scripts (default: the variable MOSES)"
    )
    parser.add_argument("--output", type=Path, help="where to write the JSON (PREFIX.scores.json)")
    parser.add_argument("--text", type=Path, help="where to write the plain-text translation (PREFIX.txt)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    references = REFERENCES if args.reference == "both" else (args.reference,)
    evaluation = score_translations(args.prepared, args.split, args.hypotheses, references, args.tokenize, args.moses)
    prefix = str(args.hypotheses).removesuffix(".jsonl")
    text = args.text or Path(f"{prefix}.txt")
    output = args.output or Path(f"{prefix}.scores.json")
    # Against the paper's reference only, the text is the tokenised one: that is what was scored.
    write_corpus(text, evaluation.scores[references[0]].documents)
    write_json(output, evaluation.to_json() | {"text": str(text)} | provenance("gtransformer.cli.score", argv))
    print(table(evaluation))
    print(f"\nscores: {output}\ntranslation: {text}")


def write_corpus(path: Path, documents: list[list[str]]) -> None:
    """Write documents of sentences in the raw corpus format."""
    with atomic_write(path) as stream:
        for document in documents:
            stream.write("<d>\n")
            stream.writelines(f"{sentence}\n" for sentence in document)


def table(evaluation: Evaluation) -> str:
    """The scores as a table of plain text, then what a reader must know to read them."""
    rows = [("reference", "score", "", "segments", "signature")]
    for reference, scores in evaluation.scores.items():
        for key, name in NAMES.items():
            bleu = getattr(scores, key)
            rows.append((reference, name, f"{bleu.score:.2f}", f"{bleu.segments} {UNITS[key]}", bleu.signature))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if i == 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    counts = evaluation.counts
    if counts["misaligned_instances"]:
        lines.append(
            f"note: {counts['misaligned_instances']} of {counts['instances']} instances were translated into another "
            "number of sentences than they have; for s-BLEU these were aligned by order (missing: empty, surplus: "
            "joined to the last), d-BLEU is unaffected"
        )
    if counts["left_out_sentences"]:
        lines.append(
            f"note: {counts['left_out_sentences']} sentences are in no instance and were left out of all scores"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
