"""Scores of a system: s-BLEU and d-BLEU (paper, appendix A), cased and lower-cased, chrF, TER and COMET.

A system is either the translations of a prepared split (``PREFIX.jsonl``) or plain text. The former can be scored
against each of ``references.REFERENCES``, plain text against the untouched one, ``raw``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.data.translations import read_translations
from gtransformer.errors import UserError
from gtransformer.evaluation.bleu import BleuScore
from gtransformer.evaluation.levels import score_levels
from gtransformer.evaluation.metrics import USUAL, MetricScore
from gtransformer.evaluation.prepared_split import (
    RAW,
    check_reference,
    find_sidecar,
    read_target,
    reference_files,
)
from gtransformer.evaluation.realignment import MWER, ORDER, read_realigned
from gtransformer.evaluation.references import REFERENCES, raw_tokenizer, render
from gtransformer.evaluation.segments import Documents, Segments, segments_of_text, segments_of_translations
from gtransformer.files import sha256
from gtransformer.preprocess.plain_text import read_plain, read_shaped


@dataclass
class Scores:
    """The scores against one reference (keys as in ``levels.LEVELS``), and the segments they were taken over.

    ``detokeniser``: what has made the translation plain text; None where nothing has.
    """

    values: dict[str, BleuScore | MetricScore]
    segments: Segments = field(repr=False)
    detokeniser: str | None = None

    @property
    def documents(self) -> Documents:
        """The hypothesis as it was scored: documents of sentences."""
        return self.segments.text

    def to_json(self) -> dict:
        """The scores as a JSON object, without the text."""
        return {name: score.to_json() for name, score in self.values.items()}


@dataclass
class Evaluation:
    """Scores against each reference asked for, and what was counted on the way.

    ``borders``: how a plain-text reference marks its documents (``corpus.MARKED`` and so on).
    """

    split: str | None
    source_lang: str | None
    target_lang: str | None
    counts: dict[str, int]
    scores: dict[str, Scores]
    hypotheses: Path
    checksum: str
    alignment: str = ORDER
    borders: str | None = None

    def to_json(self) -> dict:
        """The evaluation as a JSON object."""
        return {
            "version": 1,
            "split": self.split,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "hypotheses": str(self.hypotheses),
            "hypotheses_sha256": self.checksum,
            "counts": self.counts,
            **({} if self.borders is None else {"borders": self.borders}),
            **({} if self.alignment == ORDER else {"alignment": self.alignment}),
            "references": {
                reference: {"computation": REFERENCES[reference], "detokeniser": scores.detokeniser}
                for reference, scores in self.scores.items()
            },
            "scores": {reference: scores.to_json() for reference, scores in self.scores.items()},
        }


def score_translations(
    prepared: str | Path,
    split: str,
    hypotheses: str | Path,
    references: Sequence[str] = ("raw",),
    tokenizer: str | None = None,
    moses: str | None = None,
    metrics: Sequence[str] = USUAL,
    alignment: str = ORDER,
) -> Evaluation:
    """Score the translations ``hypotheses`` of ``split`` of a prepared corpus.

    ``hypotheses`` is what generation wrote (``PREFIX.jsonl``), or plain text aligned with the split, another system's.
    ``references`` are names from ``REFERENCES``; ``tokenizer`` is sacrebleu's for the raw reference (default: by target
    language or script, 13a for most); ``moses`` a folder with the Moses scripts, if those shall detokenise for the raw
    reference.

    s-BLEU of a translation with another number of sentences than its source is taken after aligning by order
    (``align_sentences``) or, with ``alignment`` ``mwer``, after cutting its document anew (``realignment``), and then
    plain text may have other numbers, too; ``counts["misaligned_instances"]`` says how many there were (of plain text:
    documents). d-BLEU uses the sentences as they were produced. Sentences that no instance holds are left out of
    hypothesis and reference (``counts["left_out_sentences"]``). Where instances overlap, a sentence's translation is
    taken from the instance in which it is current, the last of those aligned from the end, for d-BLEU as for s-BLEU;
    and there is no d-BLEU by instance. Raises UserError for every mismatch between translations, sidecar and reference.
    """
    prepared, hypotheses = Path(prepared), Path(hypotheses)
    sidecar = Sidecar.load(find_sidecar(prepared, split))
    generated = hypotheses.suffix == ".jsonl"
    translations = read_translations(hypotheses, sidecar) if generated else []
    scores, misaligned = {}, sum(translation.misaligned for translation in translations)
    for name in dict.fromkeys(references):
        if name not in REFERENCES:
            raise UserError(f"unknown reference {name!r}; choose from: {', '.join(REFERENCES)}")
        if name != "raw" and not generated:
            raise UserError(f"{hypotheses}: plain text can be scored against the raw reference only")
        check_reference(prepared, sidecar, name)
        if generated:
            made = render(name, prepared, sidecar, translations, tokenizer, moses)
            segments = segments_of_translations(
                translations, sidecar, made.reference, made.hypotheses, made.tokenizer, alignment
            )
            detokeniser = made.detokeniser
        else:
            reference, detokeniser = read_target(prepared, sidecar, RAW), None
            (like,) = reference_files(prepared, split, sidecar.target_lang)["raw"]
            unit = raw_tokenizer(reference, tokenizer, sidecar.target_lang)
            text, misaligned = read_text(hypotheses, reference, like, unit, alignment)
            segments = segments_of_text(text, reference, unit, sidecar, alignment)
        scores[name] = Scores(score_levels(segments, tuple(metrics)), segments, detokeniser)
    counts = {
        "documents": sidecar.documents,
        "instances": len(translations) if generated else len(sidecar.instances),
        "sentences": sum(count for *_, count in sidecar.instances),
        "left_out_sentences": len(sidecar.dropped),
        "misaligned_instances": misaligned,
    }
    langs = sidecar.source_lang, sidecar.target_lang
    return Evaluation(split, *langs, counts, scores, hypotheses, sha256(hypotheses), alignment)


def score_text(
    reference: str | Path,
    hypotheses: str | Path,
    tokenizer: str | None = None,
    metrics: Sequence[str] = USUAL,
    alignment: str = ORDER,
) -> Evaluation:
    """Score a plain-text translation against a plain-text reference, aligned line by line; no corpus is needed.

    Documents are those that ``<d>`` opens in the reference, or that blank lines separate; without any the file is one
    document. Raises UserError, naming file and line, where the two are not aligned (``alignment`` ``mwer``: where
    documents are not).
    """
    if Path(hypotheses).exists() and Path(hypotheses).samefile(reference):
        raise UserError(f"{hypotheses}: is the reference itself; give a translation after --hypotheses")
    wanted, borders = read_plain(reference)
    unit = raw_tokenizer(wanted, tokenizer)
    text, misaligned = read_text(hypotheses, wanted, reference, unit, alignment)
    segments = segments_of_text(text, wanted, unit, alignment=alignment)
    counts = {
        "documents": len(wanted),
        "instances": 0,
        "sentences": sum(map(len, wanted)),
        "left_out_sentences": 0,
        "misaligned_instances": misaligned,
    }
    scores = {"raw": Scores(score_levels(segments, tuple(metrics)), segments)}
    return Evaluation(None, None, None, counts, scores, Path(hypotheses), sha256(hypotheses), alignment, borders)


def read_text(
    hypotheses: str | Path, reference: Documents, like: str | Path, tokenizer: str, alignment: str
) -> tuple[Documents, int]:
    """Plain text in the shape of its reference, and how many of its documents had to be brought into it."""
    if alignment == MWER:
        return read_realigned(hypotheses, reference, like, tokenizer)
    return read_shaped(hypotheses, [len(document) for document in reference], like), 0
