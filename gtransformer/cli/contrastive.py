"""Score contrastive translations with a trained model: does it prefer the right one in its context?

``python -m gtransformer.cli.contrastive PREPARED --path checkpoint_best.pt --items FILE --output result.json``; the
items are the demo corpus's, ContraPro or the sets of Voita et al., which is told from the file. The model is one of
this package's or fairseq's ``transformer``, trained on the prepared corpus.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tqdm import tqdm

from gtransformer.cli.contrastive_table import suite_table, table
from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.contrastive import read_items, report, score_items
from gtransformer.evaluation.instances import LAST, PLACED, Capacity, capacity_of, corpus_instances, usual_place
from gtransformer.evaluation.load_model import load_scorer, sentence_encoder
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.evaluation.suite_files import Suite, is_own_suite, read_suite
from gtransformer.evaluation.suites import DRAWN, score_examples
from gtransformer.evaluation.suites import report as suite_report
from gtransformer.files import check_output, sha256, write_json
from gtransformer.preprocess.encode import read_settings


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = CommandParser(prog="scripts/contrastive.sh", description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path, help="prepared corpus (made by scripts/prepare.sh)")
    parser.add_argument("--path", type=Path, required=True, metavar="CHECKPOINT", help="the trained model")
    parser.add_argument(
        "--items",
        type=Path,
        required=True,
        nargs="+",
        metavar="FILE",
        help="the demo's contrastive.json; contrapro.json or a directory with contrapro.text.{en,de}; or one or "
        "several files of Voita et al.",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    parser.add_argument(
        "--placed",
        choices=PLACED,
        help="items over a prepared corpus: where an item's sentence stands; instance: inside the instance that the "
        "model would have it in; last: the last of an instance of its own, behind as much context as the model takes "
        "(default: instance for models trained on instances as prepared or greedy, else last)",
    )
    parser.add_argument(
        "--context",
        "--context-left",
        type=int,
        metavar="N",
        help="ContraPro: at most so many sentences before the one in question (JSON: 1, text: all there are)",
    )
    parser.add_argument(
        "--context-right", type=int, default=0, metavar="N", help="ContraPro: and so many behind it (%(default)s)"
    )
    parser.add_argument(
        "--documents", type=Path, metavar="DIR", help="ContraPro's JSON: OpenSubtitles2018, DIR/ID.en and DIR/ID.de"
    )
    parser.add_argument(
        "--separator",
        metavar="SYMBOL",
        help="fairseq's translation task: what joined the sentences in training ('' for nothing; default: <s> and </s> "
        "around each, as in a prepared corpus)",
    )
    parser.add_argument(
        "--batch-sentences",
        type=int,
        metavar="N",
        help="models that read their batch: an item is the last of up to N consecutive sentences of its document, or "
        "of N items, drawn, where these hold their own context alone (ContraPro); 1: no global context (default: 16)",
    )
    parser.add_argument("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    parser.add_argument("--moses", metavar="DIR", help="Moses, if the corpus was prepared with it (default: as then)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    check_output(args.output)
    for name, value in (("--context", args.context), ("--context-right", args.context_right)):
        if value is not None and value < 0:
            raise UserError(f"{name} {value}: a number of sentences is expected, 0 or more")
    if args.batch_sentences is not None and args.batch_sentences < 1:
        raise UserError(f"--batch-sentences {args.batch_sentences}: give 1 or more")
    own = len(args.items) == 1 and is_own_suite(args.items[0])
    result = score_own(args) if own else score_suite(args)
    head = {"version": 1, "checkpoint": str(args.path), "checkpoint_sha256": sha256(args.path)}
    result = head | result
    write_json(args.output, result | provenance("gtransformer.cli.contrastive", argv))
    print(table(result) if own else suite_table(result))
    print(f"\nresults: {args.output}")


def progress(batches: list) -> tqdm:
    """A progress bar on stderr."""
    return tqdm(batches, desc="contrastive items", unit="batch", file=sys.stderr, mininterval=1.0)


def load(args: argparse.Namespace) -> tuple[SentenceScorer, object]:
    """The scorer of the model, and its task."""
    return load_scorer(args.prepared, args.path, args.max_tokens, args.cpu, args.separator, args.batch_sentences)


def batch_of(scorer: SentenceScorer) -> dict[str, int]:
    """What the result says of a scorer of batches."""
    return {"batch_sentences": scorer.together} if scorer.in_batches else {}


def score_own(args: argparse.Namespace) -> dict:
    """The report on a contrastive set over a prepared corpus, each item in the context that the model would have."""
    if args.context is not None or args.context_right or args.documents is not None:
        raise UserError(
            f"{args.items[0]}: --context, --context-right and --documents are for ContraPro; leave them out"
        )
    split, items = read_items(args.items[0])
    scorer, task = load(args)
    placed = args.placed or usual_place(task)
    instances = corpus_instances(
        task, args.prepared, split, capacity_of(task, args.prepared) if placed == LAST else None
    )
    encode = sentence_encoder(args.prepared, task.cfg.target_lang, scorer.target, args.moses)
    began = time.monotonic()
    scores = score_items(scorer, items, instances.places, instances.read, encode, progress)
    seconds = round(time.monotonic() - began, 2)
    head = {"split": split, "placed": placed, **batch_of(scorer)}
    return {**head, **report(scores), "seconds": seconds, "items": [score.to_json() for score in scores]}


def score_suite(args: argparse.Namespace) -> dict:
    """The report on a published suite."""
    if args.placed is not None:
        raise UserError(f"--placed {args.placed} is for items over a prepared corpus; leave it out")
    suite = read_suite(args.items, args.context, args.documents, args.context_right)
    pair = corpus_languages(args.prepared, suite)
    scorer, task = load(args)
    encoders = [
        sentence_encoder(args.prepared, lang, dictionary, args.moses, suite.tokenised)
        for lang, dictionary in zip(pair, (scorer.source, scorer.target), strict=True)
    ]
    began = time.monotonic()
    # How many sentences a separator joined in training is not known: nothing is cut.
    capacity = capacity_of(task, args.prepared) if args.separator is None else Capacity()
    scores = score_examples(scorer, suite.examples, *encoders, progress, capacity)
    seconds = round(time.monotonic() - began, 2)
    drawn = scorer.together > 1 and not all(example.whole for example in suite.examples)
    before, behind = (sum(side) / len(scores) for side in zip(*(score.context for score in scores), strict=True))
    return {
        "suite": suite.name,
        "files": [str(path) for path in args.items],
        **batch_of(scorer),
        **({"batch_mates": DRAWN} if drawn else {}),
        "mean_context_sentences": before,
        "mean_context_sentences_right": behind,
        **suite_report(scores),
        "seconds": seconds,
        "items": [score.to_json() for score in scores],
    }


def corpus_languages(prepared: Path, suite: Suite) -> tuple[str, str]:
    """The suite's languages as the corpus calls them (mBART's have a country: de_DE).

    Raises UserError if the corpus is of another pair.
    """
    settings = read_settings(prepared)
    pair = settings["source_lang"], settings["target_lang"]
    if tuple(lang.partition("_")[0] for lang in pair) != suite.langs:
        raise UserError(f"{prepared}: prepared for {'-'.join(pair)}, but {suite.name} is {'-'.join(suite.langs)}")
    return pair


if __name__ == "__main__":
    raise SystemExit(main())
