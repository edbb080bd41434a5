"""The metrics: one table, from which the score command, the tests and the lab take their columns.

To add a metric, write an entry of ``METRICS`` and a test that computes it in another way. No other code names it.

A metric is a function of counts that are summed over segments, so that a significance test can exchange segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreMetric

from gtransformer.data.unspaced import CHARACTERS, word_tokenizer

# Kinds of segments (paper, appendix A): a sentence, a whole document, or an instance as in the authors' release.
SENTENCES, DOCUMENTS, INSTANCES = "sentences", "documents", "instances"
# sacrebleu's tokenisers for languages without spaces between words; TER has its own option for these.
UNSPACED = frozenset({"zh", CHARACTERS, "ja-mecab", "ko-mecab"})
COMET = "comet"


@dataclass(frozen=True)
class Metric:
    """An entry of the table.

    Attributes:
        columns: by kind of segment, the key in result files and the title in tables.
        make: returns sacrebleu's metric for the name of one of its tokenisers. None for a metric that another program
            computes, which has no significance test.
        words: whether it takes from the tokeniser only whether spaces separate words.
        digits: decimal places shown.
    """

    columns: Mapping[str, tuple[str, str]]
    make: Callable[[str], SacreMetric] | None
    words: bool = False
    digits: int = 2


@dataclass(frozen=True)
class Score:
    """One score of a corpus."""

    score: float
    signature: str
    segments: int
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict:
        """Return the score as a JSON object."""
        return {"score": self.score, "signature": self.signature, "segments": self.segments, **self.details}


def _bleu(tokenizer: str) -> BLEU:
    """Return BLEU as computed by sacrebleu's command; the tokeniser "none" implies its ``--force``."""
    return BLEU(tokenize=tokenizer, force=tokenizer == "none")


def _ter(tokenizer: str) -> TER:
    """Return TER, case-insensitive; for languages without spaces with sacrebleu's ``asian_support``."""
    return TER(normalized=tokenizer in UNSPACED, asian_support=tokenizer in UNSPACED)


# TER and chrF are by sentence: TER's shifts over a whole document would take hours and mean little.
METRICS = {
    "bleu": Metric(
        {
            SENTENCES: ("s_bleu", "s-BLEU"),
            DOCUMENTS: ("d_bleu", "d-BLEU"),
            INSTANCES: ("d_bleu_instance", "d-BLEU per instance"),
        },
        _bleu,
    ),
    "chrf": Metric({SENTENCES: ("chrf", "chrF")}, lambda tokenizer: CHRF()),
    "ter": Metric({SENTENCES: ("ter", "TER")}, _ter, words=True),
    COMET: Metric({SENTENCES: ("comet", "COMET")}, None, digits=4),
}


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, its metric's name, and its kind of segments."""

    title: str
    metric: str
    level: str


COLUMNS = {
    key: Column(title, name, level) for name, one in METRICS.items() for level, (key, title) in one.columns.items()
}
DEFAULT_METRICS = tuple(name for name, metric in METRICS.items() if metric.make)  # names for --metrics
# Columns of tables of several systems, by key; without instances, which may differ between systems.
DEFAULT_TITLES = {
    key: column.title
    for key, column in COLUMNS.items()
    if column.metric in DEFAULT_METRICS and column.level != INSTANCES
}
# Scores over sentences: not meaningful if a translation's number of sentences differs from its source's.
ALIGNED = tuple(key for key, column in COLUMNS.items() if column.level == SENTENCES)


class SegmentStatistics:
    """A metric's counts of segments.

    It uses private methods of sacrebleu, which has no public access to the counts.

    Attributes:
        rows: a list of numbers for each segment.
        signature: all settings that are needed to reproduce the score.
    """

    def __init__(self, name: str, hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a"):
        """Count; ``tokenizer`` is sacrebleu's."""
        if METRICS[name].words:
            tokenizer = word_tokenizer(tokenizer, references)
        self._metric = METRICS[name].make(tokenizer)
        self._metric._extract_corpus_statistics(["a"], [["a"]])  # completes the signature
        self.rows = [list(row) for row in self._metric._extract_corpus_statistics(list(hypotheses), [list(references)])]
        self.signature = str(self._metric.get_signature())

    def of_sums(self, sums: list[float]) -> float:
        """Return the score from counts summed over segments."""
        return self._metric._compute_score_from_stats(sums).score

    def score(self, segments: Iterable[int] | None = None) -> float:
        """Return the corpus score of the given segments (default: all); at least one is needed."""
        rows = self.rows if segments is None else [self.rows[number] for number in segments]
        return self.of_sums(_summed(rows))

    def whole(self) -> Score:
        """Return the score of all segments; of BLEU also precisions, brevity penalty and lengths."""
        found = self._metric._compute_score_from_stats(_summed(self.rows))
        details = {}
        if isinstance(self._metric, BLEU):
            details = {
                "precisions": list(found.precisions),
                "brevity_penalty": found.bp,
                "hypothesis_length": found.sys_len,
                "reference_length": found.ref_len,
            }
        return Score(found.score, self.signature, len(self.rows), details)


def _summed(rows: Iterable[Sequence[float]]) -> list[float]:
    """Return the column sums of rows."""
    return [sum(column) for column in zip(*rows, strict=True)]
