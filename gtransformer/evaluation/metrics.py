"""BLEU, chrF and TER by sacrebleu: corpus scores, and the statistics by segment that scores of groups are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from gtransformer.errors import UserError

BLEU_LC = "bleu-lc"  # BLEU of the lower-cased text
METRICS = ("bleu", BLEU_LC, "chrf", "ter")
USUAL = ("bleu", "chrf", "ter")  # what is scored unless somebody asks for others
# sacrebleu's tokenisers for languages without spaces between words; TER has a switch of its own for these.
UNSPACED = frozenset({"zh", "char", "ja-mecab", "ko-mecab"})


@dataclass(frozen=True)
class MetricScore:
    """One corpus score (chrF 0 to 100, TER from 0, COMET mostly 0 to 1) with its signature."""

    score: float
    signature: str
    segments: int

    def to_json(self) -> dict:
        """The score as a JSON object."""
        return asdict(self)


def make_metric(name: str, tokenizer: str = "13a") -> Metric:
    """sacrebleu's metric ``name`` (one of ``METRICS``) with the settings of its command line.

    ``tokenizer`` is BLEU's; with ``"none"`` the text counts as tokenised already (its ``--force``). chrF is chrF2, TER
    is case-insensitive, both as by default there; for a tokeniser of unspaced languages TER cuts Asian scripts.
    Raises UserError for a tokeniser that sacrebleu does not have.
    """
    if tokenizer not in BLEU.TOKENIZERS:
        raise UserError(
            f"sacrebleu has no tokeniser {tokenizer!r}; choose one of: {', '.join(sorted(BLEU.TOKENIZERS))}"
        )
    if name in ("bleu", BLEU_LC):
        try:
            return BLEU(lowercase=name == BLEU_LC, tokenize=tokenizer, force=tokenizer == "none")
        except (ImportError, OSError, RuntimeError) as error:  # a package, or a model that it fetches
            said = " ".join(str(error).split())[:120] or type(error).__name__
            raise UserError(
                f"sacrebleu's tokeniser {tokenizer!r} cannot be used here ({said}); install what it needs (pip install "
                "'sacrebleu[ja]', 'sacrebleu[ko]' or sentencepiece; spm and flores also fetch a model), or give another"
            ) from None
    if name == "chrf":
        return CHRF()
    if name == "ter":
        asian = tokenizer in UNSPACED
        return TER(normalized=asian, asian_support=asian)
    raise UserError(f"unknown metric {name!r}; choose from: {', '.join(METRICS)}")


def higher_is_better(name: str) -> bool:
    """Whether a larger value of the metric is the better one; TER counts errors."""
    return name != "ter"


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
    """The counts that a corpus score is computed from, by segment, so that the score of any group is a sum away.

    ``rows`` is a list of lists of numbers, one by segment: for BLEU lengths, matches and n-gram totals, for chrF
    the counts by order, for TER edits and reference length. They come from the two methods that sacrebleu's own
    paired tests are built upon (``_extract_corpus_statistics``, ``_aggregate_and_compute``): there is no public way
    to the counts of chrF.
    """

    def __init__(self, name: str, hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a"):
        check_pairs(hypotheses, references)
        self.name, self.metric = name, make_metric(name, tokenizer)
        self.rows = [list(row) for row in self.metric._extract_corpus_statistics(list(hypotheses), [list(references)])]
        self.signature = str(self.metric.get_signature())

    def score(self, segments: Iterable[int] | None = None) -> float:
        """The corpus score of the given segments (all of them by default); at least one is needed."""
        rows = self.rows if segments is None else [self.rows[number] for number in segments]
        return self.metric._aggregate_and_compute(rows).score
