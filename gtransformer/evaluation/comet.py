"""COMET by unbabel-comet's own command ``comet-score``.

The package needs other versions of numpy and transformers than this one, so it is installed in an
environment of its own.
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
INSTALL = (
    "python3.11 -m venv comet && comet/bin/pip install 'unbabel-comet>=2.2.7,<3' 'setuptools<81'"
)
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
    texts |= {
        name: segments.sentences.hypotheses for name, segments in zip(names, systems, strict=True)
    }
    program = shutil.which(command)
    if program is None:
        raise UserError(
            f"--comet: no program {command}; install it with: {INSTALL}, then give --comet "
            f"comet/bin/{COMMAND}"
        )
    line = [str(Path(program).absolute()), "-s", "source", "-r", "reference", "-t", *names]
    line += ["--model", MODEL, "--quiet", "--only_system"]
    # Paths of this environment must not reach the other one.
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in texts.items():
            Path(folder, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        done = subprocess.run(
            line, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
        )
    found = LINE.findall(done.stdout)
    if len(found) != len(systems):
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise UserError(f"{program} failed: {said}")
    signature = first.signed(f"{COMMAND}|model:{MODEL}", SENTENCES)
    return [Score(float(score), signature, len(source)) for score in found]
