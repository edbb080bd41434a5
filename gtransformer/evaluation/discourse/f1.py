"""Precision, recall and F1 of what the rules count (Herold and Ney 2023, appendix A.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gtransformer.evaluation.discourse.rules import CLASSES, RULES, Counts, Token


@dataclass(frozen=True)
class F1:
    """Occurrences that reference and hypothesis share, sentence by sentence, and how many each has in all.

    The values are fractions, 0 to 1; where the hypothesis has no occurrence precision is 0, where the reference has
    none recall is 0, and where neither has any there is nothing to judge: all three are None.
    """

    matched: int
    hypothesis: int
    reference: int

    @property
    def precision(self) -> float | None:
        """matched / hypothesis."""
        return self._share(self.hypothesis)

    @property
    def recall(self) -> float | None:
        """matched / reference."""
        return self._share(self.reference)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall, 2 PR / (P + R) = 2 matched / (hypothesis + reference)."""
        total = self.hypothesis + self.reference
        return 2 * self.matched / total if total else None

    def _share(self, of: int) -> float | None:
        if not self.hypothesis + self.reference:
            return None
        return self.matched / of if of else 0.0

    def to_json(self) -> dict:
        """The result as a JSON object."""
        return {
            "f1": self.f1, "precision": self.precision, "recall": self.recall,
            "matched": self.matched, "hypothesis": self.hypothesis, "reference": self.reference,
        }  # fmt: skip


def corpus_f1(pairs: Sequence[tuple[Counts, Counts]], classes: Sequence[str]) -> F1:
    """F1 over sentences ``(hypothesis counts, reference counts)``, summed over ``classes``.

    A sentence matches min(hypothesis, reference) times in each class.
    """
    matched = sum(min(ours[x], theirs[x]) for ours, theirs in pairs for x in classes)
    ours, theirs = (sum(pair[side][x] for pair in pairs for x in classes) for side in (0, 1))
    return F1(matched, ours, theirs)


def discourse_f1(
    sources: Sequence[Sequence[Token]], hypotheses: Sequence[Sequence[Token]], references: Sequence[Sequence[Token]]
) -> dict:
    """``{"pronoun": ..., "formality": ...}``: F1 overall and ``by_class``, and the number of sentences that count.

    The three are tagged sentences, equally many.
    """
    result = {}
    for name, rule in RULES.items():
        pairs = [
            (rule(source, hypothesis), rule(source, reference))
            for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        ]
        classes = CLASSES[name]
        result[name] = corpus_f1(pairs, classes).to_json() | {
            "sentences": sum(bool(sum((Counter(a) + Counter(b)).values())) for a, b in pairs),
            "by_class": {x: corpus_f1(pairs, [x]).to_json() for x in classes},
        }
    return result
