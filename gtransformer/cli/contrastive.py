"""Score contrastive translations with a trained model: does it prefer the right one in its context?

``gtransformer contrastive PREPARED --path checkpoint_best.pt --items FILE --output result.json``; the items are the
demo corpus's, ContraPro or the sets of Voita et al.; the format is detected. The model is one of this package or
fairseq's ``transformer``, trained on the prepared corpus.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gtransformer.cli.parser import CommandParser
from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.prepared_split import LAST, PLACED
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.text_table import align, with_error
from gtransformer.files import check_output, sha256, write_json
from gtransformer.preprocess.chain import read_settings
from gtransformer.preprocess.parallel import progress

if TYPE_CHECKING:
    from gtransformer.evaluation.sentence_scores import SentenceScorer
    from gtransformer.evaluation.suite_files import Suite

with_progress = partial(progress, label="contrastive items", unit=" batches")


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer contrastive", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, help="prepared corpus (made by gtransformer prepare)")
    add("--path", type=Path, required=True, metavar="CHECKPOINT", help="the trained model")
    add(
        "--items",
        type=Path,
        required=True,
        nargs="+",
        metavar="FILE",
        help="the demo's contrastive.json; contrapro.json or a directory with contrapro.text.{en,de}; or one or "
        "several files of Voita et al.",
    )
    add("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    add(
        "--placed",
        choices=PLACED,
        help="items over a prepared corpus: position of an item's sentence; instance: inside the model's own "
        "instance; last: last in a separate instance, with as much previous context as the model takes "
        "(default: instance for models trained on stored or greedy instances, else last)",
    )
    add(
        "--context",
        "--context-left",
        type=int,
        metavar="N",
        help="ContraPro: at most N sentences before the scored one (default: JSON 1, text form all)",
    )
    add(
        "--context-right",
        type=int,
        default=0,
        metavar="N",
        help="ContraPro: at most N sentences behind it (%(default)s)",
    )
    add("--documents", type=Path, metavar="DIR", help="ContraPro's JSON: OpenSubtitles2018, DIR/ID.en and DIR/ID.de")
    add(
        "--separator",
        metavar="SYMBOL",
        help="fairseq's translation task: separator of sentences in training ('' for none; default: <s> and </s> "
        "around each, as in a prepared corpus)",
    )
    add(
        "--batch-sentences",
        type=int,
        metavar="N",
        help="models that read their batch: an item is the last of up to N consecutive sentences of its document, or "
        "of N drawn items if items have their own context (ContraPro); 1: no global context (default: 16)",
    )
    add("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    add("--moses", metavar="DIR", help="Moses, if the corpus was prepared with it (default: the same directory)")
    add("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)

    from gtransformer.evaluation.prepared_split import corpus_files
    from gtransformer.evaluation.suite_files import is_own_suite

    check_output(args.output, [*args.items, args.path, *corpus_files(args.prepared)])
    for name, value in (("--context", args.context), ("--context-right", args.context_right)):
        if value is not None and value < 0:
            raise UserError(f"{name} {value}: give a number of sentences, 0 or more")
    if args.batch_sentences is not None and args.batch_sentences < 1:
        raise UserError(f"--batch-sentences {args.batch_sentences}: give 1 or more")
    own = len(args.items) == 1 and is_own_suite(args.items[0])
    result = score_own(args) if own else score_suite(args)
    head = {"version": 1, "checkpoint": str(args.path), "checkpoint_sha256": sha256(args.path)}
    result = head | result
    write_json(args.output, result | provenance("contrastive", argv))
    print(item_table(result) if own else suite_table(result))
    if "tied" in result:
        print(
            f"note: {result['tied']} items have a wrong translation with the same tokens as the right one: not solved"
        )
    print(f"\nresults: {args.output}")


def batch_of(scorer: SentenceScorer) -> dict[str, int]:
    """Return the result's fields about a batch scorer."""
    return {"batch_sentences": scorer.together} if scorer.in_batches else {}


def score_own(args: argparse.Namespace) -> dict:
    """Return the report on a contrastive set over a prepared corpus, each item in the model's own context."""
    from gtransformer.evaluation.contrastive import read_items, report, score_items
    from gtransformer.evaluation.instances import capacity_of, corpus_instances, default_placement
    from gtransformer.evaluation.load_model import load_scorer, sentence_encoder

    if args.context is not None or args.context_right or args.documents is not None:
        raise UserError(
            f"{args.items[0]}: --context, --context-right and --documents are for ContraPro; leave them out"
        )
    split, items = read_items(args.items[0])
    scorer, task = load_scorer(
        args.prepared, args.path, args.max_tokens, args.cpu, args.separator, args.batch_sentences
    )
    placed = args.placed or default_placement(task)
    instances = corpus_instances(
        task, args.prepared, split, capacity_of(task, args.prepared) if placed == LAST else None
    )
    encode = sentence_encoder(args.prepared, task.cfg.target_lang, scorer.target, args.moses)
    began = time.monotonic()
    scores = score_items(scorer, items, instances.spans, instances.read, encode, with_progress)
    seconds = round(time.monotonic() - began, 2)
    head = {"split": split, "placed": placed, **batch_of(scorer)}
    return {**head, **report(scores), "seconds": seconds, "items": [score.to_json() for score in scores]}


def score_suite(args: argparse.Namespace) -> dict:
    """Return the report on a published suite."""
    from gtransformer.evaluation.instances import Capacity, capacity_of
    from gtransformer.evaluation.load_model import load_scorer, sentence_encoder
    from gtransformer.evaluation.suite_files import read_suite
    from gtransformer.evaluation.suites import DRAWN, score_examples
    from gtransformer.evaluation.suites import report as suite_report

    if args.placed is not None:
        raise UserError(f"--placed {args.placed} is for items over a prepared corpus; leave it out")
    suite = read_suite(args.items, args.context, args.documents, args.context_right)
    pair = corpus_languages(args.prepared, suite)
    scorer, task = load_scorer(
        args.prepared, args.path, args.max_tokens, args.cpu, args.separator, args.batch_sentences
    )
    encoders = [
        sentence_encoder(args.prepared, lang, dictionary, args.moses, suite.tokenised)
        for lang, dictionary in zip(pair, (scorer.source, scorer.target), strict=True)
    ]
    began = time.monotonic()
    # With a separator, the training's number of sentences is unknown, so the context is not cut.
    capacity = capacity_of(task, args.prepared) if args.separator is None else Capacity()
    scores = score_examples(scorer, suite.examples, *encoders, with_progress, capacity)
    seconds = round(time.monotonic() - began, 2)
    drawn = scorer.together > 1 and not all(example.whole for example in suite.examples)
    before, behind = (sum(side) / len(scores) for side in zip(*(score.context for score in scores), strict=True))
    return {
        "suite": suite.name,
        "files": [str(path) for path in args.items],
        **batch_of(scorer),
        **({"batch_mates": DRAWN} if drawn else {}),
        **({} if suite.unmatched is None else {"unmatched_segments": suite.unmatched}),
        "mean_context_sentences": before,
        "mean_context_sentences_right": behind,
        **suite_report(scores),
        "seconds": seconds,
        "items": [score.to_json() for score in scores],
    }


def corpus_languages(prepared: Path, suite: Suite) -> tuple[str, str]:
    """Return the corpus's names of the suite's languages (mBART's have a country: de_DE).

    Raises UserError if the corpus has another language pair.
    """
    settings = read_settings(prepared)
    pair = settings["source_lang"], settings["target_lang"]
    if tuple(map(plain_language, pair)) != suite.langs:
        raise UserError(f"{prepared}: prepared for {'-'.join(pair)}, but {suite.name} is {'-'.join(suite.langs)}")
    return pair


def item_table(result: dict) -> str:
    """Return a table of accuracy for a contrastive set over a prepared corpus, by phenomenon and distance."""
    if "by_distance_source" in result:
        lines = [_reach_table(result, side) for side in ("source", "target")]
        lines.append("(accuracy and standard error of items whose answer is disclosed N sentences back at the nearest)")
    else:
        lines = [_distance_table(result), "(at N: solved/items whose deciding sentence is N sentences back)"]
    if "context_in_batch" in result:
        lines.append(
            f"note: of {result['context_in_batch']} items only the other sentences of the batch disclose the answer"
        )
    if result["context_out_of_view"]:
        lines.append(
            f"note: of {result['context_out_of_view']} items nothing that the model reads discloses the answer"
        )
    return "\n".join(lines)


def _distance_table(result: dict) -> str:
    distances = list(result["by_distance"])
    rows = [["phenomenon", "all", "items", *(f"at {distance}" for distance in distances)]]
    parts = {**result["by_phenomenon"], "all": result["total"]}
    by_distance = {**result["by_phenomenon_and_distance"], "all": result["by_distance"]}
    for name, part in parts.items():
        cells = [by_distance[name].get(distance) for distance in distances]
        shown = [f"{cell['solved']}/{cell['items']}" if cell else "-" for cell in cells]
        rows.append([name, f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}", *shown])
    return align(rows, range(1, len(rows[0])))


def _reach_table(result: dict, side: str) -> str:
    """Return a table of accuracy by the distance on one side, and chance. Phenomena differ in chance, so there is no
    mean.
    """
    distances = list(result[f"by_distance_{side}"])
    rows = [[f"disclosed by {side}", "items", "chance", *(f"at {distance}" for distance in distances)]]
    for name, part in result["by_phenomenon"].items():
        cells = result[f"by_phenomenon_and_distance_{side}"][name]
        shown = [with_error(cells[distance]) if distance in cells else "-" for distance in distances]
        rows.append([name, str(part["items"]), f"{part['chance']:.1f}", *shown])
    return align(rows, range(1, len(rows[0]))) + "\n"


def suite_table(result: dict) -> str:
    """Return a table of a published suite's accuracy: in total, then a row for every group of every kind."""
    rows = [["by", "group", "accuracy", "solved"], ["", "all", *_cells(result["total"])]]
    for kind in ("phenomenon", "distance", "intrasegmental"):
        for name, part in result.get(f"by_{kind}", {}).items():
            rows.append([kind, name, *_cells(part)])
    if len(result.get("by_phenomenon", {})) > 1:
        for phenomenon, parts in result.get("by_phenomenon_and_distance", {}).items():
            rows += [[f"{phenomenon}, distance", name, *_cells(part)] for name, part in parts.items()]
    lines = [align(rows, range(2, 4))]
    if "by_distance" in result:
        lines.append("(distance: sentences back to the antecedent, or to the deciding context)")
    behind = result["mean_context_sentences_right"]
    more = f" before and {behind:.2f} behind it" if behind else ""
    lines.append(
        f"{result['suite']}, with {result['mean_context_sentences']:.2f} sentences of context{more} on average"
    )
    if result.get("unmatched_segments"):
        from gtransformer.evaluation.suite_files import UNMATCHED

        lines.append(UNMATCHED.format(result["unmatched_segments"]))
    return "\n".join(lines)


def _cells(part: dict) -> list[str]:
    return [f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}"]


if __name__ == "__main__":
    raise SystemExit(main())
