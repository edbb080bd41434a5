"""The metrics: one table of functions and one of columns, from which the score command and the lab
take theirs.

A metric is a function of counts that are summed over segments, so that a significance test can
exchange segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER

from gtransformer.data.unspaced import CHARACTERS, word_tokenizer

# Kinds of segments (paper, appendix A): a sentence, a whole document, or an instance as in the
# authors' release.
SENTENCES, DOCUMENTS, INSTANCES = "sentences", "documents", "instances"
# sacrebleu's tokenisers for languages without spaces between words; TER has its own option for
# these.
UNSPACED = frozenset({"zh", CHARACTERS, "ja-mecab", "ko-mecab"})
COMET = "comet"  # computed by another program, without counts


# sacrebleu's metric for one of its tokenisers, as computed by its command: "none" implies its
# --force, and TER has its own option for text without spaces. chrF needs no tokeniser.
METRICS = {
    "bleu": lambda tokenizer: BLEU(tokenize=tokenizer, force=tokenizer == "none"),
    "chrf": lambda tokenizer: CHRF(),
    "ter": lambda tokenizer: TER(
        normalized=tokenizer in UNSPACED, asian_support=tokenizer in UNSPACED
    ),
}
DEFAULT_METRICS = tuple(METRICS)


class Column(NamedTuple):
    """A column of a table: its title, its metric's name, and its kind of segments."""

    title: str
    metric: str
    level: str


# By key in result files. TER and chrF are by sentence: TER's shifts over a whole document would
# take hours.
COLUMNS = {
    "s_bleu": Column("s-BLEU", "bleu", SENTENCES),
    "d_bleu": Column("d-BLEU", "bleu", DOCUMENTS),
    "d_bleu_instance": Column("d-BLEU per instance", "bleu", INSTANCES),
    "chrf": Column("chrF", "chrf", SENTENCES),
    "ter": Column("TER", "ter", SENTENCES),
    COMET: Column("COMET", COMET, SENTENCES),
}
# Columns of tables of several systems, by key; without instances, which may differ between systems.
DEFAULT_TITLES = {key: COLUMNS[key].title for key in ("s_bleu", "d_bleu", "chrf", "ter")}


@dataclass(frozen=True)
class Score:
    """One score of a corpus. ``summary``: sacrebleu's, of BLEU with precisions, brevity penalty and
    lengths.
    """

    score: float
    signature: str
    segments: int
    summary: str = ""


class SegmentStatistics:
    """A metric's counts of segments.

    It uses private methods of sacrebleu, which has no public access to the counts.

    Attributes:
        rows: a list of numbers for each segment.
        signature: all settings that are needed to reproduce the score.
    """

    def __init__(
        self,
        name: str,
        hypotheses: Sequence[str],
        references: Sequence[str],
        tokenizer: str = "13a",
    ):
        """Count; ``tokenizer`` is sacrebleu's."""
        if name == "ter":  # which takes from the tokeniser only whether spaces separate words
            tokenizer = word_tokenizer(tokenizer, references)
        self._metric = METRICS[name](tokenizer)
        # The signature has the number of references, which sacrebleu learns from a first corpus.
        self._metric._extract_corpus_statistics(["a"], [["a"]])  # completes the signature
        self.rows = [
            list(row)
            for row in self._metric._extract_corpus_statistics(list(hypotheses), [list(references)])
        ]
        self.signature = str(self._metric.get_signature())

    def of_sums(self, sums: list[float]) -> float:
        """Return the score from counts summed over segments."""
        return self._metric._compute_score_from_stats(sums).score

    def score(self, segments: Iterable[int]) -> float:
        """Return the corpus score of the given segments; at least one is needed."""
        return self.of_sums(_summed(self.rows[number] for number in segments))

    def whole(self) -> Score:
        """Return the score of all segments."""
        found = self._metric._compute_score_from_stats(_summed(self.rows))
        return Score(found.score, self.signature, len(self.rows), str(found))


def _summed(rows: Iterable[Sequence[float]]) -> list[float]:
    """Return the column sums of rows."""
    return [sum(column) for column in zip(*rows, strict=True)]
