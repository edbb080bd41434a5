"""The commands of a recipe, and which stages are run, skipped or refused. Real runs:
tests/core/end_to_end.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run import run, stage
from gtransformer.run.commands import device_options, for_this_machine, to_arguments
from tests.core.plugin.loaded import LEN48
from tests.support import command

main = command("run")

pytestmark = pytest.mark.slow


DRY_RUNS = Path(__file__).with_name("dry_runs.txt")  # calls, and what they print
# What is compared of the options: paths, and what a recipe's stage or a device changes.
SHOWN = (
    "--save-dir --path --gen-output --output --hypotheses --finetune-from-model --first-pass --lr "
    "--max-update --warmup-init-lr --no-save-optimizer-state --target-lang --cpu --fp16 "
    "--distributed-world-size"
).split()


def shorten(line: str) -> str:
    first, *options = re.split(r" (?=--)", line)
    return " ".join([first, *(one for one in options if one.split()[0] in SHOWN)])


def test_dry_runs(capsys, runs):
    """Neither corpus nor GPU is there, and nothing is written."""
    text, found = DRY_RUNS.read_text(encoding="utf-8"), []
    for call in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        assert main([*call.split(), "--dry-run"]) == 0
        lines = capsys.readouterr().out.replace(str(runs), "runs").splitlines()
        found += [f"$ {call}", *(shorten(line) for line in lines if line[0] != "#"), ""]
    assert "\n".join(found) == text and not runs.exists()


def test_an_update_has_as_many_batches_on_any_number_of_devices():
    for wanted, own, present in (
        (a, b, c) for a in range(1, 9) for b in (1, 2, 3) for c in range(11)
    ):
        options = device_options({"update-freq": own}, wanted, present)
        devices = options.get("distributed-world-size", 1)
        assert devices <= max(1, min(wanted, present))
        assert devices * options["update-freq"] == wanted * own, (wanted, own, present)


LARGE, SMALL = 80e9, 11e9


@pytest.mark.parametrize(
    ("memory", "bfloat16", "given", "expected"),
    [
        (LARGE, True, {}, {"max-tokens": 8000, "update-freq": 1, "autocast": "bfloat16"}),
        (SMALL, True, {}, {"max-tokens": 1000, "update-freq": 8, "autocast": "bfloat16"}),
        (SMALL, False, {}, {"max-tokens": 1000, "update-freq": 8, "fp16": True}),
        (
            LARGE,
            False,
            {"batch-order": "document", "fp16": None},
            {"max-tokens": 1000, "update-freq": 8, "batch-order": "document"},
        ),
    ],
)
def test_the_same_update_as_a_gpu_does_it_best(monkeypatch, memory, bfloat16, given, expected):
    """Two devices' four batches of 1,000 tokens, on one GPU; of a script, too."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16)
    properties = Namespace(total_memory=memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    options = {"max-tokens": 1000, "update-freq": 4, "fp16": True, **given}
    found = options | device_options(options, 2, 1)
    assert {key: value for key, value in found.items() if value is not None} == expected
    words = ["fairseq-train", "a 'folder'", *to_arguments(options)]
    changed = for_this_machine(shlex.join([*words, "--distributed-world-size", "2"]))
    assert shlex.split(changed) == [*words[:2], *to_arguments(found)]


def test_to_arguments():
    options = {
        "lr": "5e-4",
        "fp16": True,
        "cpu": False,
        "betas": "(0.9, 0.98)",
        "many": [1, 2],
        "none": None,
    }
    assert to_arguments(options) == [
        "--lr",
        "5e-4",
        "--fp16",
        "--betas",
        "(0.9, 0.98)",
        "--many",
        "1",
        "2",
    ]
    # YAML reads these as true and false; an option that is false would be left out, and so be on.
    assert to_arguments({"marks-loss": False, "sentence-rule": True}) == [
        "--marks-loss",
        "off",
        "--sentence-rule",
        "on",
    ]


def test_a_stage_is_run_once(tmp_path, monkeypatch):
    """After a failure it is run again with the same settings: fairseq goes on from its last
    checkpoint. With others only if asked for.
    """
    command, read, statuses = ["program"], tmp_path / "input", [1, 0, 0]
    monkeypatch.setattr(stage, "run_logged", lambda command, log: statuses.pop(0))

    def run_stage(*more: str, again: bool = False) -> None:
        stage.run_stage("train", [*command, *more], tmp_path / "run", [read], again)

    read.write_text("one")
    with pytest.raises(UserError, match="train.log"):
        run_stage()
    with pytest.raises(UserError, match=r"train\.json"):
        run_stage("--faster")
    run_stage()
    run_stage()
    assert statuses == [0]  # that of one failure and one success
    record = read_json(tmp_path / "run" / "train.json")
    assert record["done"] and record["command"] == command and record["seconds"] >= 0
    with pytest.raises(UserError, match="--faster"):
        run_stage("--faster")
    run_stage("--faster", again=True)
    os.utime(read, (1, 1))  # a copy of an older file
    with pytest.raises(UserError, match=str(read)):
        run_stage("--faster")


def test_a_first_pass_is_an_input(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(run, "run_stage", lambda *arguments: given.extend(arguments[3]))
    first = tmp_path / "first.jsonl"
    changes = [f"generate.first-pass={first}"]
    run.make_run("cpu_tiny", "ted", changes, tmp_path / "run").generate()
    assert first in given


def test_a_model_of_another_vocabulary_is_not_trained_further(tmp_path):
    write_json(tmp_path / "vocabulary.json", "another")
    changes = [f"train.finetune-from-model={tmp_path / 'checkpoint_best.pt'}"]
    with pytest.raises(UserError, match="another vocabulary"):
        run.make_run("cpu_tiny", "ted", changes, tmp_path / "run", LEN48).train()


def test_the_start_is_compared_after_an_interruption(tmp_path, monkeypatch):
    """Training is done before; a further call leaves the model as it is."""
    monkeypatch.setattr(run, "run_stage", lambda *arguments: None)
    made = run.make_run("cpu_tiny", "ted", ["measure-start=true"], tmp_path / "run", LEN48)
    for one, loss in ((made.before, 2.0), (made, 3.0)):
        one.checkpoint.parent.mkdir(parents=True)
        torch.save({"model": {}, "extra_state": {"val_loss": loss}}, one.checkpoint)
    made.train()
    assert torch.load(made.checkpoint)["extra_state"]["val_loss"] == 2.0
    os.utime(made.checkpoint, (1, 1))
    made.train()
    assert made.checkpoint.stat().st_mtime == 1


def test_an_interruption_ends_the_program(tmp_path):
    log, pid = tmp_path / "log", tmp_path / "pid"
    code = (
        f"import os, sys, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "print('first', file=sys.stderr)\ntime.sleep(60)"
    )

    def interrupt() -> None:
        while "first" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.05)
        os.kill(os.getpid(), 2)

    thread = threading.Thread(target=interrupt)
    # A shell lets programs in the background, and so these tests, ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            stage.run_logged([sys.executable, "-c", code], log)
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
