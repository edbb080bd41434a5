"""Model directories that anybody may have made; the checksums are right, as far as there are any."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gtransformer.files import sha256
from tests.bad_input.row import GIVEN, Row

T = "translate --model {place}/model --cpu --quiet {text} -o {out}"
AGAIN = "); export the model again"


def copy(place: Path) -> Path:
    return Path(shutil.copytree(GIVEN["model"], place / "model"))


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def write(folder: Path, content: dict[str, Any]) -> None:
    (folder / "manifest.json").write_text(json.dumps(content), encoding="utf-8")


def file(name: str, change: bytes | Callable[[bytes], bytes]):
    """A directory in which one file is another, its checksum put right."""

    def make(place: Path) -> None:
        folder = copy(place)
        path = folder / name
        path.write_bytes(change(path.read_bytes()) if callable(change) else change)
        told = manifest(folder)
        told["files"][name] = sha256(path)
        write(folder, told)

    return make


def told(**changes: Any):
    """A directory whose manifest says something else."""

    def make(place: Path) -> None:
        folder = copy(place)
        content = manifest(folder)
        for key, value in changes.items():
            content[key] = content[key] | value if key in ("settings", "search") and value else value
        write(folder, content)

    return make


def spoilt(change: Callable[[Path], object]):
    """A directory changed after it was exported."""
    return lambda place: change(copy(place))


def only_manifest(content: bytes):
    def make(place: Path) -> None:
        (place / "model").mkdir()
        (place / "model" / "manifest.json").write_bytes(content)

    return make


def linked_outside(place: Path) -> None:
    """The manifest names a file outside, which is there."""
    folder = copy(place)
    shutil.copy(folder / "bpe.codes", place / "codes")
    content = manifest(folder)
    content["files"]["../codes"] = content["files"].pop("bpe.codes")
    (folder / "bpe.codes").unlink()
    write(folder, content)


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
    ("dict.en.txt", lambda old: old + b"word\n", "not a dictionary entry ('word count')"),
    ("dict.de.txt", lambda old: old.partition(b"\n")[0] + b"\n" + old, "is already in line 1; keep one"),
    ("dict.en.txt", b"", "one joined dictionary for both languages, but those of the data differ; "),
    ("bpe.codes", b"#version: 0.2\na b\nabc\n", "bpe.codes, line 3: not a BPE merge (two symbols)"),
    ("truecase.en", b"Mary (3/4) mary\n", "truecase.en, line 1: not a truecaser model line"),
    ("model.pt", lambda old: old[:-300], "model.pt cannot be read, it is truncated or damaged"),
]
SETTINGS = [
    ("max_instance_tokens", -5, "max-instance-tokens is -5; give a whole number of at least 1"),
    ("max_instance_tokens", "many", "max-instance-tokens is 'many'; give a whole number"),
    ("max_sents", 0, "max-sents is 0; give a whole number of at least 1"),
    ("max_sents", 1.5, "max-sents is 1.5; give a whole number"),
    ("sentences_beside", -3, "sentences-beside is -3; give a whole number of at least 0"),
    ("sentences_before", True, "sentences-before is True; give a whole number"),
    ("langs", [1], "langs is [1]"),
    ("langs", "en", "langs is 'en'"),
    ("langs", [], "langs is []"),
    ("langs", None, "lacks langs"),
    ("source_lang", 3, "source-lang is 3; give a language"),
    ("source_lang", "../../x", "source-lang is '../../x'; give a language"),
    ("source_lang", "fr", "damaged ('dict.fr.txt')"),
    ("target_lang", "en", "source and target language are both en"),
    ("normalise_punctuation", 1, "normalise-punctuation is 1"),
    ("sentencepiece", "model", "sentencepiece is 'model'"),
    ("bert", True, "damaged ('wordpieces.json')"),
    ("first_pass", True, "damaged ('first_pass.pt')"),
]
SEARCH = [
    ("beam", "five", "--beam 'five': give a whole number"),
    ("beam", None, "--beam None: give a whole number"),
    ("beam", 2.5, "--beam 2.5: give a whole number"),
    ("beam", True, "--beam True: give a whole number"),
    ("lenpen", "long", "--lenpen 'long': give a number"),
    ("lenpen", math.nan, "--lenpen nan: give a number"),
    ("unkpen", math.inf, "--unkpen inf: give a number"),
    ("max_len_a", [1], "--max-len-a [1]: give a number"),
    ("strategy", 3, "--strategy 3: give a text"),
    ("window_tokens", "x", "--window-tokens 'x': give a whole number"),
    ("max_tokens", -1, "--max-tokens -1: must be at least 1"),
]
ROWS = [
    *(Row(f"{number}, {one}: {says}", T, says, file(one, change)) for number, (one, change, says) in enumerate(FILES)),
    *(Row(f"{key} {value!r}", T, f"{says}", told(settings={key: value})) for key, value, says in SETTINGS),
    *(Row(f"search: {key} {value!r}", T, f"{says}{AGAIN}", told(search={key: value})) for key, value, says in SEARCH),
    *(
        Row(f"manifest {content[:9]!r}", T, "{place}/model/manifest.json", only_manifest(content))
        for content in (b"[1", b"\xff\xfe", b"[" * 100_000, b"[1]", b"{}", b"null")
    ),
    Row("no directory", T, "no such model directory; make one with gtransformer export"),
    Row("no manifest", T, "lacks manifest.json", spoilt(lambda folder: (folder / "manifest.json").unlink())),
    Row("not of a model", T, "not of a model directory", only_manifest(b'{"version": 1}')),
    Row("an unknown version", T, "version 9 is unknown here", told(version=9)),
    Row("no settings", T, AGAIN, told(settings={})),
    Row("an unknown option of the search", T, AGAIN, told(search={"width": 3})),
    Row("no files", T, "damaged ('model.pt'); export the model again", told(files={})),
    Row("files that are none", T, AGAIN, told(files=None)),
    Row("a file is gone", T, "truecase.en: no such file; the model directory is incomplete",
        spoilt(lambda folder: (folder / "truecase.en").unlink())),
    Row("another dictionary", T, "dict.de.txt: changed since the model was exported",
        spoilt(lambda folder: (folder / "dict.de.txt").write_text("other 1\n"))),
    Row("other codes", T, "bpe.codes: changed since the model was exported; export it again",
        spoilt(lambda folder: (folder / "bpe.codes").write_text(""))),
    Row("another checkpoint", T, "model.pt", spoilt(lambda folder: (folder / "model.pt").write_bytes(b"nonsense"))),
    Row("a file outside", T, "damaged (", linked_outside),
    Row("a checkpoint that runs code", T, "model.pt is unsafe and was not loaded: it would run code", harmful),
    Row("an archive that runs code", T, "model.pt is unsafe and was not loaded: it would run code", harmful_archive),
]  # fmt: skip
