"""Every reader given damaged files: an answer or one sentence, no other error, no hang, no unbounded memory.

Not one of the tests of scripts/test.sh: ``python -m pytest tests/faults``. FAULTS is how many damages each reader is
given (default 300), FAULTS_SEED another draw of them; a failure says reader, seed and number, and leaves the files.
"""

from __future__ import annotations

import os
import random
import resource
import signal
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.tasks.trained import load_trained
from gtransformer.translation.model_directory import ModelDirectory
from tests.faults.damage import damaged_json
from tests.faults.readers import READERS, Reader
from tests.saved_model import make_model

COUNT, SEED = int(os.environ.get("FAULTS", "300")), int(os.environ.get("FAULTS_SEED", "1"))
SECONDS, MEGABYTES = 10, 500  # for one answer


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def given(reader: Reader, folder: Path, name: str) -> None:
    """Give a reader COUNT damaged folders; what is neither an answer nor a UserError goes on with a note."""
    draw = random.Random(f"{name} {SEED}")
    print(f"{name}: seed {SEED}")
    write(folder, reader.files)
    reader.read(folder)  # whole files are read
    answers = 0
    for number in range(max(10, int(COUNT * reader.share))):
        write(folder, reader.files)
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
