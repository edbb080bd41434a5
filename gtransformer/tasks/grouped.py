"""Instances of one binarised set, as stored or grouped anew, and those of several sets together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from fairseq.data import ConcatDataset, FairseqDataset

from gtransformer.data.instances import MARKS, STORED, Grouping, Instances
from gtransformer.data.sentences import Place, RunDataset, Sentences, regrouped_places, stored_places, tokens_between
from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import InstanceDataset
from gtransformer.errors import UserError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """One binarised set. ``prefix``: ``DIRECTORY/SPLIT.SOURCE-TARGET.`` of its files."""

    prefix: str
    source: InstanceDataset
    target: InstanceDataset | None

    @property
    def sidecar(self) -> Path:
        """Where its sidecar lies, if it has one."""
        return Path(f"{self.prefix}instances.json")

    def sentences(self) -> Sentences:
        """The view of its sentences. Raises UserError where its files do not belong together."""
        found = self.sidecar.is_file()
        sidecar = Sidecar.load(self.sidecar) if found else None
        return Sentences(self.source, self.target, self.prefix, sidecar, self.sidecar if found else None)


@dataclass(frozen=True)
class Grouped:
    """The instances of one part.

    ``context`` (instances,), ``documents`` (instances, 2) and ``numbers`` (instances,) as ``DocumentPairDataset`` takes
    them, None where nobody asks for them; ``places`` reads where the instances stand.
    """

    source: FairseqDataset
    target: FairseqDataset | None
    context: np.ndarray | None
    documents: np.ndarray | None
    numbers: np.ndarray | None
    places: partial[list[Place] | None]


def stored_as_they_are(part: Part, ordered: bool) -> Grouped:
    """The instances on disk; ``ordered``: with their documents, which the sidecar has to be read for."""
    number, documents, numbers = len(part.source), None, None
    places = partial(stored_places, part.sidecar, part.source)
    if ordered:
        known = places() or [Place(one, 0, 1) for one in range(number)]
        documents = np.array([(place.document, place.first_sentence) for place in known], dtype=np.int64).reshape(-1, 2)
        numbers = documents[:, 1] + 1
    return Grouped(part.source, part.target, None, documents, numbers, places)


def regrouped(view: Sentences, made: Instances) -> Grouped:
    """Instances over the view of a part's sentences."""
    source, target, context = RunDataset(view.source, made.source), None, None
    first = made.current[:, 0]
    if view.target is not None:
        target = RunDataset(view.target, made.target)
        context = tokens_between(view.target.lengths, np.stack([made.target[:, 0], first], 1))
    documents = np.stack([view.document[first], view.position[first]], 1)
    numbers = view.position[made.source[:, 0]] + 1
    return Grouped(source, target, context, documents, numbers, partial(regrouped_places, view, made))


def check_limit(most: int | None, grouping: Grouping) -> None:
    """Raise UserError for a limit that leaves nothing, or that instances as stored cannot be held to."""
    if most is not None and most < 1:
        raise UserError(f"--max-pair-tokens {most}: give 1 or more")
    if most is not None and grouping.kind == STORED:
        raise UserError(
            f"--max-pair-tokens {most}: instances are taken as they are stored; give --instances current "
            "--context-sentences K, or another kind that is made when data are loaded"
        )


def within_limit(view: Sentences, made: Instances, most: int) -> Instances:
    """The instances with at most ``most`` tokens, marks not counted, in what is current and in its context, each side.

    (Zhang et al. 2018 leave out of training what is longer: the public code's limit is 256.)
    """
    kept = np.ones(len(made), dtype=bool)
    for side, ranges in ((view.source, made.source), (view.target, made.target)):
        for part in (np.stack([ranges[:, 0], made.current[:, 0]], 1), made.current):
            kept &= side is None or tokens_between(side.lengths - MARKS, part) <= most
    logger.info("%d of %d instances left out (--max-pair-tokens %d)", len(kept) - kept.sum(), len(kept), most)
    return Instances(made.source[kept], made.target[kept], made.current[kept])


def places_of(groups: list[Grouped], grouping: Grouping) -> Callable[[], list[Place] | None] | None:
    """What reads the places of a split's instances: one part's; of several parts that hold stored instances, none.

    Of several that were grouped anew it raises UserError: their translations could not be put back.
    """
    if len(groups) == 1:
        return groups[0].places
    return None if grouping.kind == STORED else partial(no_places, grouping.kind)


def no_places(kind: str) -> list[Place]:
    """Raise UserError."""
    raise UserError(
        f"--gen-output: translations of --instances {kind} cannot be put back where several sets are combined; "
        "translate one set at a time, or leave --gen-output out"
    )


def joined(datasets: list[FairseqDataset]) -> FairseqDataset:
    """One after the other."""
    return datasets[0] if len(datasets) == 1 else ConcatDataset(datasets)


def following(documents: list[np.ndarray]) -> np.ndarray:
    """(instances, 2) documents and places in them of several parts, documents counted on from part to part."""
    counted, begin = [], 0
    for one in documents:
        counted.append(one + [begin, 0])
        begin += int(one[:, 0].max(initial=-1)) + 1
    return np.concatenate(counted)
