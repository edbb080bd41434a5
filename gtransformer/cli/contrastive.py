"""Score the demo's contrastive items with a trained model: does it prefer the right translation in its document?

``python -m gtransformer.cli.contrastive PREPARED --path checkpoint_best.pt --items contrastive.json --output
result.json``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq.data import Dictionary
from tqdm import tqdm

from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.contrastive import ItemScores, read_items, report, score_items
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.score import find_sidecar
from gtransformer.evaluation.sentence_scores import Sentences, SentenceScorer
from gtransformer.files import read_json, read_lines, sha256, write_json
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.instances import split_instance
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.sidecar import Sidecar
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="gtransformer.cli.contrastive", description=__doc__.splitlines()[0])
    parser.add_argument("prepared", type=Path, help="prepared corpus (made by scripts/prepare.sh)")
    parser.add_argument("--path", type=Path, required=True, metavar="CHECKPOINT", help="the trained model")
    parser.add_argument("--items", type=Path, required=True, metavar="JSON", help="contrastive items")
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="where to write the results")
    parser.add_argument("--max-tokens", type=int, default=4096, help="target tokens per batch (%(default)s)")
    parser.add_argument("--moses", metavar="DIR", help="Moses, if the corpus was prepared with it (default: as then)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Score, print, write."""
    args = build_parser().parse_args(argv)
    split, items = read_items(args.items)
    sidecar = Sidecar.load(find_sidecar(args.prepared, split))
    scorer = load_scorer(args.prepared, args.path, sidecar, args.max_tokens, args.cpu)
    sources = read_instances(args.prepared, sidecar, sidecar.source_lang, scorer.source)
    targets = read_instances(args.prepared, sidecar, sidecar.target_lang, scorer.target)
    encode = sentence_encoder(args.prepared, sidecar.target_lang, scorer.target, args.moses)
    began = time.monotonic()

    def progress(batches: list) -> tqdm:
        return tqdm(batches, desc="contrastive items", unit="batch", file=sys.stderr, mininterval=1.0)

    scores = score_items(scorer, items, sidecar.instances, sources, targets, encode, progress)
    result = {
        "version": 1,
        "split": split,
        "checkpoint": str(args.path),
        "checkpoint_sha256": sha256(args.path),
        **report(scores),
        "seconds": round(time.monotonic() - began, 2),
        "items": [_item_json(score) for score in scores],
    }
    write_json(args.output, result | provenance("gtransformer.cli.contrastive", argv))
    print(table(result))
    print(f"\nresults: {args.output}")


def _item_json(score: ItemScores) -> dict:
    return {
        "id": score.item.id,
        "phenomenon": score.item.phenomenon,
        "detail": score.item.detail,
        "distance": score.item.distance,
        "correct": score.correct,
        "wrong": list(score.wrong),
        "solved": score.solved,
    }


def load_scorer(prepared: Path, checkpoint: Path, sidecar: Sidecar, max_tokens: int, cpu: bool) -> SentenceScorer:
    """The model of a checkpoint, ready to score translations of the prepared corpus; UserError if there is none."""
    import torch
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    if not checkpoint.is_file():
        raise UserError(f"{checkpoint}: no such file; train the model first")
    data = str(prepared / "bin")
    (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], arg_overrides={"data": data})
    if torch.cuda.is_available() and not cpu:
        model = model.cuda()
    return SentenceScorer(model, task.source_dictionary, task.target_dictionary, sidecar.target_lang, max_tokens)


def read_instances(prepared: Path, sidecar: Sidecar, lang: str, dictionary: Dictionary) -> list[Sentences]:
    """One side's instances as sentences of token indices; UserError if they are not those of the sidecar."""
    path = prepared / "instances" / f"{sidecar.split}.{lang}"
    instances = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            sentences = split_instance(line)
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        instances.append([[dictionary.index(word) for word in sentence.split()] for sentence in sentences])
    if [len(sentences) for sentences in instances] != [count for *_, count in sidecar.instances]:
        raise UserError(f"{path}: not the instances that the sidecar describes; prepare the corpus again")
    return instances


def sentence_encoder(
    prepared: Path, lang: str, dictionary: Dictionary, moses: str | None = None
) -> Callable[[Sequence[str]], Sentences]:
    """A function from plain sentences to token indices, by the same steps that prepared the corpus."""
    settings = read_json(prepared / "manifest.json")["settings"]
    tool = moses_directory(moses or settings["moses"]) if settings["moses"] else None
    tokeniser = Tokeniser(lang, tool, settings["normalise_punctuation"])
    truecaser = Truecaser(prepared / f"truecase.{lang}", tool)
    bpe = Encoder(prepared / "bpe.codes")

    def encode(texts: Sequence[str]) -> Sentences:
        return [[dictionary.index(word) for word in line.split()] for line in bpe(truecaser(tokeniser(texts)))]

    return encode


def table(result: dict) -> str:
    """Accuracy by phenomenon and distance as a table of plain text."""
    distances = list(result["by_distance"])
    rows = [["phenomenon", "all", "items", *(f"at {distance}" for distance in distances)]]
    parts = {**result["by_phenomenon"], "all": result["total"]}
    by_distance = {**result["by_phenomenon_and_distance"], "all": result["by_distance"]}
    for name, part in parts.items():
        cells = [by_distance[name].get(distance) for distance in distances]
        shown = [f"{cell['solved']}/{cell['items']}" if cell else "-" for cell in cells]
        rows.append([name, f"{part['accuracy']:.1f} %", f"{part['solved']}/{part['items']}", *shown])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    lines.append("(at N: solved/items whose deciding sentence stands N sentences back)")
    if result["context_out_of_view"]:
        lines.append(
            f"note: of {result['context_out_of_view']} items the deciding sentence lies in an earlier instance"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
