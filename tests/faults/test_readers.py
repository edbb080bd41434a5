"""Every reader given damaged files: an answer or one sentence, no other error, no hang, no unbounded memory.

Not one of the tests of scripts/test.sh: ``python -m pytest tests/faults``. FAULTS is how many damages each reader is
given (default 300), FAULTS_SEED another draw of them; a failure says reader, seed and number, and leaves the files.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from gtransformer.analysis.curves import read_curve, read_series
from gtransformer.data.sidecar import Sidecar, join
from gtransformer.data.stored import HEAD, MAGIC, check_binary
from gtransformer.data.translations import read_documents
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import read_items
from gtransformer.evaluation.suites.read import read_suite
from gtransformer.experiments.recipe import find_recipe, load_recipe
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.corpus import read_pairs
from gtransformer.preprocess.plain_text import read_plain
from gtransformer.preprocess.truecase import Truecaser
from gtransformer.tasks.dictionaries import load_dictionary
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.model_directory import ModelDirectory
from gtransformer.translation.resumable import ResumableOutput
from tests.faults.damage import Damage, damaged_bytes, damaged_json, damaged_lines_of_json
from tests.saved_model import make_model

COUNT, SEED = int(os.environ.get("FAULTS", "300")), int(os.environ.get("FAULTS_SEED", "1"))
SECONDS, MEGABYTES = 10, 500  # for one answer
SIDECAR = Sidecar("test", "en", "de", 2, [(0, 0, 2), (0, 2, 1), (1, 0, 1)])


@dataclass(frozen=True)
class Reader:
    """What reads a folder of ``files``; of those in ``damage`` one is damaged at a time. ``share`` of COUNT."""

    read: Callable[[Path], object]
    files: dict[str, bytes]
    damage: dict[str, Damage]
    share: float = field(default=1.0)


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def dumped(*values: object) -> bytes:
    return lines(*(json.dumps(value) for value in values))


def joined(folder: Path) -> object:
    return join(Sidecar.load(folder / "x.json"), [["a", "b"], ["c"], ["d"]])


def resumed(folder: Path) -> object:
    with ResumableOutput(folder / "x", {"a": 1}) as output:
        return output.place


def index(sizes: list[int]) -> bytes:
    begins = (np.cumsum(sizes) - sizes) * 4
    head = HEAD.pack(MAGIC, 1, 4, len(sizes))
    return head + np.array(sizes, np.int32).tobytes() + np.array(begins, np.int64).tobytes()


TRANSLATIONS = [
    {
        "id": number, "document": document, "first_sentence": first, "sentences": count,
        "hypotheses": [{"score": -1.0, "sentences": ["x"] * count}],
    }
    for number, (document, first, count) in enumerate(SIDECAR.instances)
]  # fmt: skip
CONTRAPRO = {
    "src segment": "It .", "ref segment": "Es .", "src pronoun": "It", "ref pronoun": "es", "intrasegmental": False,
    "document id": "1/a", "segment id": 3,
    "ref ante phrase gender": "neut", "ante distance": 1,
    "errors": [{"type": "pronominal coreference", "contrastive": "Sie ."}],
}  # fmt: skip
ITEM = {
    "id": 0, "phenomenon": "p", "detail": "d", "document": 0, "sentence": 1, "distance": 1, "correct": "a",
    "wrong": ["b"],
}  # fmt: skip
VOITA = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e"], "true_ind": 0, "ctx_dist": 1}
LOG = [
    f'2026-01-31 12:00:00 | INFO | train_inner | {{"ppl": "9.5", "num_updates": "{n}", "wall": "3"}}' for n in range(9)
]
PLACE = {"lines": 0, "documents": 0, "sentences": 0}
READERS = {
    "raw corpus": Reader(
        lambda folder: list(read_pairs(folder / "a", folder / "b")),
        {"a": lines("<d>", "One.", "Two.", "<d>", "Three."), "b": lines("<d>", "Eins.", "Zwei.", "<d>", "Drei.")},
        {"a": damaged_bytes, "b": damaged_bytes},
    ),
    "plain text": Reader(
        lambda folder: read_plain(folder / "x"), {"x": lines("<d>", "One.", "", "Two.")}, {"x": damaged_bytes}
    ),
    "sidecar": Reader(joined, {"x.json": dumped({"version": 1, **vars(SIDECAR)})}, {"x.json": damaged_json}),
    "translations": Reader(
        lambda folder: read_documents(folder / "x", SIDECAR), {"x": dumped(*TRANSLATIONS)}, {"x": damaged_lines_of_json}
    ),
    "ContraPro": Reader(
        lambda folder: read_suite([folder / "x"], context=0), {"x": dumped([CONTRAPRO, CONTRAPRO])}, {"x": damaged_json}
    ),
    "contrastive items": Reader(
        lambda folder: read_items(folder / "x"), {"x": dumped({"split": "test", "items": [ITEM]})}, {"x": damaged_json}
    ),
    "Voita": Reader(lambda folder: read_suite([folder / "x"]), {"x": dumped([VOITA, VOITA])}, {"x": damaged_json}),
    "BPE codes": Reader(
        lambda folder: Encoder(folder / "x")(["these words"]),
        {"x": lines("#version: 0.2", "t h", "th e</w>", "w o")},
        {"x": damaged_bytes},
    ),
    "truecaser": Reader(
        lambda folder: Truecaser(folder / "x")(["The dog . Mary"]),
        {"x": lines("Mary (3/4) mary (1)", "the (9/9)")},
        {"x": damaged_bytes},
    ),
    "dictionary": Reader(
        lambda folder: load_dictionary(folder / "x"),
        {"x": lines("a 3", "b 2", "[en] 1", "<mask> 1")},
        {"x": damaged_bytes},
    ),
    "recipe": Reader(
        lambda folder: load_recipe(str(folder / "x.yaml")),
        {"x.yaml": find_recipe("base").read_bytes()},
        {"x.yaml": damaged_bytes},
        0.3,
    ),
    "binaries": Reader(
        lambda folder: check_binary(folder / "x"),
        {"x.idx": index([3, 5, 2]), "x.bin": bytes(40)},
        {"x.idx": damaged_bytes, "x.bin": damaged_bytes},
    ),
    "interrupted translation": Reader(
        resumed,
        {"x.part": b"", "x.part.json": dumped({"key": {"a": 1}, "bytes": 0, "place": PLACE, "input_sha256": "0"})},
        {"x.part.json": damaged_json},
    ),
    "log": Reader(
        lambda folder: (read_curve(folder / "x"), read_series(folder / "x", ["ppl"])),
        {"x": lines(*LOG)},
        {"x": damaged_bytes},
    ),
}


def given(reader: Reader, folder: Path, name: str) -> None:
    """Give a reader COUNT damaged folders; what is neither an answer nor a UserError goes on with a note."""
    draw = random.Random(f"{name} {SEED}")
    print(f"{name}: seed {SEED}")
    for file, content in reader.files.items():
        (folder / file).write_bytes(content)
    reader.read(folder)  # whole files are read
    answers = 0
    for number in range(max(10, int(COUNT * reader.share))):
        for file, content in reader.files.items():
            (folder / file).write_bytes(content)
        file = draw.choice(list(reader.damage))
        (folder / file).write_bytes(reader.damage[file](reader.files[file], draw))
        signal.alarm(SECONDS)
        try:
            reader.read(folder)
            answers += 1
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000, str(error)
        except BaseException as error:
            error.add_note(f"{name}, seed {SEED}, damage {number} of {file}: {(folder / file).read_bytes()[:2000]!r}")
            raise
        finally:
            signal.alarm(0)
    print(f"{name}: {number + 1} damaged, {answers} answered, {number + 1 - answers} refused in a sentence")


@pytest.fixture(autouse=True)
def no_hang():
    """What takes longer than SECONDS is an error, too."""

    def late(number, frame):
        raise TimeoutError(f"no answer in {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    given(READERS[name], tmp_path, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("faults"))


def parts(folder: Path, *names: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not names or path.name in names}


def test_model_directories(model, tmp_path):
    """An untrusted one: whatever its manifest says, it is refused or opened, and nothing outside it is touched."""
    files = parts(model)
    given(Reader(ModelDirectory.open, files, {"manifest.json": damaged_json}, 0.5), tmp_path, "model directory")
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_checkpoints_cut_anywhere(model, tmp_path):
    def load(folder: Path) -> object:
        return load_trained(folder / "model.pt", data=str(folder))

    files = parts(model, "model.pt", "dict.en.txt", "dict.de.txt")
    cut = {"model.pt": lambda content, draw: content[: draw.randrange(len(content))]}
    given(Reader(load, files, cut, 0.1), tmp_path, "checkpoint")
