"""fairseq's commands as a user gives them: in this process, or in one of their own."""

from __future__ import annotations

import io
import logging
import os
import random
import re
import runpy
import subprocess
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen

import pytest
from fairseq import checkpoint_utils

from gtransformer.errors import explain
from gtransformer.run import stage
from tests.support import ROOT, write_lines

USER_DIR = str(ROOT / "gtransformer")
SMALL = (
    "--arch gtransformer_mini --encoder-embed-dim 64 --decoder-embed-dim 64 "
    "--encoder-ffn-embed-dim 128 "
    "--decoder-ffn-embed-dim 128 --encoder-layers 2 --decoder-layers 2 --encoder-ctxlayers 1 "
    "--decoder-ctxlayers 1 "
    "--cross-ctxlayers 1 --share-all-embeddings --dropout 0"
).split()
TRAINING = (
    "--task translation_doc --source-lang en --target-lang de --langs en,de --criterion "
    "label_smoothed_cross_entropy "
    "--optimizer adam --lr-scheduler inverse_sqrt --cpu --no-progress-bar --log-format simple "
    "--log-interval 1 --num-workers 0 --seed 1"
).split()
GENERATION = (
    "--task translation_doc --source-lang en --target-lang de --langs en,de --cpu --beam 3".split()
)


def environment(**extra: str) -> dict[str, str]:
    """The tests' environment: one thread, and the checkout importable."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **extra}


def line(command: str, *arguments) -> list[str]:
    """The command line of ``fairseq-{command}`` in a process of its own."""
    return [
        sys.executable,
        "-m",
        f"fairseq_cli.{command}",
        *map(str, arguments),
        "--user-dir",
        USER_DIR,
    ]


def run_here(module: str, *arguments) -> tuple[int, str]:
    """Do what ``python -m MODULE`` does, in this process: the exit status, and output, errors and
    log in one text.
    """
    output = io.StringIO()
    handler, level = logging.StreamHandler(output), logging.root.level
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    # fairseq keeps the best validation loss here; in a process of its own a training begins
    # without.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for name in ("gtransformer.plugin", "fairseq"):  # gtransformer export leaves them higher
        logging.getLogger(name).setLevel(logging.NOTSET)
    with (
        pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(output),
        warnings.catch_warnings(),
    ):  # fmt: skip
        # runpy's, of modules that are imported already
        warnings.simplefilter("ignore", RuntimeWarning)
        patch.setattr(sys, "argv", [module, *map(str, arguments)])
        patch.setenv("MALLOC_TRIM_THRESHOLD_", "1")  # else gtransformer would start anew with it
        patch.setattr(logging.root, "handlers", [handler])
        logging.root.setLevel(logging.INFO)
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception as error:
            status = 1
            print(f"error: {explain(error) or traceback.format_exc()}")
        else:
            status = 0
        finally:
            logging.root.setLevel(level)
    return status, output.getvalue()


def run_stages_here(patch: pytest.MonkeyPatch, programs: str = "none") -> None:
    """Let a recipe's stages run in this process, but those whose log's path has ``programs``."""
    as_program = stage.run_logged

    def run_logged(command: list[str], log: Path) -> int:
        if programs in str(log):
            return as_program(command, log)
        module, *words = command[2:]
        status, output = run_here(module, *words)
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(output)
        return status

    patch.setattr(stage, "run_logged", run_logged)


def run(command: str, *arguments, status: int = 0) -> str:
    """Run ``fairseq-{command}`` in this process; its output, after checking the exit status."""
    found, output = run_here(f"fairseq_cli.{command}", *arguments)
    assert found == status, output[-3000:]
    return output


def run_alone(command: str, *arguments) -> str:
    """Run ``fairseq-{command}`` in a process of its own, as it must be where it starts further
    ones.
    """
    done = subprocess.run(
        line(command, *arguments), env=environment(), stdout=PIPE, stderr=STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def kill_at(words: str, command: str, *arguments) -> str:
    """Start ``fairseq-{command}`` and kill -9 it as soon as a line has these words; its output as
    far as that line.
    """
    output = ""
    with Popen(
        line(command, *arguments), stdout=PIPE, stderr=STDOUT, text=True, env=environment()
    ) as process:
        for text in process.stdout:
            output += text
            if words in text:
                process.kill()
                break
    assert process.returncode == -9
    return output


def only_error(output: str) -> str:
    """The one line that a failing command says last; there must be no traceback."""
    assert "Traceback" not in output, output[-3000:]
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, output[-3000:]
    return errors[0].removeprefix("error: ")


def losses(output: str) -> dict[int, float]:
    """Training loss by update, from the log."""
    found = re.findall(r"train_inner.*?\bloss=([\d.]+).*?num_updates=(\d+)", output)
    return {int(update): float(loss) for loss, update in found}


def write_copy_corpus(folder: Path, words: int, most: int = 4, **documents: int) -> None:
    """Instances whose target repeats the source: 3 sentences of 1 to ``most`` words; ``documents``:
    number by split.
    """
    draw = random.Random(1)
    for split, count in documents.items():
        lines = []
        for _ in range(count):
            sentences = [draw.sample(range(words), k=draw.randint(1, most)) for _ in range(3)]
            lines.append(
                " ".join(
                    f"<s> {' '.join(f'w{i}' for i in sentence)} </s>" for sentence in sentences
                )
            )
        for lang in ("en", "de"):
            write_lines(folder / f"{split}.{lang}", lines)
    symbols = [*(f"w{i}" for i in range(words)), "[en]", "[de]", "<mask>"]
    write_lines(folder / "dict.txt", (f"{symbol} 1" for symbol in symbols))


def binarise(folder: Path, *options) -> str:
    """``fairseq-preprocess`` with two workers; the data lie in ``folder/bin``."""
    present = [name for name in ("train", "valid", "test") if (folder / f"{name}.en").exists()]
    splits = [f"--{name}pref={folder / name}" for name in present]
    return run(
        "preprocess", "--task=translation_doc", "--source-lang=en", "--target-lang=de", *splits,
        f"--srcdict={folder / 'dict.txt'}", "--joined-dictionary", f"--destdir={folder / 'bin'}",
        "--workers=2",
        *options,
    )  # fmt: skip
