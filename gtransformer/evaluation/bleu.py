"""Corpus BLEU by sacrebleu over three kinds of segments: sentences, whole documents, instances.

A document is a list of sentences; a corpus is a list of documents. The segments of hypothesis and reference are made in
the same way, so that segment i of one belongs to segment i of the other. Every score carries sacrebleu's signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gtransformer.evaluation.metrics import BLEU_LC, check_pairs, make_metric


@dataclass(frozen=True)
class BleuScore:
    """One corpus BLEU score (0 to 100) and everything needed to reproduce it.

    ``fourgrams``: of the translation; without any the score is 0, whatever it says.
    """

    score: float
    signature: str
    segments: int
    precisions: list[float]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    fourgrams: int

    def to_json(self) -> dict:
        """The score as a JSON object."""
        return {name: value for name, value in asdict(self).items() if name != "fourgrams"}


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = "13a", lowercase: bool = False
) -> BleuScore:
    """BLEU of ``hypotheses`` against one reference each, as ``sacrebleu --tokenize TOKENIZER`` computes it.

    ``lowercase`` is its ``--lowercase``: upper and lower case are the same. ``tokenizer`` is a name that sacrebleu
    knows; with ``"none"`` the text counts as tokenised already and sacrebleu's warning about that is switched off (its
    ``--force``). Raises UserError for no segments, for unequal numbers of segments and for a tokeniser that sacrebleu
    does not have.
    """
    check_pairs(hypotheses, references)
    metric = make_metric(BLEU_LC if lowercase else "bleu", tokenizer)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return BleuScore(
        score=result.score,
        signature=str(metric.get_signature()),
        segments=len(hypotheses),
        precisions=list(result.precisions),
        brevity_penalty=result.bp,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        fourgrams=result.totals[-1],
    )


def sentence_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """s-BLEU (paper, appendix A): every sentence is a segment."""
    return [sentence for document in documents for sentence in document]


def document_segments(documents: Sequence[Sequence[str]]) -> list[str]:
    """d-BLEU (paper, appendix A): the sentences of a document, joined by a space, are one segment.

    N-grams are thus matched anywhere in the document. Empty sentences leave no trace in the segment.
    """
    return [" ".join(sentence for sentence in document if sentence) for document in documents]
