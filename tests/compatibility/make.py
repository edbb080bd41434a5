"""Make this folder's models, corpus and ``expected.json`` with the package as it stands (see README.md).

``python -m tests.compatibility.make WORK``: WORK is an empty directory for what is not kept.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import torch

import gtransformer  # noqa: F401  (registers with fairseq)
from gtransformer.cli import export, prepare
from gtransformer.lab.cli import demo_corpus
from tests.commands import run
from tests.compatibility import observe
from tests.compatibility.observe import CHECKPOINTS, HERE, MODEL, PREPARED, TRAINING

KEPT = ("bin", "bpe.codes", "truecase.en", "truecase.de", "manifest.json")
UPDATES = 800
SMALLER = {"partial": [], "full": ["--encoder-layers=1", "--decoder-layers=1"]}


def corpora() -> None:
    """A corpus to train on, and a small one with its vocabulary, which is kept."""
    demo_corpus.main("--output raw --documents 60 --dev-documents 2 --test-documents 1".split())
    prepare.main("raw trained --bpe-merges 120 --max-instance-tokens 160 --workers 1".split())
    demo_corpus.main(
        "--output few --documents 3 --dev-documents 1 --test-documents 1 --seed 2 --contrastive-items 6".split()
    )
    prepare.main("few prepared --vocabulary trained --max-instance-tokens 160 --workers 1".split())
    for name in KEPT:
        copy = shutil.copytree if Path("prepared", name).is_dir() else shutil.copy
        copy(Path("prepared", name), PREPARED / name)
    (PREPARED / "instances").mkdir()
    for path in Path("prepared", "instances").glob("test.*"):  # what contrastive items are held against
        shutil.copy(path, PREPARED / "instances")
    shutil.copy("few/contrastive.json", HERE / "contrastive.json")


def checkpoint(mode: str) -> None:
    """Train and keep the last checkpoint without the optimizer's state and paths."""
    run(
        "train", "trained/bin", *TRAINING, *SMALLER[mode], f"--doc-mode={mode}", "--dropout=0", "--max-tokens=3000",
        "--lr=0.01", "--lr-scheduler=polynomial_decay", f"--total-num-update={UPDATES}", f"--max-update={UPDATES}",
        "--warmup-updates=50", "--adam-betas=(0.9, 0.98)", f"--save-dir={mode}",
    )  # fmt: skip
    state = torch.load(f"{mode}/checkpoint_last.pt")
    state["last_optimizer_state"] = None
    state["cfg"]["common"]["user_dir"] = "gtransformer"
    del state["extra_state"]["metrics"]
    torch.save(state, CHECKPOINTS[mode])


def rounded(value):
    """Numbers with seven digits."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def main(work: str) -> None:
    """Make all; what was there before is replaced."""
    torch.set_num_threads(1)
    for path in (PREPARED, MODEL):
        shutil.rmtree(path, ignore_errors=True)
    PREPARED.mkdir()
    os.chdir(work)
    corpora()
    for mode in CHECKPOINTS:
        checkpoint(mode)
    shutil.copy(CHECKPOINTS["partial"], "partial.pt")
    export.main(["prepared", "model", "--checkpoint=partial.pt"])
    shutil.copytree("model", MODEL)
    expected = rounded(observe.observe(Path.cwd()))
    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
