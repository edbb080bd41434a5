"""fairseq's own commands with the user-dir, and the binaries and instance indexes that they read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.bad_input.row import GIVEN, Row

TASK = "--user-dir {root}/gtransformer --task translation_doc --source-lang en --target-lang de --langs en,de --cpu"
TRAIN = (
    f"fairseq-train {{place}}/bin {TASK} --arch gtransformer_mini --criterion label_smoothed_cross_entropy "
    "--optimizer adam --lr 0.1 --max-tokens 500 --max-update 1 --save-dir {out}"
)
DOCFLAT = (
    f"{TRAIN.replace('gtransformer_mini', 'docflat_mini')} --instances sliding --context-sentences 1 "
    "--context-loss off --batch-order document"
)
GENERATE = f"fairseq-generate {{place}}/bin {TASK} --path {{checkpoint}} --beam 1 --max-tokens 500 --gen-output {{out}}"


def data(change: Callable[[Path], object] = lambda folder: None):
    """The binaries, changed."""

    def make(place: Path) -> None:
        shutil.copytree(GIVEN["prepared"] / "bin", place / "bin")
        change(place / "bin")

    return make


def of_other_data(folder: Path) -> None:
    path = folder / "test.en-de.instances.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"instances": [[0, 0, 2]]}))


ROWS = [
    Row("an index that is cut", TRAIN, "train.en-de.de.idx: cut short or damaged",
        data(lambda folder: os.truncate(folder / "train.en-de.de.idx", 20))),
    Row("binaries that are gone", TRAIN, "train.en-de.en.bin: no such file, but its index exists",
        data(lambda folder: (folder / "train.en-de.en.bin").unlink())),
    Row("no dictionary", TRAIN, "dict.en.txt", data(lambda folder: (folder / "dict.en.txt").unlink())),
    Row("no data", TRAIN, "{place}/bin"),
    Row("a threshold of gates without steps", f"{DOCFLAT} --gate-threshold 0.7",
        "--gate-threshold 0.7: --context-gate continuous has no threshold; give discrete, or leave it out", data()),
    Row("negative updates", TRAIN.replace("--max-update 1", "--max-update -4"), "--max-update -4: give more than 0",
        data()),
    Row("a pretrained model that is not there", f"{TRAIN} --finetune-from-model {{place}}/none.pt", "none.pt", data()),
    Row("no checkpoint", GENERATE.replace("{checkpoint}", "{place}/none.pt"),
        "{place}/none.pt: no such checkpoint; --path names one or several", data()),
    Row("an instance index that is no JSON", GENERATE, "test.en-de.instances.json, line 1: not valid JSON",
        data(lambda folder: (folder / "test.en-de.instances.json").write_text("{"))),
    Row("an instance index of other data", GENERATE, "test.en-de.instances.json", data(of_other_data)),
    Row("another dictionary than the model's", GENERATE, "have another size",
        data(lambda folder: [open(folder / f"dict.{lang}.txt", "a").write("more 1\n") for lang in ("en", "de")])),
]  # fmt: skip
