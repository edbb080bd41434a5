"""Is one system better than another? Paired tests over sentences, instances or whole documents.

* ``bootstrap``: paired bootstrap resampling (Koehn 2004), by sacrebleu.
* ``document-bootstrap``: the same, but whole documents are drawn for all scores.
* ``randomisation``: paired approximate randomisation (Riezler and Maxwell 2005), by sacrebleu.
* ``sign``: the sign test of Collins et al. (2005), see ``sign_test``.

What is otherwise drawn, exchanged or counted is a segment of the score: a sentence for s-BLEU, chrF and TER, and for
d-BLEU a whole document, as its sentences are not independent of each other.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from gtransformer.errors import UserError
from gtransformer.evaluation.levels import LEVELS
from gtransformer.evaluation.metrics import make_metric
from gtransformer.evaluation.segments import Segments
from gtransformer.evaluation.sign_test import SignTest, sign_test

BY_DOCUMENT = "document-bootstrap"
TESTS = ("bootstrap", BY_DOCUMENT, "randomisation", "sign")
_SACREBLEU = {"bootstrap": "bs", BY_DOCUMENT: "bs", "randomisation": "ar"}
SAMPLES = {"bootstrap": 1000, BY_DOCUMENT: 1000, "randomisation": 10_000}  # sacrebleu's defaults


@dataclass(frozen=True)
class Resampling:
    """A paired test by sacrebleu: p-value (the bootstrap's is of one side), and its mean and 95 % interval (+-)."""

    p_value: float
    mean: float | None
    interval: float | None
    signature: str

    def to_json(self) -> dict:
        """The result as a JSON object."""
        return asdict(self)


def compare(
    systems: Mapping[str, Segments], key: str, test: str, samples: int | None = None
) -> dict[str, Resampling | SignTest]:
    """Test every system but the first, the baseline, for a difference in the score ``key`` of ``LEVELS``.

    Random numbers start from the environment variable SACREBLEU_SEED (12345), as in sacrebleu's command, whose
    values these are; but of systems that have all counts in common the p-value is 1, where sacrebleu's rule, how often
    a difference is larger than the real one, gives the least that there is. Raises UserError for an unknown test, for a
    seed that is no number, for one system alone, for a score that a system lacks and for systems that were not scored
    against the same references.
    """
    if test not in TESTS:
        raise UserError(f"unknown test {test!r}; choose from: {', '.join(TESTS)}")
    if len(systems) < 2:
        raise UserError("a significance test needs a baseline and at least one other system; give two translations")
    level = LEVELS[key]
    pairs = {name: segments.pairs(level.segments) for name, segments in systems.items()}
    (baseline, first), *others = pairs.items()
    for name, pair in pairs.items():
        if pair is None:
            raise UserError(f"system {name}: there are no {level.segments} to compute {level.title} over")
        if pair.references != first.references:
            raise UserError(f"system {name} was not scored against the same {level.segments} as {baseline}")
    statistics = {name: segments.statistics(level.metric, level.segments) for name, segments in systems.items()}
    if test == "sign":
        return {name: sign_test(statistics[baseline], statistics[name]) for name, _ in others}
    seed = os.environ.get("SACREBLEU_SEED", "none")
    if seed.lower() != "none" and not seed.isdecimal():
        raise UserError(
            f"the variable SACREBLEU_SEED is {seed!r}; set it to a whole number, or to none for no fixed seed"
        )
    rows = {name: one.rows for name, one in statistics.items()}
    drawn_whole = ""
    if test == BY_DOCUMENT and level.segments == "sentences":
        drawn_whole = "|drawn:documents"
        rows = {name: summed(own, [place[0] for place in systems[name].places]) for name, own in rows.items()}
    drawn = {name: [name] * len(own) for name, own in rows.items()}  # in the segments' place: only rows count
    with _quiet():
        signatures, results = PairedTest(
            list(drawn.items()),
            {level.metric: _Counted(make_metric(level.metric, systems[baseline].tokenizer), drawn, rows)},
            [first.references],
            test_type=_SACREBLEU[test],
            n_samples=samples or SAMPLES[test],
        )()
    (name,) = signatures
    return {
        system: Resampling(
            p_value=1.0 if rows[system] == rows[baseline] else float(result.p_value),
            mean=None if result.mean is None else float(result.mean),
            interval=None if result.ci is None else float(result.ci),
            signature=systems[baseline].signed(str(signatures[name]), level.segments) + drawn_whole,
        )
        for (system, _), result in zip(others, results[name][1:], strict=True)
    }


def summed(rows: Sequence[Sequence[float]], documents: Sequence[int]) -> list[list[float]]:
    """The counts of sentences, summed by the document of each, in the order of documents."""
    found: dict[int, list[float]] = {}
    for row, document in zip(rows, documents, strict=True):
        found[document] = [one + other for one, other in zip(found.get(document, [0] * len(row)), row, strict=True)]
    return [found[document] for document in sorted(found)]


class _Counted:
    """A metric of sacrebleu's that knows the counts of all systems already, instead of making them for each test."""

    def __init__(self, metric: Metric, drawn: Mapping[str, list[str]], rows: Mapping[str, list[list[float]]]):
        self._metric = metric
        self._rows = {id(segments): rows[name] for name, segments in drawn.items()}

    def _extract_corpus_statistics(self, hypotheses: list[str], references: list[list[str]]) -> list[list[float]]:
        """The rows of a system, told by its very list of segments."""
        self._metric._cache_references(references)  # the signature counts them
        return self._rows[id(hypotheses)]

    def __getattr__(self, name: str):
        return getattr(self._metric, name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """sacrebleu's progress notes, a line per metric and system, kept off the console; its warnings stay."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
