"""``--scoring none`` of fairseq-generate: no score.

What fairseq says at the end otherwise is BLEU of subwords, over instances, which no other score can be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.scoring import BaseScorer, register_scorer

from gtransformer.installation import as_typed

NONE = "none"


@dataclass
class NoScoreConfig(FairseqDataclass):
    """It has no options."""


@register_scorer(NONE, dataclass=NoScoreConfig)
class NoScore(BaseScorer):
    """Counts nothing."""

    def add_string(self, ref: str, pred: str) -> None:
        """Forget both."""

    def score(self) -> float:
        """No number."""
        return float("nan")

    def result_string(self) -> str:
        """Who scores."""
        return f"not scored here; {as_typed('scripts/score.sh')} does"
