"""s-BLEU during training (``--eval-bleu``), counted as fairseq-generate counts it."""

from __future__ import annotations

import logging

from fairseq.tasks import FairseqTask
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore
from torch import Tensor

from gtransformer.data.translations import align_sentences
from gtransformer.data.unspaced import bleu_tokenizer
from gtransformer.plugin.scores import sentences_of

logger = logging.getLogger(__name__)


def sentence_bleu(task: FairseqTask, generated: list[list[dict]], targets: Tensor) -> BLEUScore:
    """Return BLEU over the sentences of a batch; every sentence counts once.

    Surplus sentences of a translation are added to its last one, missing ones are empty. Of
    instances with context the last sentence counts alone.

    Args:
        task: a task translation_doc.
        generated: fairseq's hypotheses of each instance, best first.
        targets: (batch, length) int64, its targets.
    """
    cfg, dictionary = task.cfg, task.target_dictionary

    def sentences(tokens: Tensor, unknown: str) -> list[str]:
        symbols = {"unk_string": unknown, "extra_symbols_to_ignore": task.sides.no_text}
        text = dictionary.string(tokens, cfg.eval_bleu_remove_bpe, **symbols)
        return sentences_of(task.detokeniser.decode(text))

    hypotheses: list[str] = []
    references: list[str] = []
    for nbest, target in zip(generated, targets, strict=True):
        # Unknown words are no match; each is one word to any tokeniser, as with fairseq.
        reference = sentences(target, "UNKNOWNTOKENINREF")
        hypothesis = sentences(nbest[0]["tokens"], "UNKNOWNTOKENINHYP")
        from_end = task.options.scheme.with_context
        aligned = align_sentences(hypothesis, len(reference), from_end)
        first = len(reference) - 1 if from_end else 0
        # Sentences of the context are current in other instances and count there.
        hypotheses += aligned[first:]
        references += reference[first:]
    if cfg.eval_bleu_print_samples:
        logger.info("example hypothesis: %s", hypotheses[0])
        logger.info("example reference: %s", references[0])
    tokenize = "none" if cfg.eval_tokenized_bleu else bleu_tokenizer(cfg.target_lang or "")
    score = BLEU(tokenize=tokenize, force=True).corpus_score(hypotheses, [references])
    # Of no words at all fairseq would log no BLEU, and a training that selects by it would end.
    score.totals[0] = max(score.totals[0], 1)
    return score
