"""COMET by unbabel-comet's own command ``comet-score``.

The package needs other versions of numpy and transformers than this one, so it is installed in an environment of its
own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import SENTENCES, Score
from gtransformer.evaluation.segments import Segments
from gtransformer.preprocess.plain_text import Documents

COMMAND, MODEL = "comet-score", "Unbabel/wmt22-comet-da"
INSTALL = "python3.11 -m venv comet && comet/bin/pip install 'unbabel-comet>=2.2.7,<3' 'setuptools<81'"
LINE = re.compile(r"\tscore: (\S+)$", re.MULTILINE)  # of a system


def comet_scores(command: str, systems: Sequence[Segments], sources: Documents) -> list[Score]:
    """Return the COMET score of each system's sentences, against the first reference.

    Args:
        command: ``comet-score`` or its path.
        systems: scored against the same reference.
        sources: documents of sentences, in the shape of the reference.

    Raises UserError if there is no such command, or if it fails.
    """
    first = systems[0]
    source = [sources[document][position - 1] for document, position in first.positions]
    names = [f"system{number}" for number in range(len(systems))]
    texts = {"source": source, "reference": first.sentences.references}
    texts |= {name: segments.sentences.hypotheses for name, segments in zip(names, systems, strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in texts.items():
            Path(folder, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files = ["-s", "source", "-r", "reference", "-t", *names]
        printed = _run([command, *files, "--model", MODEL, "--quiet", "--only_system"], folder)
    found = LINE.findall(printed)
    if len(found) != len(systems):
        raise UserError(f"{command}: printed {len(found)} scores of {len(systems)} systems ({printed[-300:]!r})")
    signature = systems[0].signed(f"{COMMAND}|model:{MODEL}", SENTENCES)
    return [Score(float(score), signature, len(source)) for score in found]


def _run(command: list[str], folder: str) -> str:
    """Return what a program prints that runs in ``folder``."""
    program = shutil.which(command[0])
    if program is None:
        raise UserError(
            f"--comet: no program {command[0]}; install it with: {INSTALL}, then give --comet comet/bin/{COMMAND}"
        )
    # Paths of this environment must not reach the other one.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    line = [str(Path(program).absolute()), *command[1:]]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise UserError(f"{program} failed: {said[-300:]}")
    return done.stdout
