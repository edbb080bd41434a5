"""Score contrastive translations with a trained model: does it prefer the right one in its context?

``gtransformer contrastive PREPARED --path checkpoint_best.pt --items FILE --output result.json``; the items are
ContraPro or the sets of Voita et al.; the format is detected. The model was trained on the prepared corpus with the
task ``translation_doc``: one of this package or fairseq's ``transformer``.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.text_table import accuracy_table
from gtransformer.files import check_output, write_json
from gtransformer.preprocess.chain import read_settings


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
        help="contrapro.json or a directory with contrapro.text.{en,de}; or one or several files of Voita et al.",
    )
    add("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    add(
        "--context",
        type=int,
        metavar="N",
        help="ContraPro: at most N sentences before the scored one (default: JSON 1, text form all)",
    )
    add("--documents", type=Path, metavar="DIR", help="ContraPro's JSON: OpenSubtitles2018, DIR/ID.en and DIR/ID.de")
    add("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    add("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    check_output(args.output, args.items)
    result = score_suite(args)
    write_json(args.output, result | provenance("contrastive", argv))
    print(accuracy_table({result["suite"]: result}))
    print(f"{result['mean_context_sentences']:.2f} sentences of context on average")
    if "tied" in result:
        print(
            f"note: {result['tied']} items have a wrong translation with the same tokens as the right one: not solved"
        )
    if result["unmatched_segments"]:
        from gtransformer.evaluation.suite_files import UNMATCHED

        print(UNMATCHED.format(result["unmatched_segments"]))
    print(f"\nresults: {args.output}")


def score_suite(args: argparse.Namespace) -> dict:
    """Return the report on a published suite."""
    from tqdm import tqdm

    from gtransformer.evaluation.instances import capacity_of
    from gtransformer.evaluation.load_model import load_scorer, sentence_encoder
    from gtransformer.evaluation.suite_files import read_suite
    from gtransformer.evaluation.suites import report, score_examples

    suite = read_suite(args.items, args.context, args.documents)
    settings = read_settings(args.prepared)
    pair = settings["source_lang"], settings["target_lang"]
    if tuple(map(two_letters, pair)) != suite.langs:
        raise UserError(f"{args.prepared}: prepared for {'-'.join(pair)}, but {suite.name} is {'-'.join(suite.langs)}")
    scorer, task = load_scorer(args.prepared, args.path, args.max_tokens, args.cpu)
    encoders = [
        sentence_encoder(args.prepared, lang, dictionary, suite.tokenised)
        for lang, dictionary in zip(pair, (scorer.source, scorer.target), strict=True)
    ]
    progress = partial(tqdm, desc="contrastive items", unit=" batches")
    scores = score_examples(scorer, suite.examples, *encoders, progress, capacity_of(task, args.prepared))
    return {
        "checkpoint": str(args.path),
        "suite": suite.name,
        "files": [str(path) for path in args.items],
        "unmatched_segments": suite.unmatched,
        "mean_context_sentences": sum(score.context for score in scores) / len(scores),
        **report(scores),
        "items": [score.to_json() for score in scores],
    }


if __name__ == "__main__":
    raise SystemExit(main())
