"""The commands of the campaign at their smallest, and what of their results must come out the same."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gtransformer.cli import run
from gtransformer.cli.prepare import main as prepare
from gtransformer.files import read_json
from gtransformer.lab.cli import demo_corpus
from tests.raw_corpus import make_raw
from tests.saved_model import WORDS, make_model
from tests.support import SMALLEST_STUDY

PREPARING = ["--bpe-merges", "60", "--max-instance-tokens", "128", "--max-sentence-tokens", "200", "--workers", "2"]
TINY = {
    "prepare.bpe-merges": 100, "prepare.workers": 1, "train.arch": "gtransformer_mini", "train.encoder-layers": 1,
    "train.decoder-layers": 1, "train.encoder-embed-dim": 16, "train.decoder-embed-dim": 16,
    "train.encoder-ffn-embed-dim": 24, "train.decoder-ffn-embed-dim": 24, "train.encoder-ctxlayers": 1,
    "train.decoder-ctxlayers": 1, "train.cross-ctxlayers": 1, "train.num-workers": 0, "train.log-interval": 1,
    "train.warmup-updates": 2, "generate.beam": 2, "generate.max-len-a": 0, "generate.max-len-b": 5,
}  # fmt: skip
# Thirty updates, saved every five: from each a killed training goes on. Dropout is on: its random numbers must return.
TRAINING = TINY | {
    "train.max-tokens": 300, "train.max-update": 30, "train.save-interval-updates": 5,
    "train.validate-interval-updates": 5, "train.keep-interval-updates": 2,
}  # fmt: skip
COMPARED = TINY | {
    "train.encoder-layers": 2, "train.decoder-layers": 2, "train.max-tokens": 1200, "train.max-update": 4,
    "train.save-interval-updates": 1, "train.validate-interval-updates": 1,
}  # fmt: skip
STUDY = {
    "common": SMALLEST_STUDY,
    "smallest": """
description: smallest figure
miniature:
  panels:
    - {title: d-BLEU, kind: scores, systems: [plain, ours], axis: instances, values: [20], length: 64}
""",
}
# What of a result says when, where and how fast, and not what; found by two undisturbed runs. Checkpoints have times in
# them, and so other digests.
VOLATILE = {
    "checkpoint_sha256", "date", "started", "seconds", "machine", "device", "versions", "made", "commit", "speed",
    "minutes", "wall", "training_seconds", "train_seconds", "seconds_of", "time", "tokens_per_second",
    "peak_bytes",
}  # fmt: skip
# Logs, locks, notes of how far a command is, pictures, in which texts are placed by the time they
# took to draw, and an arena's table, which has columns of seconds and of memory; arena.json is compared.
NO_RESULT = (".log", ".lock", ".tmp", ".part", ".part.json", ".png", ".reached", "arena.txt")


@dataclass(frozen=True)
class Tried:
    """A command as the campaign runs it.

    module: of the command. make: puts what the command reads into a folder. arguments: by that folder and the output.
    share: how often it is drawn.
    finals: results that a user, or the next command, knows by their names that all is there.
    """

    module: str
    make: Callable[[Path], None]
    arguments: Callable[[Path, Path], list[str]]
    share: int
    finals: tuple[str, ...] = ()

    def line(self, given: Path, output: Path) -> list[str]:
        """The words behind the module's name."""
        return list(map(str, self.arguments(given, output)))


def changed(values: dict[str, Any]) -> list[str]:
    return [text for key, value in values.items() for text in ("--set", f"{key}={value}")]


def make_corpus(given: Path) -> None:
    make_raw(given / "raw", {"train": 40, "dev": 3, "test": 1})


def make_prepared(given: Path) -> None:
    make_corpus(given)
    assert prepare([str(given / "raw"), str(given / "prepared"), *PREPARING]) == 0


def train_line(given: Path, output: Path) -> list[str]:
    line = ["cpu_tiny", given / "raw", "train", "--prepared", given / "prepared", "--output", output]
    return [*line, *changed(TRAINING)]


def make_trained(given: Path) -> None:
    make_prepared(given)
    assert run.main(list(map(str, train_line(given, given / "run")))) == 0


def generate_line(given: Path, output: Path) -> list[str]:
    checkpoint = given / "run" / "checkpoints" / "checkpoint_last.pt"
    line = ["cpu_tiny", given / "raw", "generate", "--prepared", given / "prepared", "--output", output]
    return [*line, "--checkpoint", checkpoint, *changed(TRAINING | {"generate.max-tokens": 120})]


def make_text(given: Path) -> None:
    make_model(given)
    draw = random.Random(3)
    lines = [" ".join(draw.choices(WORDS["en"], k=draw.randint(3, 9))).capitalize() for _ in range(60)]
    lines[12:60:12] = ["<d>"] * 4
    (given / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def translate_line(given: Path, output: Path) -> list[str]:
    return ["--model", given / "model", given / "text", "-o", output / "text.de", "--cpu", "--max-len-b", "12"]


def make_demo(given: Path) -> None:
    assert demo_corpus.main(["--output", str(given / "demo"), "--documents", "3", "--test-documents", "2"]) == 0
    for path in (given / "demo").glob("*_dev_*.txt"):  # two of its sixteen documents are enough
        path.write_text("<d>".join(path.read_text(encoding="utf-8").split("<d>")[:3]), encoding="utf-8")


def compare_line(given: Path, output: Path) -> list[str]:
    line = [given / "demo", output, "--recipes", "cpu_small,cpu_small_doc", "--minutes", "50"]
    return [*line, *changed({key: value for key, value in COMPARED.items() if "ctxlayers" not in key})]


def make_study(given: Path) -> None:
    for name, text in STUDY.items():
        (given / f"{name}.yaml").write_text(text, encoding="utf-8")


def study_line(given: Path, output: Path) -> list[str]:
    return [given / "smallest.yaml", "demo", output, "--miniature", "--jobs", "1"]


def arena_line(given: Path, output: Path) -> list[str]:
    line = ["demo", output, "--systems", "concatenation", "--seeds", "1", "--jobs", "1", "--documents", "4"]
    line += ["--dev-documents", "1", "--test-documents", "1", "--items", "4", "--updates", "3", "--start-updates", "4"]
    values = {key: value for key, value in COMPARED.items() if "ctxlayers" not in key}
    del values["train.arch"], values["train.max-update"]
    return [*line, *changed(values)]


COMMANDS = {
    "prepare": Tried(
        "gtransformer.cli.prepare", make_corpus, lambda a, b: [a / "raw", b, *PREPARING], 6, ("manifest.json",)
    ),
    "train": Tried("gtransformer.cli.run", make_prepared, train_line, 6),
    "generate": Tried("gtransformer.cli.run", make_trained, generate_line, 4, ("test.jsonl",)),
    "translate": Tried("gtransformer.cli.translate", make_text, translate_line, 5, ("text.de",)),
    "compare": Tried("gtransformer.lab.cli.compare", make_demo, compare_line, 2, ("comparison.json",)),
    "study": Tried("gtransformer.lab.cli.study", make_study, study_line, 2, ("smallest.json",)),
    "arena": Tried("gtransformer.lab.cli.arena", lambda given: None, arena_line, 2, ("arena.json",)),
}


def make_given(name: str, folder: Path) -> Path:
    """What a command reads, made once in a campaign's folder."""
    given = folder / "given"
    if not (folder / "given.made").exists():
        shutil.rmtree(given, ignore_errors=True)
        given.mkdir(parents=True)
        COMMANDS[name].make(given)
        (folder / "given.made").touch()
    return given


def results(folder: Path) -> dict[str, str]:
    """A digest of every file that is a result, what says when and how fast taken out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith("stages/") and not name.endswith(NO_RESULT):
            found[name] = digest(path)
    return found


def digest(path: Path) -> str:
    """Of a checkpoint its numbers, of JSON its lasting values, else of the bytes."""
    total = hashlib.sha256()
    if path.suffix == ".pt":
        for text in lasting(torch.load(path, map_location="cpu", weights_only=True)):
            total.update(text)
    elif path.suffix == ".json":
        total.update(json.dumps(steady(read_json(path)), sort_keys=True).encode())
    else:
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def steady(value: Any) -> Any:
    """JSON without what says when, where and how fast."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in VOLATILE}
    return [steady(one) for one in value] if isinstance(value, list) else value


def lasting(state: dict[str, Any]):
    """Of a checkpoint model, optimizer, updates and place in the data; not the times in it.

    Nor ``best`` of the learning rate's schedule: fairseq notes it at the end of an epoch, behind the save, so that it
    is lost with a kill in between, and only ``reduce_lr_on_plateau`` reads it, which none of the trainings has.
    """
    history = state["optimizer_history"][-1]
    schedule = {key: value for key, value in history["lr_scheduler_state"].items() if key != "best"}
    yield str([history["num_updates"], schedule, state["extra_state"]["train_iterator"]]).encode()
    yield str([state["extra_state"].get(key) for key in ("val_loss", "best")]).encode()
    for part in (state["model"], state["last_optimizer_state"]):
        yield from tensors(part)


def tensors(value: Any):
    """Every tensor's bytes with its name, every other value as text."""
    if isinstance(value, torch.Tensor):
        yield value.contiguous().view(torch.uint8).numpy().tobytes() if value.dim() else str(value.item()).encode()
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield str(key).encode()
            yield from tensors(value[key])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
    else:
        yield str(value).encode()
