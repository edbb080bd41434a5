"""COMET by unbabel-comet's own command ``comet-score``.

The package needs other versions of numpy and transformers than this one, so it is installed in an environment of its
own. Its defaults are used: the model Unbabel/wmt22-comet-da.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import Score
from gtransformer.evaluation.segments import Segments
from gtransformer.preprocess.plain_text import Documents

COMMAND = "comet-score"
INSTALL = "python3.11 -m venv comet && comet/bin/pip install 'unbabel-comet>=2.2.7,<3' 'setuptools<81'"
LINE = re.compile(r"\tscore: (\S+)$", re.MULTILINE)  # of a system


def comet_scores(command: str, systems: Sequence[Segments], sources: Documents) -> list[Score]:
    """Return the COMET score of each system's sentences, against the first reference.

    Args:
        command: ``comet-score`` or its path.
        sources: documents of sentences, in the shape of the reference.

    Raises UserError if there is no such command, or if it fails.
    """
    scores = []
    for segments in systems:
        source = [sources[document][position - 1] for document, position in segments.positions]
        pairs = segments.sentences
        with tempfile.TemporaryDirectory() as folder:
            names = {"src": source, "hyp": pairs.hypotheses, "ref": pairs.references}
            for name, lines in names.items():
                Path(folder, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            printed = _run([command, "-s", "src", "-t", "hyp", "-r", "ref", "--quiet", "--only_system"], folder)
        found = LINE.search(printed)
        if found is None:
            raise UserError(f"{command}: printed no score ({printed[-300:]!r})")
        scores.append(Score(float(found[1]), COMMAND, len(source)))
    return scores


def _run(command: list[str], folder: str) -> str:
    """Return what a program prints that runs in ``folder``."""
    # Paths of this environment must not reach the other one.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"--comet: no program {command[0]}; install it with: {INSTALL}, then give --comet comet/bin/{COMMAND}"
        ) from None
    if done.returncode:
        raise UserError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
