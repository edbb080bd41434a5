"""The systems that the score command compares: their names, their scores, the tests between them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.evaluation.comet import comet_of_segments, load_comet
from gtransformer.evaluation.levels import LEVELS
from gtransformer.evaluation.plain_text import read_plain, read_shaped
from gtransformer.evaluation.prepared_split import find_sidecar, read_source
from gtransformer.evaluation.references import references_of
from gtransformer.evaluation.score import Evaluation, score_text, score_translations
from gtransformer.evaluation.segments import Documents, Segments
from gtransformer.evaluation.significance import compare


@dataclass
class System:
    """One system: its name in tables, its file and its scores."""

    name: str
    path: Path
    evaluation: Evaluation
    metrics: tuple[str, ...]

    @property
    def generated(self) -> bool:
        """Whether the file is what generation wrote, and not plain text."""
        return self.path.suffix == ".jsonl"

    @property
    def stem(self) -> str:
        """The file's name without ``.jsonl``; of plain text the whole name."""
        return self.path.name.removesuffix(".jsonl")


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


def score_systems(args: argparse.Namespace, named: Sequence[tuple[str, Path]]) -> list[System]:
    """Score every system; a model of COMET that cannot be had is noticed before anything else."""
    comet = load_comet(args.comet_model) if args.comet else None
    references = references_of(args.reference)
    metrics = tuple(dict.fromkeys(args.metrics))
    systems = []
    for name, path in named:
        if args.prepared is None:
            evaluation = score_text(args.reference_file, path, args.tokenize, metrics)
        else:
            evaluation = score_translations(
                args.prepared, args.split, path, references, args.tokenize, args.moses, metrics
            )
        if comet is not None:
            scores = evaluation.scores["raw"]
            scores.values["comet"] = comet_of_segments(comet, args.comet_model, read_sources(args), scores.segments)
        systems.append(System(name, path, evaluation, metrics))
    return systems


def read_sources(args: argparse.Namespace) -> Documents:
    """The source documents of what is scored."""
    if args.prepared is None:
        wanted, _ = read_plain(args.reference_file)
        return read_shaped(args.source_file, [len(document) for document in wanted], args.reference_file)
    sidecar = Sidecar.load(find_sidecar(args.prepared, args.split))
    return read_source(args.prepared, sidecar)


def same_instances(systems: Iterable[Segments]) -> bool:
    """Whether all systems translated the same instances, and these do not overlap."""
    first, *others = (segments.instances and segments.instances.references for segments in systems)
    return first is not None and all(other == first for other in others)


def test_systems(systems: Sequence[System], tests: Sequence[str], samples: int | None) -> dict:
    """``{reference: {score: {system: {test: result}}}}`` for all systems but the first, as JSON objects."""
    results: dict = {}
    if not tests:
        return results
    for reference, scores in systems[0].evaluation.scores.items():
        segments = {system.name: system.evaluation.scores[reference].segments for system in systems}
        for key in scores.values:
            if key not in LEVELS:  # COMET's own significance tool needs its scores by sentence
                continue
            if LEVELS[key].segments == "instances" and not same_instances(segments.values()):
                continue
            row: dict = {system.name: {} for system in systems[1:]}
            for test in dict.fromkeys(tests):
                for name, result in compare(segments, key, test, samples).items():
                    row[name][test] = result.to_json()
            results.setdefault(reference, {})[key] = row
    return results
