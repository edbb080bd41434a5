"""The commands of a recipe, and which stages are run, skipped or refused. Real runs:
tests/core/end_to_end.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from argparse import Namespace

import pytest
import torch

from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.run.commands import device_options, to_arguments
from gtransformer.run.recipe import load_recipe, recipe_names
from gtransformer.run.stage import run_logged, run_stage
from tests.core.run.locations import write_raw

pytestmark = pytest.mark.slow


def commands(capsys, *arguments: object) -> list[list[str]]:
    """The words of the commands that a dry run prints; neither corpus nor GPU is there."""
    assert main([*map(str, arguments), "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    return [shlex.split(line) for line in lines]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_four_commands(capsys, runs):
    found = commands(capsys, "base", "ted", "--gpus", 4)
    assert [" ".join(words[:2]) for words in found][::3] == [
        "gtransformer prepare",
        "gtransformer score",
    ]
    assert [words[0] for words in found][1:3] == ["fairseq-train", "fairseq-generate"]
    train, generate = found[1:3]
    run = runs / "base" / "ted"
    assert (
        train[1] == generate[1] == str(run / "prepared" / "bin")
        and option(train, "--save-dir") == f"{run}/checkpoints"
    )
    assert option(train, "--distributed-world-size") == "4" and "--fp16" in train
    assert option(generate, "--path") == f"{run}/checkpoints/checkpoint_best.pt"
    assert not runs.exists(), "nothing was written"


@pytest.mark.parametrize(
    "words",
    [("train", "base", "ted"), ("base", "ted", "--gpus", 0, "train"), ("base", "ted", "train")],
)
def test_the_stage_may_stand_anywhere(words, capsys):
    (train,) = commands(capsys, "--gpus", 0, *words)
    assert train[0] == "fairseq-train" and "--cpu" in train and "--fp16" not in train


def test_what_a_recipe_needs_of_others_comes_first(capsys, runs):
    found = commands(
        capsys, "doc_base_finetune", "ted", "--gpus", 4, "--langs", "en,no", "--set", "train.lr=1"
    )
    assert [words[0] for words in found] == [
        "gtransformer",
        *["fairseq-train"] * 2,
        "fairseq-generate",
        "gtransformer",
    ]
    start = runs / "sent_base" / "ted" / "checkpoints"
    assert option(found[1], "--save-dir") == str(start) and option(found[1], "--lr") == "5e-4"
    assert option(found[2], "--finetune-from-model") == str(start / "checkpoint_best.pt")
    assert {words[1] for words in found[1:4]} == {
        str(runs / "base" / "ted" / "prepared" / "bin")
    }, "one corpus"
    assert all(option(words, "--target-lang") == "no" for words in found[:4]), (
        "no is Norwegian, not false"
    )
    own = commands(capsys, "doc_base_finetune", "ted", "--set", "train.finetune-from-model=x.pt")
    assert [words[0] for words in own][1:3] == ["fairseq-train", "fairseq-generate"]


def test_the_first_pass_is_the_models_start(capsys, runs):
    found = commands(capsys, "docflat/d", "ted", "--gpus", 1)
    start = runs / "docflat" / "sentences" / "ted"
    first, second = found[-3:-1]
    assert option(first, "--path") == str(start / "checkpoints" / "checkpoint_best.pt")
    assert option(first, "--gen-output") == str(start / "test")
    assert option(second, "--first-pass") == str(start / "test.jsonl")
    assert option(found[-2], "--path") == str(
        runs / "docflat" / "d" / "ted" / "checkpoints" / "average.pt"
    )
    assert found[-4][:2] == ["gtransformer", "average"]


def test_paths_of_ones_own(capsys, tmp_path):
    given = ["--output", tmp_path / "out", "--prepared", tmp_path / "text", "--checkpoint", "x.pt"]
    found = commands(capsys, "doc_base_finetune", "ted", *given, "--split", "valid")
    assert [words[0] for words in found] == ["gtransformer", "fairseq-generate", "gtransformer"], (
        "nothing to train"
    )
    assert found[0][3] == str(tmp_path / "text") and option(found[1], "--path") == "x.pt"
    assert option(found[1], "--gen-output") == str(tmp_path / "out" / "valid")


@pytest.mark.parametrize("name", ["from_sentence_model", "few_documents"])
def test_one_update_that_changes_nothing_saves_the_start(name, capsys):
    before = next(
        words
        for words in commands(capsys, name, "ted", "--gpus", 0)
        if "--no-save-optimizer-state" in words
    )
    assert (option(before, "--lr"), option(before, "--max-update")) == (
        "0",
        "1",
    ) and "--warmup-init-lr" not in before


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
    """Two devices' four batches of 1,000 tokens, on one GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bfloat16)
    properties = Namespace(total_memory=memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    options = {"max-tokens": 1000, "update-freq": 4, "fp16": True, **given}
    found = options | device_options(options, 2, 1)
    assert {key: value for key, value in found.items() if value is not None} == expected


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


CODE = "import sys; print('loss 1'); print('trouble', file=sys.stderr)"


def test_a_stage_is_run_once(tmp_path, capfdbinary):
    command, read = [sys.executable, "-c", CODE], tmp_path / "input"
    read.write_text("one")
    assert run_stage("train", command, tmp_path / "run", [read], again=False)
    record = read_json(tmp_path / "run" / "train.json")
    assert record["done"] and record["command"] == command and record["seconds"] >= 0
    log = tmp_path / "run" / "train.log"
    assert (
        "loss 1\n" in log.read_text()
        and "trouble" in log.read_text()
        and b"loss 1" in capfdbinary.readouterr().out
    )
    assert not run_stage("train", command, tmp_path / "run", [read], again=False)
    with pytest.raises(UserError, match=r"other settings .*--faster.*--again"):
        run_stage("train", [*command, "--faster"], tmp_path / "run", [read], again=False)
    assert run_stage("train", [*command, "--faster"], tmp_path / "run", [read], again=True)
    later = time.time() + 10
    os.utime(read, (later, later))
    with pytest.raises(UserError, match="other settings or inputs"):
        run_stage("train", [*command, "--faster"], tmp_path / "run", [read], again=False)


def test_a_stage_that_failed_is_run_again(tmp_path):
    """With the same settings: fairseq goes on from its last checkpoint. With others only if asked
    for.
    """
    command = [
        sys.executable,
        "-c",
        f"raise SystemExit(0 if open({str(tmp_path / 'ok')!r}) else 1)",
    ]
    with pytest.raises(
        UserError, match="train stopped with exit status 1; its output is in .*train.log"
    ):
        run_stage("train", command, tmp_path, [], again=False)
    with pytest.raises(UserError, match="other settings"):
        run_stage("train", [*command, "x"], tmp_path, [], again=False)
    (tmp_path / "ok").touch()
    assert run_stage("train", command, tmp_path, [], again=False)


def test_an_interruption_ends_the_program(tmp_path):
    log, pid = tmp_path / "log", tmp_path / "pid"
    code = (
        f"import os, time\nopen({str(pid)!r}, "
        "'w').write(str(os.getpid()))\nprint('first')\ntime.sleep(60)"
    )

    def interrupt() -> None:
        while "first" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.05)
        os.kill(os.getpid(), 2)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_logged([sys.executable, "-c", code], log)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bsae", "RAW"], "unknown recipe 'bsae'"),
        (["base", "nowhere", "prepare"], "prepare stopped with exit status 1"),
        (["base", "RAW", "train"], "manifest.json"),
        (["base", "RAW", "score"], "test.jsonl"),
        (["base", "RAW", "--set", "trian.lr=1"], "trian"),
        (["base", "RAW", "--set", "train.lr"], "SECTION.OPTION=VALUE"),
        (["base", "RAW", "--sentence-model", "x"], "recipe 'base' starts from none"),
        (["few_documents", "RAW", "--sentence-model", "x"], "x/manifest.json: no such file"),
    ],
)
def test_mistakes(arguments, words, tmp_path, capsys):
    raw = write_raw(tmp_path / "raw" / "tiny")
    assert main([str(raw) if word == "RAW" else word for word in arguments]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["base"], ["base", "ted", "trian"]])
def test_words_that_are_no_recipe_corpus_and_stage(arguments):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_all_recipes_are_listed(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert all(
        f"  {name} " in output and load_recipe(name).description in output
        for name in recipe_names()
    )
