"""Accuracy on the contrastive items of the generated corpora: what a model prefers, or what a system wrote.

``gtransformer lab items PREPARED --items contrastive.json --output items.json`` with ``--path checkpoint_best.pt``
compares the probabilities of right and wrong translations, with ``--hypotheses test.jsonl`` it looks for the deciding
forms in a translation of the split.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import cli_main
from gtransformer.evaluation.prepared_split import find_instance_index, read_side
from gtransformer.evaluation.realignment import ALIGNMENTS, ORDER
from gtransformer.evaluation.score import score_translations
from gtransformer.evaluation.text_table import align, with_error
from gtransformer.files import write_json
from gtransformer.provenance import provenance


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer lab items", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("prepared", type=Path, help="prepared corpus (made by gtransformer prepare)")
    add("--items", type=Path, required=True, metavar="FILE", help="contrastive.json or contrastive_reach.json")
    add("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--path", type=Path, metavar="CHECKPOINT", help="the trained model")
    what.add_argument("--hypotheses", type=Path, metavar="FILE", help="a translation of the split")
    add(
        "--placed",
        choices=("instance", "last"),
        help="position of an item's sentence; instance: inside the model's own instance; last: last in a separate "
        "instance, with as much previous context as the model takes (default: instance for models trained on stored or "
        "greedy instances, else last)",
    )
    add(
        "--batch-sentences",
        type=int,
        metavar="N",
        default=16,
        help="models that read their batch: an item is the last of up to N consecutive sentences (%(default)s)",
    )
    add("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    add("--align", choices=ALIGNMENTS, default=ORDER, help="of a translation, as in the score command (%(default)s)")
    add("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    result = choices(args) if args.path else written(args)
    write_json(args.output, result | provenance("lab items", argv))
    print(table(result))
    print(f"\nresults: {args.output}")


def choices(args: argparse.Namespace) -> dict:
    """Return the report on a model's choices, each item in the model's own context."""
    from tqdm import tqdm

    from gtransformer.evaluation.instances import capacity_of
    from gtransformer.lab.items.batch_scores import load_item_scorer
    from gtransformer.lab.items.items import read_items, report, score_items
    from gtransformer.lab.items.split_instances import LAST, corpus_instances, default_placement
    from gtransformer.plugin.load_model import sentence_encoder

    split, items = read_items(args.items)
    scorer, task = load_item_scorer(args.prepared, args.path, args.max_tokens, args.cpu, args.batch_sentences)
    placed = args.placed or default_placement(task)
    capacity = capacity_of(task.options.scheme, args.prepared) if placed == LAST else None
    instances = corpus_instances(task, args.prepared, split, capacity)
    encode = sentence_encoder(args.prepared, task.cfg.target_lang, scorer.target)
    began = time.monotonic()
    progress = partial(tqdm, desc="contrastive items", unit=" batches")
    scores = score_items(scorer, items, instances.spans, instances.read, encode, progress)
    seconds = round(time.monotonic() - began, 2)
    shown = [score.to_json() for score in scores]
    return {"split": split, "placed": placed, **report(scores), "seconds": seconds, "items": shown}


def written(args: argparse.Namespace) -> dict:
    """Return the report on a translation of the items' split."""
    from gtransformer.lab.items.items import read_items
    from gtransformer.lab.items.written import judge, written_report

    split, items = read_items(args.items)
    instance_index = InstanceIndex.load(find_instance_index(args.prepared, split))
    references = read_side(args.prepared, instance_index, instance_index.target_lang)
    evaluation = score_translations(args.prepared, split, args.hypotheses, metrics=(), alignment=args.align)
    outcomes = judge(items, evaluation.scores["raw"].segments.text, references)
    return {"split": split, "counts": evaluation.counts, **written_report(items, outcomes)}


def table(result: dict) -> str:
    """Return a table of accuracy by phenomenon and distance; of sets that distinguish sides, one for each side."""
    sides = [key for key in ("distance_source", "distance_target") if f"by_{key}" in result] or ["distance"]
    tables = []
    for side in sides:
        distances = list(result[f"by_{side}"])
        rows = [[side.replace("_", ", "), "all", "items", *(f"at {distance}" for distance in distances)]]
        within = {**result[f"by_phenomenon_and_{side}"], "all": result[f"by_{side}"]}
        for name, part in {**result["by_phenomenon"], "all": result["total"]}.items():
            cells = [within[name].get(distance) for distance in distances]
            shown = [with_error(cell) if cell else "-" for cell in cells]
            rows.append([name, with_error(part), str(part["items"]), *shown])
        tables.append(align(rows))
    return "\n\n".join(tables)


if __name__ == "__main__":
    raise SystemExit(main())
