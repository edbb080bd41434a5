"""fairseq's own commands with the user-dir, and the binaries and instance indexes that they read."""

from __future__ import annotations

import json
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


def cut(name: str, left: int = -4):
    def change(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:left])

    return data(change)


def instance_index(**changes: object):
    def change(folder: Path) -> None:
        path = folder / "test.en-de.instances.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return data(change)


ROWS = [
    Row("an index that is empty", TRAIN, "train.en-de.en.idx: cut short or damaged", cut("train.en-de.en.idx", 0)),
    Row("an index that is cut", TRAIN, "train.en-de.de.idx: cut short or damaged", cut("train.en-de.de.idx", -8)),
    Row("binaries that are cut", TRAIN, "train.en-de.de.bin: has ", cut("train.en-de.de.bin")),
    Row("binaries that are gone", TRAIN, "train.en-de.en.bin: no such file, but its index exists",
        data(lambda folder: (folder / "train.en-de.en.bin").unlink())),
    Row("a dictionary with a word twice", TRAIN, "is already in line ",
        data(lambda folder: open(folder / "dict.de.txt", "a").write("[de] 1\n"))),
    Row("no dictionary", TRAIN, "dict.en.txt", data(lambda folder: (folder / "dict.en.txt").unlink())),
    Row("no data", TRAIN, "{place}/bin"),
    Row("heads that do not divide", f"{TRAIN} --decoder-attention-heads 7", "--decoder-attention-heads 7: does not",
        data()),
    Row("a threshold of gates without steps", f"{DOCFLAT} --gate-threshold 0.7",
        "--gate-threshold 0.7: --context-gate continuous has no threshold; give discrete, or leave it out", data()),
    Row("a gate without attention", f"{DOCFLAT} --context-gate identity --batch-attention-in none",
        "--context-gate identity: --batch-attention-in none has no use for a gate", data()),
    Row("negative updates", TRAIN.replace("--max-update 1", "--max-update -4"), "--max-update -4: give more than 0",
        data()),
    Row("a pretrained model that is not there", f"{TRAIN} --finetune-from-model {{place}}/none.pt", "none.pt", data()),
    Row("no checkpoint", GENERATE.replace("{checkpoint}", "{place}/none.pt"),
        "{place}/none.pt: no such checkpoint; --path names one or several", data()),
    Row("a checkpoint that is cut", GENERATE.replace("{checkpoint}", "{place}/cut.pt"),
        "cut.pt cannot be read, it is truncated or damaged",
        lambda place: (data()(place), (place / "cut.pt").write_bytes(GIVEN["checkpoint"].read_bytes()[:999]))),
    Row("an instance index that is no JSON", GENERATE, "test.en-de.instances.json, line 1: not valid JSON",
        data(lambda folder: (folder / "test.en-de.instances.json").write_text("{"))),
    Row("a instance_index of other data", GENERATE, "test.en-de.instances.json", instance_index(instances=[[0, 0, 2]])),
    Row("a instance_index of another version", GENERATE, "test.en-de.instances.json", instance_index(version=99)),
    Row("another dictionary than the model's", GENERATE, "have another size",
        data(lambda folder: [open(folder / f"dict.{lang}.txt", "a").write("more 1\n") for lang in ("en", "de")])),
]  # fmt: skip
