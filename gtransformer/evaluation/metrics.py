"""The metrics: one table, from which the score command, breakdowns, tests and the arena take their columns.

To add a metric, write an entry of ``METRICS`` and a test that computes it in another way. No other code names it.

A metric is a function of counts that are summed over segments. So it can be computed for any group of segments: a
document, a position in documents, or the exchanged units of a significance test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreMetric

from gtransformer.data.unspaced import CHARACTERS, SOUTHEAST_ASIAN, word_tokenizer
from gtransformer.errors import UserError

# Kinds of segments (paper, appendix A): a sentence, a whole document, or an instance as in the authors' release.
SENTENCES, DOCUMENTS, INSTANCES = "sentences", "documents", "instances"
# Chunks of consecutive sentences of a document; the last one of a document may have fewer.
CHUNKS = {f"chunks of {size} sentences": size for size in (2, 4, 8)}
WINDOW = 6  # sentences (Raunak et al. 2024)
WINDOWS = f"windows of {WINDOW} sentences"  # SLIDE
# sacrebleu's tokenisers for languages without spaces between words; TER has its own option for these.
UNSPACED = frozenset({"zh", CHARACTERS, "ja-mecab", "ko-mecab"})
NO_FOURGRAM = "no translated segment has four words, so it is 0 however good they are"


@dataclass(frozen=True)
class Measure:
    """The functions that compute a metric.

    Attributes:
        signature: all settings that are needed to reproduce a score.
        count: returns each segment's counts from hypotheses and references, a list for each reference.
        score: returns the score from counts summed over segments.
        details: returns further fields of the result file from the same sums.
        warn: returns a warning for the reader from the same sums, or "".
    """

    signature: str
    count: Callable[[list[str], list[list[str]]], Sequence[Sequence[float]]]
    score: Callable[[list[float]], float]
    details: Callable[[list[float]], dict[str, Any]] = lambda sums: {}
    warn: Callable[[list[float]], str] = lambda sums: ""


@dataclass(frozen=True)
class Metric:
    """An entry of the table.

    Attributes:
        columns: by kind of segment, the key in result files and the title in tables.
        measure: returns the ``Measure`` for the name of a sacrebleu tokeniser and a number of references. None for a
            metric that is not a function of sums: the command has separate options for it, and it has neither tests
            nor breakdowns.
        words: whether it takes from the tokeniser only whether spaces separate words.
        default: whether it is computed by default.
        lower_is_better: as for a number of errors.
        digits: decimal places shown.
    """

    columns: Mapping[str, tuple[str, str]]
    measure: Callable[[str, int], Measure] | None
    words: bool = False
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


def _sacrebleu(metric: SacreMetric, references: int, **more: Callable) -> Measure:
    """Return a sacrebleu metric as a ``Measure``. It uses private methods, as sacrebleu has no public access to the
    counts.
    """

    def count(hypotheses: list[str], references: list[list[str]]) -> list:
        return metric._extract_corpus_statistics(hypotheses, references)

    # A signature is complete once text has been read.
    metric._extract_corpus_statistics(["a"], [["a"]] * references)
    return Measure(
        str(metric.get_signature()), count, lambda sums: metric._compute_score_from_stats(sums).score, **more
    )


def _bleu(tokenizer: str, references: int, lowercase: bool = False) -> Measure:
    """Return BLEU as computed by sacrebleu's command; the tokeniser "none" implies its ``--force``."""
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

    return _sacrebleu(metric, references, details=details, warn=lambda sums: "" if sums[-1] else NO_FOURGRAM)


def _ter(tokenizer: str, references: int) -> Measure:
    """Return TER, case-insensitive; for languages without spaces with sacrebleu's ``asian_support``.

    It leaves Thai, Lao, Burmese and Khmer as they are, so their characters are separated before.
    """
    asian = tokenizer in UNSPACED
    measure = _sacrebleu(TER(normalized=asian, asian_support=asian), references)
    if tokenizer != CHARACTERS:
        return measure

    def count(hypotheses: list[str], references: list[list[str]]) -> Sequence[Sequence[float]]:
        return measure.count(_apart(hypotheses), list(map(_apart, references)))

    return replace(measure, signature=f"{measure.signature}|chars:th+lo+my+km", count=count)


def _apart(texts: list[str]) -> list[str]:
    return [SOUTHEAST_ASIAN.sub(r" \g<0> ", text) for text in texts]


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
    "bleu-lc": Metric(
        {SENTENCES: ("s_bleu_lc", "s-BLEU lower-cased"), DOCUMENTS: ("d_bleu_lc", "d-BLEU lower-cased")},
        lambda tokenizer, references: _bleu(tokenizer, references, lowercase=True),
        default=False,
    ),
    "bleu-chunks": Metric(
        {level: (f"d_bleu_{size}", f"d-BLEU by {size}") for level, size in CHUNKS.items()},
        _bleu,
        default=False,
    ),
    "chrf": Metric({SENTENCES: ("chrf", "chrF")}, lambda tokenizer, references: _sacrebleu(CHRF(), references)),
    "ter": Metric({SENTENCES: ("ter", "TER")}, _ter, words=True, lower_is_better=True),
    "comet": Metric({SENTENCES: ("comet", "COMET")}, None, digits=4),
    "comet_context": Metric({SENTENCES: ("comet_context", "COMET with context")}, None, digits=4),
    "comet_kiwi": Metric({SENTENCES: ("comet_kiwi", "COMETKiwi")}, None, digits=4),
    "comet_kiwi_context": Metric({SENTENCES: ("comet_kiwi_context", "COMETKiwi with context")}, None, digits=4),
    "xcomet": Metric({SENTENCES: ("xcomet", "XCOMET")}, None, digits=4),
    "xcomet_context": Metric({SENTENCES: ("xcomet_context", "XCOMET with context")}, None, digits=4),
    "slide": Metric({WINDOWS: ("slide", "SLIDE")}, None, digits=4),
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
COUNTED = tuple(name for name, metric in METRICS.items() if metric.measure)  # names for --metrics
DEFAULT_METRICS = tuple(name for name in COUNTED if METRICS[name].default)
# Columns of tables of several systems, by key; without instances, which may differ between systems.
DEFAULT_TITLES = {
    key: column.title
    for key, column in COLUMNS.items()
    if column.metric in DEFAULT_METRICS and column.level != INSTANCES
}
# Scores over sentences: not meaningful if a translation's number of sentences differs from its source's.
ALIGNED = tuple(key for key, column in COLUMNS.items() if column.level in (SENTENCES, *CHUNKS))


def check_metrics(metrics: Iterable[str]) -> None:
    """Raise UserError for a name that is not in ``COUNTED``."""
    for name in metrics:
        if name not in COUNTED:
            raise UserError(f"unknown metric {name!r}; choose from: {', '.join(COUNTED)}")


class SegmentStatistics:
    """A metric's counts of segments: ``rows`` has a list of numbers per segment.

    ``more``: further references. Raises UserError for a tokeniser unknown to sacrebleu.
    """

    def __init__(
        self,
        name: str,
        hypotheses: Sequence[str],
        references: Sequence[str],
        tokenizer: str = "13a",
        more: Sequence[Sequence[str]] = (),
    ):
        every = [list(one) for one in (references, *more)]
        if tokenizer not in BLEU.TOKENIZERS:
            raise UserError(
                f"sacrebleu has no tokeniser {tokenizer!r}; choose one of: {', '.join(sorted(BLEU.TOKENIZERS))}"
            )
        if METRICS[name].words:
            tokenizer = word_tokenizer(tokenizer, every[0])
        self.name, self.measure = name, METRICS[name].measure(tokenizer, len(every))
        self.rows = [list(row) for row in self.measure.count(list(hypotheses), every)]

    def score(self, segments: Iterable[int] | None = None) -> float:
        """Return the corpus score of the given segments (default: all); at least one is needed."""
        rows = self.rows if segments is None else [self.rows[number] for number in segments]
        return self.measure.score(summed(rows))

    def whole(self) -> Score:
        """Return the score of all segments."""
        sums, measure = summed(self.rows), self.measure
        details, warning = measure.details(sums), measure.warn(sums)
        return Score(measure.score(sums), measure.signature, len(self.rows), details, warning)


def summed(rows: Iterable[Sequence[float]]) -> list[float]:
    """Return the column sums of rows."""
    return [sum(column) for column in zip(*rows, strict=True)]
