"""Score contrastive translations with a trained model: does it prefer the right one in its context?

``gtransformer contrastive PREPARED --path checkpoint_best.pt --items FILE --output result.json``;
the items are ContraPro or the sets of Voita et al.; the format is detected. The model was trained
on the prepared corpus with the task ``translation_doc``: one of this package or fairseq's
``transformer``.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.evaluation.tables import accuracy_table
from gtransformer.files import check_output, write_json
from gtransformer.installation import provenance
from gtransformer.preprocess.chain import prepared_settings


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add("prepared", type=Path, help="prepared corpus")
    add("--path", type=Path, required=True, metavar="CHECKPOINT", help="trained model")
    items = "contrapro.json, a directory with contrapro.text.{en,de}, or files of Voita et al."
    add("--items", type=Path, required=True, nargs="+", metavar="FILE", help=items)
    add("--output", type=Path, required=True, metavar="JSON", help="file to write")
    parser.add_contrapro()
    tokens = "target tokens of a batch (default: %(default)s)"
    add("--max-tokens", type=int, default=4096, metavar="N", help=tokens)
    add("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()


def main(args: argparse.Namespace) -> None:
    """Score, print, write."""
    check_output(args.output, args.items)

    # Imported here, so that --help need not wait for PyTorch and fairseq.
    from tqdm import tqdm

    from gtransformer.evaluation.accuracy import suite_report
    from gtransformer.evaluation.contrastive import capacity_of, score_items
    from gtransformer.evaluation.sentence_scores import sentence_encoder
    from gtransformer.plugin.load_model import load_scorer
    from gtransformer.preprocess.suites import read_suite

    suite = read_suite(args.items, args.context, args.documents)
    settings = prepared_settings(args.prepared)
    pair = settings["source_lang"], settings["target_lang"]
    # Suites of ctxpro have no languages here, as they have no wrong translations to score.
    if tuple(map(two_letters, pair)) != suite.langs:
        known = "-".join(suite.langs) or "no language, but belongs to gtransformer generative"
        raise UserError(
            f"{args.prepared}: prepared for {'-'.join(pair)}; {suite.name} has wrong translations "
            f"for {known}"
        )
    scorer, task = load_scorer(args.prepared, args.path, args.max_tokens, args.cpu)
    encoders = [
        sentence_encoder(args.prepared, lang, dictionary, suite.tokenised)
        for lang, dictionary in zip(pair, (scorer.source, scorer.target), strict=True)
    ]
    progress = partial(tqdm, desc="contrastive items", unit=" batches")
    capacity = capacity_of(task.options.scheme, args.prepared)
    outcomes = score_items(scorer, suite.items, *encoders, progress, capacity)
    context = sum(outcome.detail["context"] for outcome in outcomes) / len(outcomes)
    result = {
        "checkpoint": str(args.path),
        "suite": suite.name,
        "files": [str(path) for path in args.items],
        "mean_context_sentences": context,
        **suite_report(outcomes),
        "items": [outcome.to_json() for outcome in outcomes],
    }
    write_json(args.output, result | provenance(args.command_line))
    print(accuracy_table({suite.name: result}, {}))
    print(f"{context:.2f} sentences of context on average\n\nresults: {args.output}")
