"""The parts of a check on a GPU: what each runs, for how long at most, and what figures it leaves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gtransformer.files import read_json
from gtransformer.lab.benchmark.gpu.precision import steps_of

ROOT = Path(__file__).resolve().parents[4]
TESTS = ROOT / "tests" / "unit"
MEASURE = "gtransformer.lab.benchmark.gpu.measure"  # run as a module: kernels, syncs, amp
SYSTEMS = {"sentences": "document/sentences", "gtransformer": "base", "document_transformer": "document/base"}
SMALL = {  # of the recipes, for a rehearsal
    "sentences": ["train.arch=doc_transformer_mini"],
    "gtransformer": ["train.arch=gtransformer_mini", "train.encoder-ctxlayers=1", "train.decoder-ctxlayers=1",
                     "train.cross-ctxlayers=1"],
    "document_transformer": ["train.arch=document_transformer_mini"],
}  # fmt: skip
OF_ROWS = ("name", "documents", "seconds", "tokens_per_second", "peak_bytes", "utilisation", "ratios", "failed")
OF_TRAINING = ("wps", "ups", "wpb", "train_wall", "gb_free", "loss_scale")


@dataclass(frozen=True)
class Check:
    """What is checked: on which device and at which size, and in which folder work is kept.

    ``corpus``: what is trained on, raw; ``prepared``: the same ready for training, a folder or an archive of it.
    """

    work: Path
    device: str = "cuda"
    small: bool = False
    corpus: Path | None = None
    prepared: Path | None = None

    @property
    def rehearsal(self) -> bool:
        """Whether this shows that the parts run, and nothing of a GPU."""
        return self.small or self.device == "cpu"

    def limit(self, part: Part) -> int:
        """Seconds that a part may take: a processor has ten times those of a GPU."""
        return part.seconds * (10 if self.device == "cpu" else 1)

    @property
    def raw(self) -> Path:
        """The corpus that is trained on; a rehearsal makes one where none is given."""
        return self.corpus or self.work / "raw"

    @property
    def data(self) -> Path:
        """The prepared corpus."""
        given = self.prepared is not None and self.prepared.suffix != ".xz"
        return self.prepared if given else self.work / "prepared"

    def measure(self, what: str) -> list[str]:
        """A measurement of this package in a process of its own."""
        small = ["--small"] if self.small else []
        return python(MEASURE, what, str(self.work), "--device", self.device, *small)

    def size(self, full: list[str], small: list[str]) -> list[str]:
        """Options of either size."""
        return small if self.small else full


@dataclass(frozen=True)
class Part:
    """One part: its commands run in turn until one fails, in at most so many seconds together.

    ``figures``: of the check and of what the commands have written to the console. ``needs``: parts that it builds on.
    ``trains``: whether it needs a corpus. ``outputs``: files that parts which need this one read; a machine that has
    its record alone lacks them.
    """

    name: str
    about: str
    seconds: int
    commands: Callable[[Check], list[list[str]]]
    figures: Callable[[Check, str], dict]
    needs: tuple[str, ...] = ()
    trains: bool = False
    outputs: Callable[[Check], list[Path]] = lambda check: []


def python(module: str, *arguments: str) -> list[str]:
    """The command line of a module."""
    return [sys.executable, "-m", module, *arguments]


def _tests(check: Check) -> list[list[str]]:
    marked = [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "mark.gpu" in path.read_text(encoding="utf-8")]
    marked = marked[:1] if check.small else [*marked, "-m", "gpu"]
    return [python("pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib", *marked)]


def _counts(check: Check, output: str) -> dict:
    """What pytest says in its last line."""
    return {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|deselected|error)", output)}


def _measured(name: str) -> Callable[[Check, str], dict]:
    return lambda check, output: {name: read_json(check.work / f"{name}.json")}


def _benchmark(check: Check) -> list[list[str]]:
    small = ["--arch", "gtransformer_mini", "--vocabularies", "60", "--sentences", "12"]
    common = ["--output", str(check.work / "benchmark"), "--systems", "fairseq,packed", "--context", "2",
              "--seconds", "120", *check.size([], small)]  # fmt: skip
    lengths = check.size(["512,2048,8192", "16384"], ["24", "48"])
    decoded = check.size(["512", "1,64"], ["24", "2"])
    precision = "bfloat16" if check.device == "cuda" else "float32"
    named = python("gtransformer.lab.cli.benchmark", *common, "--precisions", precision)
    return [
        [*named, "--name", "train", "--what", "train", "--lengths", lengths[0], "--batch-tokens", lengths[1],
         "--runs", *check.size(["5"], ["1"])],
        [*named, "--name", "decode", "--what", "decode", "--lengths", decoded[0], "--documents", decoded[1],
         "--runs", "1"],
    ]  # fmt: skip


def _rows(check: Check, output: str) -> dict:
    found = {}
    for name in ("train", "decode"):
        path = check.work / "benchmark" / f"{name}.json"
        if path.is_file():
            result = read_json(path)
            found[name] = [
                {"tokens_a_document": row["setting"]["tokens"]} | {key: row[key] for key in OF_ROWS if key in row}
                for row in result["rows"]
            ]
            found["matrix_rate"] = result["matrix_rate"]
    return found


def _prepare(check: Check) -> list[list[str]]:
    made = [python("gtransformer.lab.cli.demo_corpus", "--output", str(check.raw), "--documents", "30",
                   "--dev-documents", "2", "--test-documents", "2", "--contrastive-items", "3")]  # fmt: skip
    size = check.size(["--bpe-merges", "30000", "--max-instance-tokens", "512"],
                      ["--bpe-merges", "60", "--max-instance-tokens", "60"])  # fmt: skip
    if check.prepared is not None:
        archived = python("tarfile", "-e", str(check.prepared), str(check.work))
        return [] if check.data == check.prepared else [archived]
    prepare = python("gtransformer.cli.prepare", str(check.raw), str(check.data), *size)
    return [*([] if check.corpus else made), prepare]


def _sizes(check: Check, output: str) -> dict:
    return {"splits": read_json(check.data / "manifest.json")["splits"]}


def _train(name: str) -> Callable[[Check], list[list[str]]]:
    def commands(check: Check) -> list[list[str]]:
        hours = "0.045" if not check.small else "0"  # beside two cold imports in the part's limit
        changes = [f"train.stop-time-hours={hours}", "train.log-format=json", "train.tensorboard-logdir=", "devices=1"]
        if check.small:
            changes += ["train.max-update=3", "train.max-tokens=300", "train.log-interval=1", *SMALL[name]]
        return [_run(name, check, "train", *changes)]

    return commands


def _run(name: str, check: Check, stage: str, *changes: str) -> list[str]:
    raw = check.data if check.prepared else check.raw  # which training does not read
    arguments = [SYSTEMS[name], str(raw), stage, "--prepared", str(check.data)]
    arguments += ["--output", str(check.work / name)]
    if name == "document_transformer":  # its first step is the part that trains on sentences
        changes = (*changes, f"train.finetune-from-model={_trained(check)[0]}")
    return python("gtransformer.cli.run", *arguments, *(part for one in changes for part in ("--set", one)))


def _trained(check: Check) -> list[Path]:
    """The model of the part that trains on sentences."""
    return [check.work / "sentences" / "checkpoints" / "checkpoint_best.pt"]


def _learned(check: Check, output: str) -> dict:
    """The first and the last that was logged of losses and speed, and of validation."""
    steps = steps_of(output)
    valid = [json.loads(line) for line in re.findall(r"\| INFO \| valid \| (\{.*\})", output)]
    if not steps:
        return {}
    speed = {key: steps[-1][key] for key in OF_TRAINING if key in steps[-1]}
    losses = {f"{when} loss": float(step["loss"]) for when, step in (("first", steps[0]), ("last", steps[-1]))}
    after = {"valid_loss": float(valid[-1]["valid_loss"])} if valid else {}
    return {"updates": int(steps[-1]["num_updates"]), **losses, **after, **speed}


PARTS = (
    Part("tests", "the tests that need a GPU", 100, _tests, _counts),
    Part("varlen", "packed attention in half precision against dense in float64", 60,
         lambda check: [check.measure("varlen")], _measured("varlen")),
    Part("waits", "where a training step of each system waits for the device", 90,
         lambda check: [check.measure("waits")], _measured("waits")),
    Part("amp", "updates with --amp and --fp16 against float32", 100,
         lambda check: [check.measure("amp")], _measured("amp")),
    Part("benchmark", "training and decoding against fairseq's Transformer", 270, _benchmark, _rows),
    Part("prepare", "the corpus, for what is trained", 100, _prepare, _sizes, trains=True,
         outputs=lambda check: [check.data / "manifest.json", check.data / "bin"]),
    *(Part(f"train_{name}", f"recipe {recipe} for 160 seconds", 260, _train(name), _learned,
           ("prepare", "train_sentences") if name == "document_transformer" else ("prepare",), True,
           _trained if name == "sentences" else lambda check: [])
      for name, recipe in SYSTEMS.items()),
)  # fmt: skip
