"""Scores of systems: of their translations of a prepared split, or of plain text, against one or several references.

A system is a file of generation for a prepared split (``PREFIX.jsonl``) or plain text. The former can be scored against
each of ``references.REFERENCES``, plain text only against the untouched one, ``raw``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import read_translations
from gtransformer.data.unspaced import word_tokenizer
from gtransformer.errors import UserError
from gtransformer.evaluation.comet import LearnedMetrics
from gtransformer.evaluation.metrics import COLUMNS, DEFAULT_METRICS, INSTANCES, Score
from gtransformer.evaluation.prepared_split import RAW, find_instance_index, read_side
from gtransformer.evaluation.realignment import BY_ORDER, Alignment, read_realigned
from gtransformer.evaluation.reference_texts import GivenText, References, has_hypothesis, read_references
from gtransformer.evaluation.references import REFERENCES, raw_tokenizer, render
from gtransformer.evaluation.segments import Segments, segments_of_text, segments_of_translations
from gtransformer.evaluation.significance import allowed, compare
from gtransformer.files import sha256
from gtransformer.preprocess.formats import Like, detect
from gtransformer.preprocess.formats.documents import HYPOTHESIS, Side
from gtransformer.preprocess.plain_text import Documents, read_plain, read_shaped, write_documents

COUNTS = ("documents", "instances", "sentences", "left_out_sentences", "misaligned_instances")
BREAKDOWNS: dict[str, Callable[[Segments, Sequence[str]], list[dict]]] = {
    "document": Segments.by_document,
    "position": Segments.by_position,
}


@dataclass
class Scores:
    """The scores against one reference (keys as in ``metrics.COLUMNS``), and the segments they were taken over.

    ``detokeniser``: name of the detokeniser of the translation; None: not detokenised.
    """

    values: dict[str, Score]
    segments: Segments = field(repr=False)
    detokeniser: str | None = None

    @property
    def documents(self) -> Documents:
        """The translation as documents of sentences, as text."""
        return self.segments.text

    def to_json(self) -> dict:
        """Return all scores by name."""
        return {name: score.to_json() for name, score in self.values.items()}


@dataclass
class Evaluation:
    """The scores of one file of translations: of ``split``, or of plain text without a prepared corpus (None).

    Attributes:
        scores: by reference.
        metrics: the requested ones.
        alignment: how sentences were aligned if their number differs from the source's.
        borders: how a plain-text reference marks its documents (``corpus.MARKED`` ...).
        name: of the system, in tables.
        documents: of a test set, (number, id) of every scored document.
    """

    split: str | None
    source_lang: str | None
    target_lang: str | None
    counts: dict[str, int]
    scores: dict[str, Scores]
    hypotheses: Path
    metrics: Sequence[str]
    alignment: Alignment = BY_ORDER
    borders: str | None = None
    name: str = ""
    documents: list[tuple[int, str]] | None = None

    def __post_init__(self) -> None:
        self.checksum = sha256(self.hypotheses)
        self.text = self.hypotheses  # path of the translation as plain text

    def write_text(self, wanted: Path | None) -> bool:
        """Write a generated translation as plain text, next to its file or to ``wanted``. Plain text is written only to
        ``wanted``.
        """
        if (not is_generated(self.hypotheses) or self.split is None) and not wanted:
            return False
        self.text = wanted or self.hypotheses.with_suffix(".txt")
        # Without the raw reference, the text is the scored one, not the one for readers.
        write_documents(self.text, next(iter(self.scores.values())).segments.text)
        return True

    def to_json(self, breakdowns: Sequence[str] = ()) -> dict[str, Any]:
        """Return the evaluation as a JSON object, with the requested breakdowns (``BREAKDOWNS``) by reference."""
        return {
            "version": 1,
            "split": self.split,
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "hypotheses": str(self.hypotheses),
            "hypotheses_sha256": self.checksum,
            "counts": self.counts,
            **({} if self.borders is None else {"borders": self.borders}),
            **({} if self.alignment == BY_ORDER else {"alignment": str(self.alignment)}),
            "references": {
                reference: {"computation": REFERENCES[reference], "detokeniser": scores.detokeniser}
                for reference, scores in self.scores.items()
            },
            "scores": {reference: scores.to_json() for reference, scores in self.scores.items()},
            "text": str(self.text),
            **{
                f"by_{name}": {reference: self._breakdown(name, scores) for reference, scores in self.scores.items()}
                for name in breakdowns
            },
        }

    def _breakdown(self, name: str, scores: Scores) -> list[dict]:
        """Return the scores by document or position; documents of a test set have its number and id."""
        rows = BREAKDOWNS[name](scores.segments, self.metrics)
        for row in rows if name == "document" and self.documents is not None else ():
            row["document"], row["id"] = self.documents[row["document"]]
        return rows


def is_generated(path: Path) -> bool:
    """Return whether a file is generation's ``PREFIX.jsonl``, not text or JSON lines with document ids."""
    return path.suffix == ".jsonl" and not detect(path)


def score_translations(
    prepared: str | Path,
    split: str,
    hypotheses: str | Path,
    references: Sequence[str] = ("raw",),
    tokenizer: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    alignment: Alignment = BY_ORDER,
) -> Evaluation:
    """Score the translations ``hypotheses`` of ``split`` of a prepared corpus.

    A translation may have another number of sentences than its source. For s-BLEU it is then aligned by order
    (``align_sentences``) or, with ``alignment`` ``mwer``, its document is cut again (``realignment``); only then may
    plain text differ in number, too. ``counts["misaligned_instances"]`` is the number of such instances (plain text:
    documents). d-BLEU uses the sentences as generated.

    Sentences that are in no instance are left out of hypothesis and reference (``counts["left_out_sentences"]``). If
    instances overlap, a sentence's translation is from the instance in which it is current, the last sentence after
    alignment from the end, for d-BLEU and s-BLEU. There is no d-BLEU by instance then.

    Args:
        hypotheses: a file of generation (``PREFIX.jsonl``), or plain text of another system, aligned with the split.
        references: names from ``REFERENCES``.
        tokenizer: sacrebleu's for the raw reference (default: by target language or script, 13a for most).

    Raises UserError for every mismatch between translations, instance index and reference.
    """
    prepared, hypotheses = Path(prepared), Path(hypotheses)
    instance_index = InstanceIndex.load(find_instance_index(prepared, split))
    generated = is_generated(hypotheses)
    translations = read_translations(hypotheses, instance_index) if generated else []
    scores, misaligned = {}, sum(translation.misaligned for translation in translations)
    for name in dict.fromkeys(references):
        if name not in REFERENCES:
            raise UserError(f"unknown reference {name!r}; choose from: {', '.join(REFERENCES)}")
        if name != "raw" and not generated:
            raise UserError(f"{hypotheses}: plain text can be scored against the raw reference only")
        if generated:
            reference, texts, unit, detokeniser = render(name, prepared, instance_index, translations, tokenizer)
            segments = segments_of_translations(translations, instance_index, reference, texts, unit, alignment)
        else:
            lang, detokeniser = instance_index.target_lang, None
            reference, like = read_side(prepared, instance_index, lang), prepared / RAW / f"{split}.{lang}"
            unit = raw_tokenizer(reference, tokenizer, lang)
            segments, misaligned = _plain_segments(hypotheses, reference, like, unit, alignment, instance_index)
        scores[name] = Scores(segments.scores(metrics), segments, detokeniser)
    instances = len(translations) if generated else len(instance_index.instances)
    sentences = sum(count for *_, count in instance_index.instances)
    counts = instance_index.documents, instances, sentences, len(instance_index.dropped), misaligned
    langs = instance_index.source_lang, instance_index.target_lang
    return Evaluation(split, *langs, dict(zip(COUNTS, counts, strict=True)), scores, hypotheses, metrics, alignment)


def score_text(
    reference: str | Path | References,
    hypotheses: str | Path | GivenText,
    tokenizer: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    alignment: Alignment = BY_ORDER,
) -> Evaluation:
    """Score a plain-text translation against one or several plain-text references; no corpus is needed.

    Documents in the reference start with ``<d>`` or are separated by blank lines; otherwise the file is one document.
    Files may be in one of ``formats.FORMATS``. Raises UserError, naming file and line, if the files are not aligned
    (with ``alignment`` ``mwer``: if documents are not).
    """
    wanted = reference if isinstance(reference, References) else read_references([Path(reference)])
    first, *more = wanted.texts
    path = hypotheses.path if isinstance(hypotheses, GivenText) else Path(hypotheses)
    unit, misaligned = raw_tokenizer(first, tokenizer, wanted.langs[1] or ""), 0
    if isinstance(hypotheses, GivenText):
        alignment = BY_ORDER
        segments = segments_of_text(hypotheses.documents, first, unit, more=more)
    elif wanted.scored is not None:
        if alignment.cuts:
            raise UserError(f"{wanted.path}: some documents have no reference, so --align mwer is not possible")
        text = read_shaped(path, list(wanted.shape), wanted.like, Side(HYPOTHESIS))
        segments = segments_of_text([text[number] for number in wanted.scored], first, unit, more=more)
    else:
        if path.is_file() and path.samefile(wanted.path) and not has_hypothesis(path):
            raise UserError(f"{path}: this is the reference itself; give a translation after --hypotheses")
        segments, misaligned = _plain_segments(path, first, wanted.like, unit, alignment, more=more)
    left_out = sum(wanted.shape) - sum(map(len, first)) if wanted.scored is not None else 0
    counts = dict(zip(COUNTS, (len(first), 0, sum(map(len, first)), left_out, misaligned), strict=True))
    scores, known = {"raw": Scores(segments.scores(metrics), segments)}, wanted.documents
    of = None if known is None else [(number, known[number].id) for number in wanted.scored or range(len(known))]
    return Evaluation(None, *wanted.langs, counts, scores, path, metrics, alignment, wanted.borders, documents=of)


def _plain_segments(
    path: Path,
    reference: Documents,
    like: Like,
    tokenizer: str,
    alignment: Alignment,
    instance_index: InstanceIndex | None = None,
    more: Sequence[Documents] = (),
) -> tuple[Segments, int]:
    """Return segments of plain text, and how many of its documents had to be cut again (as the first reference)."""
    wanted = Side(HYPOTHESIS)
    words = word_tokenizer(tokenizer, chain.from_iterable(reference))
    alignment.splitter(words)  # raises for a tokeniser that does not fit
    if alignment.cuts:
        text, misaligned, whole = read_realigned(path, reference, like, words, wanted, alignment)
    else:
        text, misaligned, whole = read_shaped(path, [len(document) for document in reference], like, wanted), 0, None
    return segments_of_text(text, reference, tokenizer, instance_index, alignment, more, whole), misaligned


def check_plain(path: Path) -> None:
    """Raise UserError for a file of generation (``.jsonl``), which is not plain text."""
    if is_generated(path):
        raise UserError(f"{path}: plain text is needed; give the PREFIX.txt that the score command writes")


def read_aligned(like: Path, others: Iterable[Path]) -> tuple[Documents, str, list[Documents]]:
    """Return the documents of a plain text, how the file marks them, and other texts, which must have the same shape.

    Raises UserError for files of generation (``.jsonl``), which are not plain text, and for files that are not aligned.
    """
    others = list(others)
    for path in others:
        check_plain(path)
    documents, borders = read_plain(like)
    shape = [len(document) for document in documents]
    return documents, borders, [read_shaped(path, shape, like) for path in others]


def name_systems(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """Return (name, file) of every ``[NAME=]FILE``. The default name is the file's, with its folder's if files have
    equal names.

    Raises UserError for two systems with one name.
    """
    given, paths = [], []
    for argument in arguments:
        name, equals, path = argument.partition("=")
        named = bool(equals) and bool(name) and not Path(argument).exists()
        given.append(name if named else None)
        paths.append(Path(path if named else argument))
    stems = [path.name.removesuffix(".jsonl").removesuffix(".txt") for path in paths]
    if len(set(stems)) < len(stems):
        stems = [f"{path.absolute().parent.name}/{stem}" for path, stem in zip(paths, stems, strict=True)]
    names = [name or stem for name, stem in zip(given, stems, strict=True)]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise UserError(f"two systems are called {doubled!r}; name them: --hypotheses NAME=FILE NAME=FILE")
    return list(zip(names, paths, strict=True))


def score_systems(
    named: Iterable[tuple[str, Path | GivenText]],
    score: Callable[..., Evaluation],
    metrics: Sequence[str],
    learned: LearnedMetrics | None = None,
    sources: Callable[[], Documents] | None = None,
) -> list[Evaluation]:
    """Score every system.

    Args:
        named: names and files, or texts that have been read.
        score: ``score_translations`` or ``score_text``; called with ``hypotheses`` and ``metrics``.
        learned: learned metrics, whose scores are added; checked first, so that errors appear at once.
        sources: reads the source documents, which these need.
    """
    read = None
    if learned is not None:
        read = sources()
        learned.check()
    systems = []
    for name, path in named:
        found = score(hypotheses=path, metrics=tuple(dict.fromkeys(metrics)))
        found.name = name
        systems.append(found)
    if learned is not None:
        scores = [system.scores["raw"] for system in systems]
        for one, more in zip(scores, learned.score([one.segments for one in scores], read), strict=True):
            one.values |= more
    return systems


def compare_systems(systems: Sequence[Evaluation], tests: Sequence[str], samples: int | None) -> dict[str, Any]:
    """Return ``{reference: {score: {system: {test: result}}}}`` for all systems but the first, as JSON objects."""
    results: dict[str, Any] = {}
    for reference, scores in systems[0].scores.items():
        segments = {system.name: system.scores[reference].segments for system in systems}
        for key in scores.values:
            # Tests over instances need the same instances in all systems; they may differ or overlap.
            if COLUMNS[key].level == INSTANCES:
                first, *others = (one.instances for one in segments.values())
                if None in (first, *others) or not all(first.has_references_of(other) for other in others):
                    continue
            row: dict[str, dict] = {system.name: {} for system in systems[1:]}
            for test in dict.fromkeys(tests):
                if allowed(key, test):
                    for name, result in compare(segments, key, test, samples).items():
                        row[name][test] = result.to_json()
            if any(row.values()):
                results.setdefault(reference, {})[key] = row
    return results
