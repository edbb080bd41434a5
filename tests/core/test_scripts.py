"""The shell scripts: strict mode everywhere, and what set-up says and does without installing
anything.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq import options

from gtransformer.cli import run
from gtransformer.data.instance_index import InstanceIndex
from tests.core.plugin.loaded import LEN48

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))


def bash(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_strict_and_well_formed(script: Path):
    assert bash("-n", str(script)).returncode == 0
    if script.name != "common.sh":  # sourced by the others
        assert "\nset -euo pipefail\n" in script.read_text()


def one_error(result: subprocess.CompletedProcess, *words: str) -> None:
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and all(word in line for word in words), line


def test_an_environment_belongs_to_one_checkout(tmp_path: Path):
    venv, other = tmp_path / "venv", tmp_path / "other"
    venv.mkdir()
    (other / "gtransformer").mkdir(parents=True)
    (venv / "checkout").write_text(f"{other}\n")
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(venv))
    one_error(result, f"{venv} belongs to the checkout {other}", "GTRANSFORMER_VENV")
    assert [path.name for path in venv.iterdir()] == ["checkout"]


def make_environment(path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True, timeout=120)
    return next(path.glob("lib/python*/site-packages"))


def test_setup_refuses_plain_fairseq(tmp_path: Path):
    site = make_environment(tmp_path / "venv")
    distribution = site / "fairseq-0.12.2.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fairseq\nVersion: 0.12.2\n"
    )
    result = bash(
        str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(tmp_path / "venv"), PYTHON=""
    )
    one_error(result, "'fairseq'", "pip uninstall")


def test_finished_setup_is_recognised_at_once_and_a_changed_one_is_not(tmp_path: Path):
    """At once: Python is not even started, and nothing is written."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\nexit 1\n")
    python.chmod(0o755)
    common = str(ROOT / "scripts/common.sh")
    stamp = bash("-c", f"source {common}; setup_fingerprint").stdout
    (tmp_path / "setup.stamp").write_text(stamp)
    result = bash(str(ROOT / "scripts/setup.sh"), GTRANSFORMER_VENV=str(tmp_path), PYTHON="")
    assert result.returncode == 0 and "is complete" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "setup.stamp"}
    changed = bash(
        "-c",
        f"source {common}; setup_complete",
        GTRANSFORMER_VENV=str(tmp_path),
        GTRANSFORMER_TORCH="torch==2.8.*",
    )
    assert changed.returncode == 1


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
    "data",
    "save_dir",
    "path",
    "gen_output",
    "tensorboard_logdir",
    "finetune_from_model",
    "first_pass",
}
PATHS |= {"user_dir"}
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-preprocess": options.get_preprocessing_parser,
}


def parsed(line: list[str]) -> dict[str, object]:
    """What fairseq's own parser makes of a command, without the paths of files; it ends the test if
    it refuses one.
    """
    parser = PARSERS[line[0]]()
    with_arch = line[0] != "fairseq-preprocess"
    found = (
        options.parse_args_and_arch(parser, line[1:]) if with_arch else parser.parse_args(line[1:])
    )
    return {key: value for key, value in vars(found).items() if key not in PATHS}


def printed(*arguments: str) -> list[list[str]]:
    """The commands that a script prints, as words."""
    result = bash(
        str(ROOT / "scripts" / arguments[0]),
        *arguments[1:],
        "--print",
        GTRANSFORMER_VENV="/nowhere",
    )
    assert result.returncode == 0, result.stderr
    return [shlex.split(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", RECIPES)
def test_flags_are_those_of_the_recipe(name: str, capsys):
    """For training and generation, and for gtransformer prepare; only files lie elsewhere."""
    recipe, gpus = RECIPES[name]
    assert run.main([recipe, "ted", "all", "--dry-run", "--gpus", str(gpus)]) == 0
    expected = [
        shlex.split(line)
        for line in capsys.readouterr().out.splitlines()
        if not line.startswith("#")
    ]
    found = [
        line
        for mode in ("prepare", "train", "test")
        for line in printed(f"run_{name}.sh", "ted", mode, "out")
    ]
    for program in ("fairseq-train", "fairseq-generate"):
        ours, theirs = (
            [parsed(line) for line in lines if line[0] == program] for lines in (found, expected)
        )
        assert ours == theirs and ours
    prepare = ["gtransformer", "prepare"]
    ours, theirs = (
        [line[4:] for line in lines if line[:2] == prepare] for lines in (found, expected)
    )
    assert ours == theirs or not ours, "scripts/prepare.sh has programs of its own"


def test_all_commands_of_the_three_datasets_are_printed():
    """Without data or GPU; each reads what the one before it writes."""
    lines = printed("run_all.sh", "randinit", "out")
    for dataset in ("ted", "news", "europarl"):
        own = [line for line in lines if line[0] in PARSERS and f"out/{dataset}" in " ".join(line)]
        assert [line[0] for line in own] == [
            "fairseq-preprocess",
            "fairseq-train",
            "fairseq-generate",
        ]
        preprocess, train, generate = own
        assert preprocess[preprocess.index("--destdir") + 1] == train[1] == generate[1]
        for line in own:
            parsed(line)


def test_instances_are_those_of_gtransformer_prepare(tmp_path: Path):
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
    files = [tmp_path / "en", tmp_path / "de", *(path for path, _ in made)]
    command = [sys.executable, ROOT / "scripts" / "instances.py", *files, "48"]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    for found, expected in made:
        assert found.read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")
