"""Some updates with ``--amp`` and with ``--fp16`` against the same in float32, all by fairseq-train.

Divided by the loss scale twice, as fairseq's AMPOptimizer would have it, gradients vanish beside Adam's eps and
parameters hardly move; that is what is looked at here, beside losses and the norms of gradients.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from fairseq.data import indexed_dataset

from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.lab.benchmark.documents import make_dictionary, make_document
from gtransformer.tasks.checkpoint_file import read_state

UPDATES = 6
# At these the mistake shows in the first updates: gradients are far above eps, and far below it divided by the scale.
SCALE, EPS = 1024, 1e-5
WAYS = {"float32": [], "amp": ["--amp"], "fp16": ["--fp16"]}
PLUGIN = Path(__file__).resolve().parents[3]
# How far what is measured may lie from float32's: losses, the norms of gradients, and how far parameters have moved.
BOUNDS = {"loss": 0.02, "gnorm": 0.1, "moved": 0.2}


def write_data(folder: Path, small: bool) -> Path:
    """Random documents, binarised; the folder that fairseq-train reads."""
    dictionary = make_dictionary(60 if small else 8000)
    generator = torch.Generator().manual_seed(1)
    data = folder / "bin"
    data.mkdir(parents=True, exist_ok=True)
    for lang in ("en", "de"):
        dictionary.save(str(data / f"dict.{lang}.txt"))
        prefix = str(data / f"train.en-de.{lang}")
        builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary))
        for _ in range(8 if small else 64):
            builder.add_item(make_document(24 if small else 256, 12 if small else 30, dictionary, generator))
        builder.finalize(f"{prefix}.idx")
    return data


def train(data: Path, folder: Path, way: str, device: str, small: bool) -> dict:
    """UPDATES by fairseq-train: ``loss`` and ``gnorm`` of each, and how far parameters ``moved`` since the first.

    Raises UserError if it fails.
    """
    shutil.rmtree(folder, ignore_errors=True)
    arch = "gtransformer_mini" if small else "gtransformer_base"
    command = [
        sys.executable, "-m", "fairseq_cli.train", data, "--user-dir", PLUGIN, "--task", "translation_doc",
        "--source-lang", "en", "--target-lang", "de", "--langs", "en,de", "--arch", arch, "--encoder-ctxlayers", 1,
        "--decoder-ctxlayers", 1, "--cross-ctxlayers", 1, "--share-all-embeddings", "--dropout", 0,
        "--criterion", "fused_label_smoothed_cross_entropy", "--label-smoothing", 0.1, "--optimizer", "fused_adam",
        "--adam-betas", "(0.9, 0.98)", "--adam-eps", EPS, "--fp16-init-scale", SCALE, "--lr", 1e-4,
        "--lr-scheduler", "fixed", "--max-tokens", 96 if small else 4096,
        "--max-update", UPDATES, "--save-interval-updates", 1, "--disable-validation", "--no-epoch-checkpoints",
        "--no-save-optimizer-state",
        "--save-dir", folder, "--log-interval", 1, "--log-format", "json", "--seed", 1, "--num-workers", 0,
        *(["--cpu", *(word for word in WAYS[way] if word != "--amp")] if device == "cpu" else WAYS[way]),
    ]  # fmt: skip
    path = os.pathsep.join(filter(None, [str(PLUGIN.parent), os.environ.get("PYTHONPATH")]))
    environment, both = os.environ | {"PYTHONPATH": path}, {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(list(map(str, command)), env=environment, text=True, **both)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise UserError(f"fairseq-train {way}: {last}")
    steps = steps_of(done.stdout)
    states = [
        read_state(path)["model"]
        for path in sorted(folder.glob("checkpoint_*_*.pt"), key=lambda path: int(path.stem.split("_")[-1]))
    ]
    moved = sum(float((states[-1][name].double() - one.double()).square().sum()) for name, one in states[0].items())
    return {key: [float(step[key]) for step in steps] for key in ("loss", "gnorm")} | {"moved": moved**0.5}


def steps_of(log: str) -> list[dict]:
    """What fairseq logs of every update in JSON."""
    lines = (line.partition("| INFO | train_inner | ")[2] for line in log.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def compare(folder: Path, device: str, small: bool, record: Path | None = None) -> dict:
    """Each way's losses, norms and movement; ``errors`` beside float32's, and whether they are ``within`` BOUNDS.

    A way that fails has its ``error`` instead, and is not within. On a CPU ``amp`` is float32, too, and there is no
    ``fp16``.
    ``record`` is written after each way.
    """
    data, found = write_data(folder, small), {}
    for way in WAYS:
        if way == "fp16" and device == "cpu":
            continue
        try:
            row = train(data, folder / way, way, device, small)
        except UserError as problem:
            row = {"error": str(problem)}
        found[way], exact = row, found.get("float32", row)
        if "error" not in row and "error" not in exact and way != "float32":
            row["errors"] = errors(row, exact)
            row["within"] = all(row["errors"][name] <= bound for name, bound in BOUNDS.items())
        else:
            row["within"] = "error" not in row and "error" not in exact
        if record:
            write_json(record, found)
    return found


def errors(row: dict, exact: dict) -> dict[str, float]:
    """The largest relative difference of each of BOUNDS; without as many updates, an infinite one."""
    if len(row["loss"]) != len(exact["loss"]):
        return dict.fromkeys(BOUNDS, float("inf"))
    pairs = {name: list(zip(row[name], exact[name], strict=True)) for name in ("loss", "gnorm")}
    pairs["moved"] = [(row["moved"], exact["moved"])]
    return {name: round(max(abs(a - b) / max(abs(b), 1e-12) for a, b in both), 5) for name, both in pairs.items()}
