"""The shell scripts: what set-up does without installing anything, and the commands of the
pipelines.
"""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options

from gtransformer.data.instance_index import InstanceIndex
from tests.core.plugin.loaded import LEN48
from tests.support import ROOT, command

pytestmark = pytest.mark.slow

SCRIPTS = ROOT / "scripts"


def bash(command: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", "-c", command],
        env=os.environ | environment,
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_setup(tmp_path: Path):
    """A finished one is recognised without starting Python, a changed one is not; an environment of
    another checkout, or with plain fairseq, is refused.
    """
    venv, python = tmp_path / "venv", tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\nexit 1\n")
    python.chmod(0o755)
    own = {"GTRANSFORMER_VENV": str(venv), "PYTHON": ""}
    (venv / "setup.stamp").write_text(bash("source ./common.sh; setup_fingerprint").stdout)
    finished = bash("./setup.sh", **own)
    assert finished.returncode == 0 and "is complete" in finished.stdout
    changed = bash("source ./common.sh; setup_complete", **own, GTRANSFORMER_TORCH="torch==2.8.*")
    assert changed.returncode == 1 and not (tmp_path / "started").exists()
    (venv / "setup.stamp").unlink()
    (tmp_path / "other" / "gtransformer").mkdir(parents=True)
    (venv / "checkout").write_text(f"{tmp_path / 'other'}\n")
    refused = bash("./setup.sh", **own)
    assert refused.returncode == 1 and f"{tmp_path / 'other'}" in refused.stderr
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True, timeout=120)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "fairseq-0.12.2.dist-info").mkdir()
    (site / "fairseq-0.12.2.dist-info" / "METADATA").write_text("Name: fairseq\nVersion: 0.12.2\n")
    refused = bash("./setup.sh", **own)
    assert refused.returncode == 1 and "pip uninstall" in refused.stderr


# Scripts, their recipes, and the GPUs that these are for.
RECIPES = {
    "randinit": ("base", 4),
    "finetune": ("doc_base_finetune", 4),
    "mbart": ("mbart", 4),
    "window": ("window/base", 1),
    "document_transformer": ("document/base", 4),
    "docflat": ("docflat/d", 1),
}
PATHS = {
    "data", "save_dir", "path", "gen_output", "tensorboard_logdir", "finetune_from_model",
    "first_pass", "user_dir",
}  # fmt: skip
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-preprocess": options.get_preprocessing_parser,
}


def parsed(line: list[str]) -> dict[str, object]:
    """Return what fairseq's own parser makes of a command, without the paths of files; end the test
    if it refuses one.
    """
    parser = PARSERS[line[0]]()
    if line[0] == "fairseq-preprocess":
        found = parser.parse_args(line[1:])
    else:
        found = options.parse_args_and_arch(parser, line[1:])
    return {key: value for key, value in vars(found).items() if key not in PATHS}


def test_commands_of_the_scripts(capsys):
    """Printed without data, they have the flags of the recipe; those of ``run_all.sh`` for three
    data sets can be read, and each reads what the one before it writes. Without a GPU no
    environment is needed.
    """
    names = " ".join(RECIPES)
    printed = bash(
        f"for name in {names}; do echo $name; for mode in prepare train test; do "
        "./run_$name.sh ted $mode out --print; done; done; echo all; "
        "./run_all.sh randinit out --print",
        GTRANSFORMER_VENV=sys.prefix if torch.cuda.is_available() else "/nowhere",
    )
    assert printed.returncode == 0, printed.stderr
    found: dict[str, list[list[str]]] = {}
    for line in map(shlex.split, printed.stdout.splitlines()):
        if len(line) == 1:
            current = found[line[0]] = []
        else:
            current.append(line)
    for name, (recipe, gpus) in RECIPES.items():
        gpus = str(torch.cuda.device_count() or gpus)
        assert command("run")([recipe, "ted", "all", "--dry-run", "--gpus", gpus]) == 0
        expected = [
            shlex.split(line, comments=True) for line in capsys.readouterr().out.split("\n")
        ]
        for program in ("fairseq-train", "fairseq-generate"):
            ours, theirs = (
                [parsed(line) for line in lines if line[:1] == [program]]
                for lines in (found[name], expected)
            )
            assert ours == theirs and ours
        ours, theirs = (
            [line[4:] for line in lines if line[:2] == ["gtransformer", "prepare"]]
            for lines in (found[name], expected)
        )
        assert ours == theirs or not ours, "scripts/prepare.sh has programs of its own"
    for dataset in ("ted", "news", "europarl"):
        own = [
            line
            for line in found["all"]
            if line[0] in PARSERS and f"out/{dataset}" in " ".join(line)
        ]
        assert [line[0] for line in own] == [
            "fairseq-preprocess",
            "fairseq-train",
            "fairseq-generate",
        ]
        preprocess, train, generate = own
        assert preprocess[preprocess.index("--destdir") + 1] == train[1] == generate[1]
        for line in own:
            parsed(line)


def test_instances_are_those_of_gtransformer_prepare(tmp_path: Path, monkeypatch):
    """Cut again from the documents of a prepared corpus; scripts/prepare.sh calls this program."""
    index = InstanceIndex.load(LEN48 / "bin" / "train.en-de.instances.json")
    made = []
    for lang in ("en", "de"):
        source = LEN48 / "instances" / f"train.{lang}"
        lines = source.read_text(encoding="utf-8").splitlines()
        text = ""
        for (_, first, _), line in zip(index.instances, lines, strict=True):
            text += "" if first else "\n"
            text += "".join(
                f"{sentence.split('</s>')[0].strip()}\n" for sentence in line.split("<s>")[1:]
            )
        (tmp_path / lang).write_text(text, encoding="utf-8")
        made.append((tmp_path / f"out.{lang}", source))
    program = str(SCRIPTS / "instances.py")
    files = [tmp_path / "en", tmp_path / "de", *(path for path, _ in made)]
    monkeypatch.setattr(sys, "argv", [program, *map(str, files), "48"])
    runpy.run_path(program, run_name="__main__")
    for found, expected in made:
        assert found.read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")
