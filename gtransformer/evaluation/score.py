"""Scores of systems: of their translations of a prepared split, or of plain text.

A system is what fairseq-generate wrote for a prepared split (``PREFIX.jsonl`` of ``--gen-output``,
or its standard output with lines ``H-0``, ``H-1``, ...) or plain text. The former can be scored
against each of ``references.REFERENCES``, plain text only against the untouched one, ``raw``.

COMET is computed by unbabel-comet's own command ``comet-score``. The package needs other versions
of numpy and transformers than this one, so it is installed in an environment of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import TRANSLATED, TranslatedInstance, read_translations
from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import COMET, DEFAULT_METRICS, DEFAULT_TITLES, SENTENCES, Score
from gtransformer.evaluation.references import RAW, find_instance_index, raw_tokenizer, render
from gtransformer.evaluation.segments import (
    MWER,
    ORDER,
    Segments,
    read_any_number,
    segments_of_text,
    segments_of_translations,
)
from gtransformer.evaluation.significance import compare
from gtransformer.files import read_lines, sha256, write_lines
from gtransformer.preprocess.chain import pieces_file
from gtransformer.preprocess.instances import BEGIN, END
from gtransformer.preprocess.plain_text import read_plain, read_shaped, write_documents
from gtransformer.preprocess.tokenisers import SPACE

COMET_COMMAND, COMET_MODEL = "comet-score", "Unbabel/wmt22-comet-da"
COMET_INSTALL = (
    "python3.11 -m venv comet && comet/bin/pip install 'unbabel-comet>=2.2.7,<3' 'setuptools<81'"
)
SYSTEM_SCORE = re.compile(r"\tscore: (\S+)$", re.MULTILINE)  # of a system


def add_comet(command: str, systems: Sequence[Evaluation], source: str | Path) -> None:
    """Add the COMET score of each system's sentences to those against the raw reference.

    Args:
        command: ``comet-score`` or its path.
        source: file of the source text, in the shape of the reference.

    Raises UserError if there is no such command, or if it fails.
    """
    scores = [system.scores["raw"] for system in systems]
    first = scores[0].segments
    documents = read_shaped(source, [len(document) for document in first.text], "the reference")
    sources = [documents[document][position - 1] for document, position in first.positions]
    texts = {"source": sources, "reference": first.sentences.references}
    names = []
    for own in scores:
        names.append(f"system{len(names)}")
        texts[names[-1]] = own.segments.sentences.hypotheses
    program = shutil.which(command)
    if program is None:
        raise UserError(
            f"--comet: no program {command}; install it with: {COMET_INSTALL}, then give --comet "
            f"comet/bin/{COMET_COMMAND}"
        )
    line = [str(Path(program).absolute()), "-s", "source", "-r", "reference", "-t", *names]
    line += ["--model", COMET_MODEL, "--quiet", "--only_system"]
    # Paths of this environment must not reach the other one.
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in texts.items():
            write_lines(Path(folder, name), lines)
        done = subprocess.run(
            line, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
        )
    found = SYSTEM_SCORE.findall(done.stdout)
    if len(found) != len(systems):
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise UserError(f"{program} failed: {said}")
    signature = first.signed(f"{COMET_COMMAND}|model:{COMET_MODEL}", SENTENCES)
    for own, score in zip(scores, found, strict=True):
        own.values[COMET] = Score(float(score), signature, len(sources))


# A line of fairseq-generate's standard output.
HYPOTHESIS = re.compile(r"H-(?P<number>\d+)\t\S+\t(?P<text>.*)")


@dataclass
class Scores:
    """The scores against one reference (keys as in ``metrics.COLUMNS``), and the segments they were
    taken over.
    """

    values: dict[str, Score]
    segments: Segments


@dataclass
class Evaluation:
    """The scores of one file of translations: of ``split``, or of plain text without a prepared
    corpus (None).

    Attributes:
        counts: of documents, instances, sentences, sentences in no instance, and misaligned
            instances.
        scores: by reference.
        alignment: how sentences were aligned if their number differs from the source's, one of
            ``ALIGNMENTS``.
        borders: how a plain-text reference marks its documents (``corpus.MARKED`` ...).
        name: of the system, in tables.
    """

    split: str | None
    source_lang: str | None
    target_lang: str | None
    counts: dict[str, int]
    scores: dict[str, Scores]
    hypotheses: Path
    alignment: str = ORDER
    borders: str | None = None
    name: str = ""

    def write_text(self) -> Path | None:
        """Write a generated translation as plain text next to its file, and return the path; None
        for plain text.
        """
        if not is_generated(self.hypotheses):
            return None
        path = self.hypotheses.with_name(f"{self.hypotheses.name.removesuffix('.jsonl')}.txt")
        # Without the raw reference, the text is the scored one, not the one for readers.
        write_documents(path, next(iter(self.scores.values())).segments.text)
        return path

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object."""
        scores = {
            reference: {name: vars(score) for name, score in scores.values.items()}
            for reference, scores in self.scores.items()
        }
        texts = {"hypotheses": str(self.hypotheses), "hypotheses_sha256": sha256(self.hypotheses)}
        return vars(self) | texts | {"scores": scores}


def is_generated(path: Path) -> bool:
    """Return whether a file is what generation wrote, not plain text."""
    # By content, since standard output has no ending of its own.
    return path.suffix == ".jsonl" or (
        path.is_file() and any(map(HYPOTHESIS.match, read_lines(path)))
    )


def read_generated(
    path: Path, instance_index: InstanceIndex, prepared: Path
) -> list[TranslatedInstance]:
    """Read the best translation of every instance, in instance order.

    Of standard output a line ``H-N`` is the translation of the stored instance N; ``</s>`` ends its
    sentences, if it shows any. Raises UserError unless every instance has a translation in the
    pieces of the corpus.
    """
    if path.suffix == ".jsonl":
        return read_translations(path, instance_index)
    best: dict[int, list[str]] = {}
    for found in filter(None, map(HYPOTHESIS.match, read_lines(path))):
        text = found["text"].removesuffix(END).split(f"{END} ")
        # Of several hypotheses the best stands first.
        best.setdefault(
            int(found["number"]),
            [sentence.strip().removeprefix(BEGIN).strip() for sentence in text],
        )
    if sorted(best) != list(range(len(instance_index.instances))):
        raise UserError(
            f"{path}: H-lines of {len(best)} instances, but the split has "
            f"{len(instance_index.instances)}; {TRANSLATED}"
        )
    joined = not any(SPACE in sentence for sentences in best.values() for sentence in sentences)
    if joined and pieces_file(prepared):  # blanks between words would be lost
        raise UserError(
            f"{path}: H-lines without SentencePiece's pieces; generate without --remove-bpe"
        )
    return [
        TranslatedInstance(*span, best[number])
        for number, span in enumerate(instance_index.instances)
    ]


def score_translations(
    prepared: str | Path,
    split: str,
    hypotheses: str | Path,
    references: Sequence[str] = ("raw",),
    tokenizer: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    alignment: str = ORDER,
) -> Evaluation:
    """Score the translations ``hypotheses`` of ``split`` of a prepared corpus.

    A translation may have another number of sentences than its source. For s-BLEU it is then
    aligned by order (``align_sentences``) or, with ``alignment`` ``mwer`` and unless instances
    overlap, its document is cut again (``realignment``); only then may plain text differ in number,
    too. ``counts["misaligned_instances"]`` is the number of such instances (plain text: documents).
    d-BLEU uses the sentences as generated.

    Sentences that are in no instance are left out of hypothesis and reference
    (``counts["left_out_sentences"]``). If instances overlap, a sentence's translation is from the
    instance in which it is current, the last sentence after alignment from the end, for d-BLEU and
    s-BLEU. There is no d-BLEU by instance then.

    Args:
        hypotheses: what generation wrote, or plain text of another system, aligned with the split.
        references: names from ``REFERENCES``.
        tokenizer: sacrebleu's for the raw reference (default: by target language or script, 13a for
            most).

    Raises UserError for every mismatch between translations, instance index and reference.
    """
    prepared, hypotheses = Path(prepared), Path(hypotheses)
    instance_index = InstanceIndex.load(find_instance_index(prepared, split))
    langs = instance_index.source_lang, instance_index.target_lang
    if not is_generated(hypotheses):
        if tuple(references) != ("raw",):
            raise UserError(
                f"{hypotheses}: plain text can be scored against the raw reference only"
            )
        raw = prepared / RAW / f"{split}.{langs[1]}"
        evaluation = score_text(
            raw, hypotheses, tokenizer, metrics, alignment, langs[1], instance_index.dropped
        )
        return replace(evaluation, split=split, source_lang=langs[0], target_lang=langs[1])
    translations = read_generated(hypotheses, instance_index, prepared)
    if not all(translation.whole for translation in translations):
        alignment = ORDER  # of instances that overlap
    scores = {}
    for name in references:
        reference, texts, unit = render(name, prepared, instance_index, translations, tokenizer)
        segments = segments_of_translations(
            translations, instance_index, reference, texts, unit, alignment
        )
        scores[name] = Scores(segments.scores(metrics), segments)
    counts = _counts(segments, len(translations), len(instance_index.dropped))
    return Evaluation(split, *langs, counts, scores, hypotheses, alignment)


def score_text(
    reference: str | Path,
    hypotheses: str | Path,
    tokenizer: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    alignment: str = ORDER,
    lang: str = "",
    left_out: Sequence[tuple[int, int]] = (),
) -> Evaluation:
    """Score a plain-text translation against a plain-text reference; no corpus is needed.

    Documents in the reference start with ``<d>`` or are separated by blank lines; otherwise the
    file is one document. Raises UserError for what fairseq-generate writes, and, naming file and
    line, if the files are not aligned (with ``alignment`` ``mwer``: if documents are not).

    Args:
        lang: the target language, for sacrebleu's tokeniser (default: by the reference's script).
        left_out: document and position, from 0, of sentences that are not scored.
    """
    if is_generated(Path(hypotheses)):
        raise UserError(
            f"{hypotheses}: what fairseq-generate writes needs the prepared corpus instead of "
            "--reference-file; of gtransformer translate --format json give the text (jq -r "
            ".translation)"
        )
    documents, borders = read_plain(reference)
    read = read_any_number if alignment == MWER else read_shaped
    text = read(hypotheses, [len(document) for document in documents], reference)
    unit = raw_tokenizer(documents, tokenizer, lang)
    segments = segments_of_text(text, documents, unit, left_out, alignment)
    scores = {"raw": Scores(segments.scores(metrics), segments)}
    counts = _counts(segments, 0, len(left_out))
    return Evaluation(None, None, None, counts, scores, Path(hypotheses), alignment, borders)


def _counts(segments: Segments, instances: int, left_out: int) -> dict[str, int]:
    return {
        "documents": len(segments.text),
        "instances": instances,
        "sentences": len(segments.positions),
        "left_out_sentences": left_out,
        "misaligned_instances": segments.misaligned,
    }


def name_systems(arguments: Sequence[str]) -> dict[str, Path]:
    """Return file by name of every ``[NAME=]FILE``; the default name is the file's.

    Raises UserError for two systems with one name.
    """
    named = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        # The name of a file may have an equals sign.
        if not equals or Path(argument).exists():
            name, path = Path(argument).name.removesuffix(".jsonl").removesuffix(".txt"), argument
        if name in named:
            raise UserError(
                "two systems have the same name; name them: --hypotheses NAME=FILE NAME=FILE"
            )
        named[name] = Path(path)
    return named


def compare_systems(systems: Sequence[Evaluation]) -> dict[str, Any]:
    """Return ``{reference: {score: {system: result}}}`` for all systems but the first, as JSON
    objects.
    """
    results: dict[str, Any] = {}
    for reference, scores in systems[0].scores.items():
        segments = {system.name: system.scores[reference].segments for system in systems}
        results[reference] = {
            key: {name: vars(result) for name, result in compare(segments, key).items()}
            for key in scores.values
            if key in DEFAULT_TITLES  # computed from counts that can be summed by document
        }
    return results
