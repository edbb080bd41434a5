"""CXMI of a model: how much its context raises the probability of the reference (Fernandes et al. 2021).

``gtransformer lab cxmi PREPARED --path checkpoint_best.pt --output cxmi.json`` scores every sentence of a split with 0,
1, 2, 3 and all previous sentences that the model takes. The model is one of this package or fairseq's ``transformer``,
trained on the prepared corpus.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.evaluation.text_table import align
from gtransformer.files import atomic_write, check_output, sha256, write_json
from gtransformer.preprocess.chain import SENTENCEPIECE_FILE
from gtransformer.provenance import provenance


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab cxmi", description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path, help="prepared corpus (made by gtransformer prepare)")
    parser.add_argument("--path", type=Path, required=True, metavar="CHECKPOINT", help="the trained model")
    parser.add_argument("--split", default="test", help="split of the references: train, valid or test (%(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    parser.add_argument(
        "--context",
        type=int,
        nargs="+",
        default=[1, 2, 3],
        metavar="N",
        help="numbers of previous sentences, in addition to none and all that the model takes (default: 1 2 3)",
    )
    parser.add_argument("--words", type=Path, metavar="JSONL", help="P-CXMI of every word, a line per sentence")
    parser.add_argument(
        "--batch-sentences", type=int, metavar="N", help="models that read their batch: at most N (default: 16)"
    )
    parser.add_argument("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)

    from gtransformer.evaluation.instances import capacity_of
    from gtransformer.lab.analysis.cxmi import (
        ALL_CONTEXT,
        BOTH_SIDES,
        SOURCE_SIDE,
        by_word,
        context_name,
        most_helped,
        report,
        score_contexts,
    )
    from gtransformer.lab.items.batch_scores import BatchScorer, load_item_scorer
    from gtransformer.lab.items.split_instances import corpus_instances
    from gtransformer.tasks.options import BATCH

    for output in filter(None, (args.output, args.words)):
        check_output(output, [args.path])
    for name, values in (("--context", args.context), ("--batch-sentences", [args.batch_sentences or 1])):
        if min(values) < 1:
            raise UserError(f"{name} {min(values)}: give 1 or more")
    find_instance_index(args.prepared, args.split)  # before the model is loaded
    contexts = [0, *sorted(set(args.context)), ALL_CONTEXT]
    scorer, task = load_item_scorer(args.prepared, args.path, args.max_tokens, args.cpu, args.batch_sentences or BATCH)
    in_batches = isinstance(scorer, BatchScorer)
    capacity = capacity_of(task.options.scheme, args.prepared)
    corpus = corpus_instances(task, args.prepared, args.split, capacity)
    began = time.monotonic()
    found = score_contexts(scorer, corpus, contexts, progress)
    seconds = round(time.monotonic() - began, 2)
    pieces = (args.prepared / SENTENCEPIECE_FILE).is_file()
    rows = list(by_word(found, contexts, scorer.target.symbols, pieces))
    if args.words:
        with atomic_write(args.words) as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    result = {
        "version": 1,
        "checkpoint": str(args.path),
        "checkpoint_sha256": sha256(args.path),
        "split": args.split,
        **({"batch_sentences": scorer.together} if in_batches else {}),
        **report(
            found, contexts, SOURCE_SIDE if capacity.target_sentences == 1 and not in_batches else BOTH_SIDES
        ),
        "words": most_helped(rows, context_name(ALL_CONTEXT)),
        "seconds": seconds,
    }
    write_json(args.output, result | provenance("lab cxmi", argv))
    print(table(result))
    print(f"\nresults: {args.output}")


def progress(chunks: Iterable) -> tqdm:
    """Return a progress bar on stderr."""
    from gtransformer.lab.analysis.cxmi import CHUNK

    return tqdm(chunks, desc=f"{CHUNK} sentences", unit="chunk", file=sys.stderr, mininterval=1.0)


def table(result: dict) -> str:
    """Return a row per context, then the words that all context helps most."""
    from gtransformer.lab.analysis.cxmi import MIN_OCCURRENCES

    rows = [["context", "sentences of it", "log q per token", "CXMI", "standard error"]]
    for name, part in result["contexts"].items():
        error = "-" if part["standard_error"] is None else f"{part['standard_error']:.4f}"
        given = f"{part['mean_context_sentences']:.2f}"
        rows.append([name, given, f"{part['log_probability']:.4f}", f"{part['cxmi']:.4f}", error])
    lines = [align(rows, range(1, 5)), f"{result['tokens']} tokens of {result['sentences']} sentences; nats per token"]
    if result["words"]:
        shown = ", ".join(f"{one['word']} {one['p_cxmi']:+.3f}" for one in result["words"])
        lines.append(f"words with {MIN_OCCURRENCES} occurrences or more, by their gain from all context: {shown}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
