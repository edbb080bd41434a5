"""Learned metrics of unbabel-comet, which also read the source: COMET, COMETKiwi, XCOMET, and SLIDE.

The package needs other versions of numpy and transformers than this one. So it is installed in an environment of its
own, and ``comet_process`` runs there.

SLIDE (Raunak et al. 2024) scores windows of several sentences of a document by a metric without references. The last
window of a document has the rest (our choice).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation import comet_process
from gtransformer.evaluation.metrics import SENTENCES, WINDOW, Score
from gtransformer.evaluation.segments import Segments, document_segments
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.plain_text import Documents

COMET, KIWI, XCOMET, SLIDE = LEARNED = ("comet", "kiwi", "xcomet", "slide")  # names on the command line
KEYS = {COMET: "comet", KIWI: "comet_kiwi", XCOMET: "xcomet", SLIDE: "slide"}  # of ``metrics.COLUMNS``
WITH_REFERENCES = (COMET, XCOMET)
DEFAULT_MODELS = {
    COMET: "Unbabel/wmt22-comet-da",
    KIWI: "Unbabel/wmt22-cometkiwi-da",
    XCOMET: "Unbabel/XCOMET-XL",
    SLIDE: "Unbabel/wmt22-cometkiwi-da",
}
INSTALL = "python3.11 -m venv comet && comet/bin/pip install 'unbabel-comet>=2.2.7,<3' 'setuptools<81'"
Sides = dict[str, list[list[str]]]  # src, mt, ref: of each segment its context and its own sentence


def parse_models(given: Sequence[str], metrics: Sequence[str]) -> dict[str, str]:
    """Return the model of each metric from arguments ``[METRIC=]MODEL``.

    Raises UserError for a model of no metric, or of one that is not computed, and for a checkpoint that does not exist.
    """
    models = {metric: DEFAULT_MODELS[metric] for metric in metrics}
    for argument in given:
        metric, equals, model = argument.partition("=")
        if not equals or metric not in LEARNED:
            if len(metrics) > 1:
                raise UserError(f"--comet-model {argument}: say which metric's, as {metrics[0]}={argument}")
            metric, model = metrics[0], argument
        if metric not in metrics:
            raise UserError(f"--comet-model {argument}: {metric} is not computed; add it to --comet")
        if model.endswith(".ckpt") and not Path(model).is_file():
            raise UserError(f"{model}: no such file; give the checkpoint of a model of unbabel-comet")
        models[metric] = model
    return models


@dataclass(frozen=True)
class LearnedMetrics:
    """Learned metrics to compute, and the Python that has unbabel-comet.

    Attributes:
        models: by metric, a name of the Hugging Face hub (downloaded at first use) or a checkpoint file.
        context: number of previous sentences that are read with each one; not for SLIDE.
    """

    python: str
    models: Mapping[str, str]
    context: int = 0

    def check(self) -> None:
        """Raise UserError if this Python has no unbabel-comet, or a model cannot be had. Downloads models."""
        self._run([])

    def score(self, systems: Sequence[Segments], sources: Documents) -> list[dict[str, Score]]:
        """Return every system's scores by key of ``metrics.COLUMNS``. Each model is loaded once.

        Raises UserError as ``check``, and for a model of another kind than its metric.
        """
        asked = [(metric, number) for metric in self.models for number in range(len(systems))]
        jobs = []
        for metric, number in asked:
            if metric == SLIDE:
                sides, context = windows(systems[number], sources), 0
            else:
                sides, context = with_context(systems[number], sources, self.context, metric), self.context
            jobs.append({"metric": metric, "context": context, "sides": sides})
        result = self._run(jobs)
        scores: list[dict[str, Score]] = [{} for _ in systems]
        for (metric, number), job in zip(asked, result["jobs"], strict=True):
            key = KEYS[metric] if metric == SLIDE or not self.context else f"{KEYS[metric]}_context"
            found = _score(job, f"comet:{self.models[metric]}|version:{result['version']}", metric, self.context)
            signature = systems[number].signed(found.signature, SENTENCES)
            scores[number][key] = replace(found, signature=signature)
        return scores

    def _run(self, jobs: list[dict[str, Any]]) -> dict[str, Any]:
        """Run ``comet_process`` and return its result."""
        python = shutil.which(self.python)
        if python is None:
            raise UserError(
                f"--comet-python {self.python}: no such program; give the Python of an environment with unbabel-comet, "
                f"which this makes: {INSTALL}"
            )
        # Paths of this environment must not reach the other one.
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "errors", "w+b") as errors:
            request, result = Path(folder) / "request.json", Path(folder) / "result.json"
            request.write_text(json.dumps({"models": dict(self.models), "jobs": jobs}), encoding="utf-8")
            command = [python, comet_process.__file__, str(request), str(result)]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True,
                encoding="utf-8", errors="replace",
            )  # fmt: skip
            try:
                total = sum(len(job["sides"]["mt"]) for job in jobs)
                with progress(label="learned metrics", total=total, unit=" segments") as bar:
                    for line in process.stdout:
                        if line.startswith("scored "):
                            bar.update(int(line.split()[1]) - bar.n)
                status = process.wait()
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            if status or not result.is_file():
                errors.seek(0)
                lines = errors.read().decode("utf-8", "replace").split("\n")
                said = next((line.strip() for line in reversed(lines) if line.strip()), f"status {status}")
                raise UserError(f"{self.python}: unbabel-comet failed ({said[:300]})")
            found = json.loads(result.read_text(encoding="utf-8"))
        if "fault" in found:
            raise UserError(self._fault(found))
        return found

    def _fault(self, found: Mapping[str, Any]) -> str:
        if found["fault"] == "package":
            return f"{self.python}: has no unbabel-comet ({found['reason']}); make an environment for it: {INSTALL}"
        if found["fault"] == "references":
            what = "needs references, as COMET" if found["needed"] else "reads no references, as COMETKiwi"
            return f"the model {found['model']} {what}; give it to another metric with --comet-model METRIC=MODEL"
        return (
            f"the model {found['model']} cannot be loaded ({found['reason']}); check its name, its licence on the hub "
            "and the connection, or give the path of a .ckpt file with --comet-model"
        )


def _score(job: Mapping[str, Any], signature: str, metric: str, context: int) -> Score:
    """Return the mean score of a job, with counts of texts that were too long for the encoder."""
    scores = job["scores"]
    details = {"too_long": job["too_long"]}
    if metric == SLIDE:
        signature += f"|windows:{WINDOW}|moved:{WINDOW}"
    elif context:
        signature += f"|context:{context}|of:{'reference' if metric in WITH_REFERENCES else 'hypothesis'}"
        signature += f"|scored:{'sentence' if job['pooled'] else 'text'}"
        details["context_cut"] = job["context_cut"]
    parts = []
    if job["too_long"]:
        what = "windows" if metric == SLIDE else "segments"
        parts.append(f"{job['too_long']} {what} are longer than the encoder reads, so their ends do not count")
    if details.get("context_cut"):
        parts.append(f"{job['context_cut']} segments have less context, so that the encoder can read them")
    return Score(sum(scores) / len(scores), signature, len(scores), details, "; ".join(parts))


def with_context(segments: Segments, sources: Documents, context: int, metric: str) -> Sides:
    """Return every sentence after up to ``context`` previous ones of its document.

    Before a translation stand the reference's sentences (Vernikos et al. 2022); for a metric without references, the
    translation's own. Sentences that are left out of the segments are not context.
    """
    pairs, positions = segments.sentences, segments.positions
    given = [sources[document][position - 1] for document, position in positions]
    references = metric in WITH_REFERENCES
    before = {"src": given, "mt": pairs.references if references else pairs.hypotheses, "ref": pairs.references}
    own = {"src": given, "mt": pairs.hypotheses, "ref": pairs.references}
    at = {one: number for number, one in enumerate(positions)}
    wanted = [
        [at[document, one] for one in range(position - context, position) if (document, one) in at]
        for document, position in positions
    ]
    return {
        side: [[*(before[side][one] for one in earlier), own[side][n]] for n, earlier in enumerate(wanted)]
        for side in ("src", "mt", *(("ref",) if references else ()))
    }


def windows(segments: Segments, sources: Documents, size: int = WINDOW) -> Sides:
    """Return the windows of each document, as single texts: ``size`` sentences, joined by blanks."""
    numbers: dict[int, list[int]] = {}
    for number, (document, _) in enumerate(segments.positions):
        numbers.setdefault(document, []).append(number)
    groups = [one[begin : begin + size] for one in numbers.values() for begin in range(0, len(one), size)]
    given = [sources[document][position - 1] for document, position in segments.positions]
    return {
        side: [[text] for text in document_segments([[sentences[number] for number in group] for group in groups])]
        for side, sentences in (("src", given), ("mt", segments.sentences.hypotheses))
    }
