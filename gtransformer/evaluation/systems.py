"""Systems side by side: their names, their scores, the tests between them, their translations as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.evaluation.breakdown import by_document, by_position
from gtransformer.evaluation.comet import comet_of_segments, load_comet
from gtransformer.evaluation.levels import LEVELS
from gtransformer.evaluation.prepared_split import find_sidecar, read_source
from gtransformer.evaluation.realignment import ORDER
from gtransformer.evaluation.score import Evaluation, score_text, score_translations
from gtransformer.evaluation.segments import Documents, Segments
from gtransformer.evaluation.significance import allowed, compare
from gtransformer.preprocess.plain_text import read_plain, read_shaped, write_documents

BREAKDOWNS = {"document": by_document, "position": by_position}


@dataclass(frozen=True)
class Against:
    """What translations are scored against: a split of a prepared corpus or, without one, a file of plain text.

    Attributes:
        references: those of the prepared corpus (``references.REFERENCES``).
        tokenizer, moses, alignment: see ``score.score_translations``.
        file: the reference without a prepared corpus; ``source``: what it translates.
    """

    prepared: Path | None
    split: str = "test"
    references: Sequence[str] = ("raw",)
    tokenizer: str | None = None
    moses: str | None = None
    file: Path | None = None
    source: Path | None = None
    alignment: str = ORDER

    def score(self, path: Path, metrics: Sequence[str]) -> Evaluation:
        """The scores of a translation."""
        if self.prepared is None:
            return score_text(self.file, path, self.tokenizer, metrics, self.alignment)
        options = self.references, self.tokenizer, self.moses, metrics, self.alignment
        return score_translations(self.prepared, self.split, path, *options)

    @property
    def name(self) -> str:
        """What was translated, for headings."""
        if self.prepared is None:
            return self.file.name
        return f"{'/'.join(self.prepared.resolve().parts[-2:])}, {self.split}"

    def sources(self) -> Documents:
        """The source documents of what is scored."""
        if self.prepared is None:
            wanted, _ = read_plain(self.file)
            return read_shaped(self.source, [len(document) for document in wanted], self.file)
        return read_source(self.prepared, Sidecar.load(find_sidecar(self.prepared, self.split)))


@dataclass
class ScoredSystem:
    """One system: its name in tables, its file and its scores; ``text``: its translation as plain text."""

    name: str
    path: Path
    evaluation: Evaluation
    metrics: tuple[str, ...]
    text: Path

    @property
    def stem(self) -> str:
        """The file's name without ``.jsonl``; of plain text the whole name."""
        return self.path.name.removesuffix(".jsonl")

    def write_text(self, wanted: Path | None) -> bool:
        """Write a generated translation, beside it or to ``wanted``; without ``wanted`` plain text is left alone."""
        if self.path.suffix != ".jsonl" and not wanted:
            return False
        self.text = wanted or self.path.with_name(f"{self.stem}.txt")
        # Without the raw reference the text is not what a reader wants, but what was scored.
        write_documents(self.text, next(iter(self.evaluation.scores.values())).documents)
        return True

    def to_json(self, breakdowns: Sequence[str] = ()) -> dict:
        """The scores and, if asked for, their breakdowns (``BREAKDOWNS``) by reference."""
        result = self.evaluation.to_json() | {"text": str(self.text)}
        for name in breakdowns:
            result[f"by_{name}"] = {
                reference: BREAKDOWNS[name](scores.segments, self.metrics)
                for reference, scores in self.evaluation.scores.items()
            }
        return result


def name_systems(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """(name, file) of every ``[NAME=]FILE``; without a name it is the file's, and its folder's where those are equal.

    Raises UserError for two systems of one name.
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
    named: Sequence[tuple[str, Path]],
    against: Against,
    metrics: Sequence[str],
    comet: str | None = None,
    context: int = 0,
) -> list[ScoredSystem]:
    """Score every system; ``comet``: a model of COMET, too, noticed before anything else if it cannot be had.

    ``context``: previous sentences that COMET reads; its score is then ``comet_context``.
    """
    loaded = load_comet(comet) if comet else None
    metrics = tuple(dict.fromkeys(metrics))
    systems = []
    for name, path in named:
        evaluation = against.score(path, metrics)
        if loaded is not None:
            scores = evaluation.scores["raw"]
            key = "comet_context" if context else "comet"
            scores.values[key] = comet_of_segments(loaded, comet, against.sources(), scores.segments, context)
        systems.append(ScoredSystem(name, path, evaluation, metrics, path))
    return systems


def same_instances(systems: Iterable[Segments]) -> bool:
    """Whether all systems translated the same instances, and these do not overlap."""
    first, *others = (segments.instances and segments.instances.references for segments in systems)
    return first is not None and all(other == first for other in others)


def compare_systems(systems: Sequence[ScoredSystem], tests: Sequence[str], samples: int | None) -> dict:
    """``{reference: {score: {system: {test: result}}}}`` for all systems but the first, as JSON objects."""
    results: dict = {}
    for reference, scores in systems[0].evaluation.scores.items():
        segments = {system.name: system.evaluation.scores[reference].segments for system in systems}
        for key in scores.values:
            if key not in LEVELS:  # COMET's own significance tool needs its scores by sentence
                continue
            if LEVELS[key].segments == "instances" and not same_instances(segments.values()):
                continue
            row: dict = {system.name: {} for system in systems[1:]}
            for test in dict.fromkeys(tests):
                if allowed(key, test):
                    for name, result in compare(segments, key, test, samples).items():
                        row[name][test] = result.to_json()
            if any(row.values()):
                results.setdefault(reference, {})[key] = row
    return results
