"""One run of a study: train, translate, score, and its result (``python -m gtransformer.lab.studies.one_run DIR``).

``DIR/run.json`` is the order, ``DIR/result.json`` the result. Every stage resumes after an interruption. Checkpoints
are deleted at the end, unless the order keeps them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gtransformer.errors import cli_main
from gtransformer.evaluation.metrics import ALIGNED
from gtransformer.files import read_json, write_json
from gtransformer.lab.analysis.curves import read_curve, read_series
from gtransformer.lab.recipes import call_command
from gtransformer.provenance import device_name, provenance
from gtransformer.run.paths import model_file
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.run import Run
from gtransformer.tasks.checkpoints import model_in

ORDER, RESULT = "run.json", "result.json"
CONTRASTIVE = "contrastive.json"  # only in studies that need it
TRAINING = ("loss", "nll_loss")
VALIDATION = ("valid_loss", "valid_nll_loss", "valid_word_nll_loss", "valid_entropy_*")


def do_run(directory: Path, argv: list[str] | None) -> None:
    """Run the unfinished stages of a run, and write its result."""
    order = read_json(directory / ORDER)
    run = ordered_run(directory, order)
    run.train()
    run.generate()
    score_test(directory, run.prepared, run.recipe, order["metrics"])
    if order["contrastive"]:
        score_contrastive(run, **order["contrastive"])
    write_json(directory / RESULT, result_of(run, order, argv))
    remove_checkpoints(directory)


def ordered_run(directory: Path, order: dict[str, Any]) -> Run:
    """Return the recipe's run for an order."""
    recipe = load_recipe(order["recipe"], [*order["changes"], *order.get("loading", [])])
    prepared = (directory / order["prepared"]).resolve()
    if start := order.get("pretrained"):
        recipe.train["finetune-from-model"] = model_in((directory / start / "checkpoints").resolve())
    gpus = torch.cuda.device_count()
    return Run(
        recipe, Path(order["corpus"]), directory, prepared, model_file(recipe, directory.resolve()), gpus=gpus
    )


def score_test(directory: Path, prepared: Path, recipe: Recipe, metrics: Sequence[str]) -> None:
    """Score the translations into test.scores.json; the recipe may set the reference."""
    output = directory / "test.scores.json"
    options = {"split": "test", "hypotheses": directory / "test.jsonl", "output": output, "metrics": metrics}
    call_command("score", str(prepared), recipe.options("score") | options)


def scores_of(directory: Path) -> dict[str, Any]:
    """Return the scores of a run's translations, their reference and counts, as in its result.

    s-BLEU and other scores over sentences are null if sentences are not aligned with the source's (Bao et al. 2021,
    appendix A).
    """
    found = read_json(directory / "test.scores.json")
    # The first is the raw one, unless the recipe sets only another one.
    (reference, best), counts = next(iter(found["scores"].items())), found["counts"]
    aligned = counts["misaligned_instances"] == 0
    scores = {name: score if aligned or name not in ALIGNED else None for name, score in best.items()}
    return {"reference": reference, "scores": scores, "counts": counts}


def score_contrastive(run: Run, prepared: str, items: str) -> None:
    """Score the model on contrastive items over a prepared corpus; its choices go to contrastive.json."""
    options = {"path": run.checkpoint, "items": items, "output": run.directory / CONTRASTIVE}
    call_command("lab.cli.items", str((run.directory / prepared).resolve()), options)


def result_of(run: Run, order: dict[str, Any], argv: list[str] | None) -> dict[str, Any]:
    """Return the results of the stages."""
    log = run.directory / "train.log"
    training = {f"train_{name}": points for name, points in read_series(log, TRAINING).items()}
    return {
        "version": 1,
        "run": order,
        "options": {section: run.recipe.sections[section] for section in ("task", "train", "generate")},
        **scores_of(run.directory),
        "curves": training | read_series(log, VALIDATION),  # losses and entropies over updates, in bits
        "seconds": {
            "train": read_curve(log).seconds,
            "generate": read_json(run.directory / "generate.test.json")["seconds"],
        },
        "device": device_name(),
        **provenance("python -m gtransformer.lab.studies.one_run", argv),
    }


def remove_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished run, unless its order keeps them."""
    checkpoints = directory / "checkpoints"
    if checkpoints.is_dir() and not read_json(directory / ORDER).get("keep_checkpoints", True):
        shutil.rmtree(checkpoints)


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Run the unfinished stages of a run, and write its result."""
    parser = argparse.ArgumentParser(prog="python -m gtransformer.lab.studies.one_run", description=__doc__)
    parser.add_argument("directory", type=Path, help="the run's directory, with its run.json")
    do_run(parser.parse_args(argv).directory, argv)


if __name__ == "__main__":
    raise SystemExit(main())
