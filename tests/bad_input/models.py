"""Model directories that do not load."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from tests.bad_input.row import GIVEN, Row

T = "translate --model {place}/model --cpu --quiet {text} -o {out}"


def copy(place: Path) -> Path:
    return Path(shutil.copytree(GIVEN["model"], place / "model"))


def file(name: str, change: bytes | Callable[[bytes], bytes]):
    """A directory in which one file is another."""

    def make(place: Path) -> None:
        path = copy(place) / name
        path.write_bytes(change(path.read_bytes()) if callable(change) else change)

    return make


def only_manifest(content: bytes):
    def make(place: Path) -> None:
        (place / "model").mkdir()
        (place / "model" / "manifest.json").write_bytes(content)

    return make


class Harmful:
    """What pickle would run: ``open(PATH, 'w')``."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def harmful(place: Path) -> None:
    file("model.pt", pickle.dumps(Harmful(place / "harm")))(place)


def harmful_archive(place: Path) -> None:
    torch.save({"model": Harmful(place / "harm")}, place / "harmful.pt")
    file("model.pt", (place / "harmful.pt").read_bytes())(place)


FILES = [
    ("dict.en.txt", b"", "one joined dictionary for both languages, but those of the data differ; "),
    ("model.pt", lambda old: old[:-300], "model.pt cannot be read, it is truncated or damaged"),
]
ROWS = [
    *(Row(f"{number}, {one}: {says}", T, says, file(one, change)) for number, (one, change, says) in enumerate(FILES)),
    Row("no directory", T, "no model directory; make one with gtransformer export"),
    Row("not of a model", T, "no model directory; make one with gtransformer export", only_manifest(b"{}")),
    Row("a file is gone", T, "truecase.en: no such file", lambda place: (copy(place) / "truecase.en").unlink()),
    Row("a checkpoint that runs code", T, "model.pt is unsafe and was not loaded: it would run code", harmful),
    Row("an archive that runs code", T, "model.pt is unsafe and was not loaded: it would run code", harmful_archive),
]  # fmt: skip
