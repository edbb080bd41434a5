"""The metrics: one table, from which the score command, breakdowns, tests and the arena take their columns.

To add a metric, write an entry of ``METRICS`` and a test that computes it in another way; nothing else names it.
A metric is a function of numbers that are counted by segment and summed. So the score of any group of segments is a sum
away: of a document, of a position in documents, of what a significance test exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreMetric

from gtransformer.errors import UserError

# What a segment is (paper, appendix A): a sentence, a whole document, or an instance as the authors' release has it.
SENTENCES, DOCUMENTS, INSTANCES = "sentences", "documents", "instances"
# sacrebleu's tokenisers for languages without spaces between words; TER has a switch of its own for these.
UNSPACED = frozenset({"zh", "char", "ja-mecab", "ko-mecab"})
NO_FOURGRAM = "no translated segment has four words, so it is 0 however good they are"


@dataclass(frozen=True)
class Measure:
    """What computes a metric.

    Attributes:
        signature: all that is needed to reproduce a score.
        count: from hypotheses and references the numbers of each segment.
        score: from such numbers, summed over segments, the score.
        details: from the same sums, what else a result file says of the score.
        warn: from the same sums, what a reader should be warned of, or "".
    """

    signature: str
    count: Callable[[list[str], list[str]], Sequence[Sequence[float]]]
    score: Callable[[list[float]], float]
    details: Callable[[list[float]], dict[str, Any]] = lambda sums: {}
    warn: Callable[[list[float]], str] = lambda sums: ""


@dataclass(frozen=True)
class Metric:
    """An entry of the table.

    Attributes:
        columns: over which segments it is taken: of each kind, the key in result files and the title in tables.
        measure: from the name of sacrebleu's tokeniser, what computes it; None for what is no function of sums. The
            command has options of its own for that, and there are neither tests nor breakdowns of such a metric.
        usual: whether it is computed unless others are asked for.
        lower_is_better: as of a number of errors.
        digits: shown behind the decimal point.
    """

    columns: Mapping[str, tuple[str, str]]
    measure: Callable[[str], Measure] | None
    default: bool = True
    lower_is_better: bool = False
    digits: int = 2


@dataclass(frozen=True)
class Score:
    """One score of a corpus."""

    score: float
    signature: str
    segments: int
    details: dict[str, Any] = field(default_factory=dict)
    warning: str = ""

    def to_json(self) -> dict:
        """Return the score as a JSON object."""
        return {"score": self.score, "signature": self.signature, "segments": self.segments, **self.details}


def _sacrebleu(metric: SacreMetric, **more: Callable) -> Measure:
    """Return a metric of sacrebleu's, by the methods that its own paired tests use; there is no public way to the
    counts.
    """

    def count(hypotheses: list[str], references: list[str]) -> list:
        return metric._extract_corpus_statistics(hypotheses, [references])

    # A signature is complete once text has been read.
    metric._extract_corpus_statistics(["a"], [["a"]])
    return Measure(
        str(metric.get_signature()), count, lambda sums: metric._compute_score_from_stats(sums).score, **more
    )


def _bleu(tokenizer: str, lowercase: bool = False) -> Measure:
    """BLEU as of sacrebleu's command; with the tokeniser "none" text counts as tokenised (its ``--force``)."""
    try:
        metric = BLEU(lowercase=lowercase, tokenize=tokenizer, force=tokenizer == "none")
    except (ImportError, OSError, RuntimeError) as error:  # a package, or a model that it fetches
        said = " ".join(str(error).split())[:120] or type(error).__name__
        raise UserError(
            f"sacrebleu's tokeniser {tokenizer!r} cannot be used here ({said}); install what it needs (pip install "
            "'sacrebleu[ja]', 'sacrebleu[ko]' or sentencepiece; spm and flores also fetch a model), or give another"
        ) from None

    def details(sums: list[float]) -> dict[str, Any]:
        found = metric._compute_score_from_stats(sums)
        return {
            "precisions": list(found.precisions),
            "brevity_penalty": found.bp,
            "hypothesis_length": found.sys_len,
            "reference_length": found.ref_len,
        }

    return _sacrebleu(metric, details=details, warn=lambda sums: "" if sums[-1] else NO_FOURGRAM)


def _ter(tokenizer: str) -> Measure:
    """TER, case-insensitive; of languages without spaces it counts characters."""
    asian = tokenizer in UNSPACED
    return _sacrebleu(TER(normalized=asian, asian_support=asian))


# TER and chrF are taken by sentence: TER's shifts over a whole document would take hours and say little.
METRICS = {
    "bleu": Metric(
        {
            SENTENCES: ("s_bleu", "s-BLEU"),
            DOCUMENTS: ("d_bleu", "d-BLEU"),
            INSTANCES: ("d_bleu_instance", "d-BLEU per instance"),
        },
        _bleu,
    ),
    "bleu-lc": Metric(
        {SENTENCES: ("s_bleu_lc", "s-BLEU lower-cased"), DOCUMENTS: ("d_bleu_lc", "d-BLEU lower-cased")},
        lambda tokenizer: _bleu(tokenizer, lowercase=True),
        default=False,
    ),
    "chrf": Metric({SENTENCES: ("chrf", "chrF")}, lambda tokenizer: _sacrebleu(CHRF())),
    "ter": Metric({SENTENCES: ("ter", "TER")}, _ter, lower_is_better=True),
    "comet": Metric({SENTENCES: ("comet", "COMET")}, None, digits=4),
    "comet_context": Metric({SENTENCES: ("comet_context", "COMET with context")}, None, digits=4),
}


@dataclass(frozen=True)
class Column:
    """A score as tables have it: its title, its metric's name, and what its segments are."""

    title: str
    metric: str
    level: str


COLUMNS = {
    key: Column(title, name, level) for name, one in METRICS.items() for level, (key, title) in one.columns.items()
}
COUNTED = tuple(name for name, metric in METRICS.items() if metric.measure)  # those that --metrics can name
DEFAULT_METRICS = tuple(name for name in COUNTED if METRICS[name].default)
# What tables of several systems show, by key; instances are not the same for all of them.
DEFAULT_TITLES = {
    key: column.title
    for key, column in COLUMNS.items()
    if column.metric in DEFAULT_METRICS and column.level != INSTANCES
}
# Over sentences, so that they say nothing where a translation has not as many as its source.
ALIGNED = tuple(key for key, column in COLUMNS.items() if column.level == SENTENCES)


def check_metrics(metrics: Iterable[str]) -> None:
    """UserError for a name that is not in ``COUNTED``."""
    for name in metrics:
        if name not in COUNTED:
            raise UserError(f"unknown metric {name!r}; choose from: {', '.join(COUNTED)}")


def check_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """UserError unless there are segments, and as many translated ones as references."""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} translated segments stand against {len(references)} references; "
            "score the translations against the split they were made from"
        )
    if not hypotheses:
        raise UserError("there is no segment to score; translate the split first")


class SegmentStatistics:
    """What a metric counts in each of some segments: ``rows``, a list of numbers a segment.

    Raises UserError for no segments, for unequal numbers of them and for a tokeniser that sacrebleu does not have.
    """

    def __init__(self, name: str, hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a"):
        check_metrics([name])
        check_pairs(hypotheses, references)
        if tokenizer not in BLEU.TOKENIZERS:
            raise UserError(
                f"sacrebleu has no tokeniser {tokenizer!r}; choose one of: {', '.join(sorted(BLEU.TOKENIZERS))}"
            )
        self.name, self.measure = name, METRICS[name].measure(tokenizer)
        self.rows = [list(row) for row in self.measure.count(list(hypotheses), list(references))]

    def score(self, segments: Iterable[int] | None = None) -> float:
        """Return the corpus score of the given segments (all of them by default); at least one is needed."""
        rows = self.rows if segments is None else [self.rows[number] for number in segments]
        return self.measure.score(summed(rows))

    def whole(self) -> Score:
        """Return the score of all segments."""
        sums, measure = summed(self.rows), self.measure
        details, warning = measure.details(sums), measure.warn(sums)
        return Score(measure.score(sums), measure.signature, len(self.rows), details, warning)


def summed(rows: Iterable[Sequence[float]]) -> list[float]:
    """Return the sums of the columns of rows."""
    return [sum(column) for column in zip(*rows, strict=True)]
