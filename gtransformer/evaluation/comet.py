"""Learned metrics of unbabel-comet, which also read the source: COMET, COMETKiwi, XCOMET, and SLIDE.

The package needs other versions of numpy and transformers than this one. So it is installed in an environment of its
own, and ``comet_process`` runs there. Scores of several references are averaged (our choice).

SLIDE (Raunak et al. 2024) scores windows of several sentences of a document by a metric without references. The last
window of a document has the rest (our choice).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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
        part: file in which finished parts are kept until ``finish``; after an interruption they are not scored again.
        context: number of previous sentences that are read with each one; not for SLIDE.
    """

    python: str
    models: Mapping[str, str]
    part: Path
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
            references = 1 + len(systems[number].sentences.more) if metric in WITH_REFERENCES else 1
            signature = f"comet:{self.models[metric]}|version:{result['version']}"
            found = _score(job, signature, metric, self.context, references)
            signature = systems[number].signed(found.signature, SENTENCES)
            scores[number][key] = replace(found, signature=signature)
        return scores

    def finish(self) -> None:
        """Remove the file of finished parts; for use once the scores have been written."""
        self.part.unlink(missing_ok=True)

    def _kept(self) -> str:
        """Return what to say of finished parts after a failure."""
        return f"; finished parts are kept in {self.part}, and the same command resumes" if self.part.exists() else ""

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
            asked = {"models": dict(self.models), "part": str(self.part.resolve()), "jobs": jobs}
            request.write_text(json.dumps(asked), encoding="utf-8")
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
            except KeyboardInterrupt:
                print(f"learned metrics are not finished{self._kept()}", file=sys.stderr)
                raise
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            if status or not result.is_file():
                errors.seek(0)
                lines = errors.read().decode("utf-8", "replace").split("\n")
                said = next((line.strip() for line in reversed(lines) if line.strip()), f"status {status}")
                raise UserError(f"{self.python}: unbabel-comet failed ({said[:300]}){self._kept()}")
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


def _score(job: Mapping[str, Any], signature: str, metric: str, context: int, references: int) -> Score:
    """Return the mean score of a job, with counts of texts that were too long for the encoder."""
    scores = job["scores"]
    what = "windows" if metric == SLIDE else "segments" if references == 1 else "pairs of segment and reference"
    if references > 1:
        signature += f"|nrefs:{references}|mean over references"
    details = {"too_long": job["too_long"]}
    if metric == SLIDE:
        signature += f"|windows:{WINDOW}|moved:{WINDOW}"
    elif context:
        signature += f"|context:{context}|of:{'reference' if metric in WITH_REFERENCES else 'hypothesis'}"
        signature += f"|scored:{'sentence' if job['pooled'] else 'text'}"
        details["context_cut"] = job["context_cut"]
    parts = []
    if job["too_long"]:
        parts.append(f"{job['too_long']} {what} are longer than the encoder reads, so their ends do not count")
    if details.get("context_cut"):
        parts.append(f"{job['context_cut']} {what} have less context, so that the encoder can read them")
    return Score(sum(scores) / len(scores), signature, len(scores) // references, details, "; ".join(parts))


def with_context(segments: Segments, sources: Documents, context: int, metric: str) -> Sides:
    """Return every sentence after up to ``context`` previous ones of its document, against each reference in turn.

    Before a translation stand the reference's sentences (Vernikos et al. 2022); for a metric without references, the
    translation's own. Sentences that are left out of the segments are not context.
    """
    pairs, positions = segments.sentences, segments.positions
    given = [sources[document][position - 1] for document, position in positions]
    at = {one: number for number, one in enumerate(positions)}
    wanted = [
        [at[document, one] for one in range(position - context, position) if (document, one) in at]
        for document, position in positions
    ]

    def side(own: Sequence[str], before: Sequence[str]) -> list[list[str]]:
        return [[*(before[one] for one in earlier), own[number]] for number, earlier in enumerate(wanted)]

    if metric not in WITH_REFERENCES:
        return {"src": side(given, given), "mt": side(pairs.hypotheses, pairs.hypotheses)}
    found: Sides = {"src": [], "mt": [], "ref": []}
    for reference in (pairs.references, *pairs.more):
        found["src"] += side(given, given)
        found["mt"] += side(pairs.hypotheses, reference)
        found["ref"] += side(reference, reference)
    return found


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
