"""Measures during training: s-BLEU and d-BLEU (``--eval-bleu``), attention entropy
(``--doc-attn-entropy``).
"""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders import build_tokenizer
from fairseq.logging import metrics
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from gtransformer.data.translations import align_sentences, split_sentences
from gtransformer.data.unspaced import bleu_tokenizer
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.options import Options

logger = logging.getLogger(__name__)


ENTROPY = "_entropy_"  # in the logs: prefix of the sums of attention entropy
LEVELS = ("s_bleu", "d_bleu")
ORDERS = 4


def generator_options(text: str | None) -> Namespace:
    """Return the generator's options in ``--eval-bleu-args``, over defaults."""
    return Namespace(**{"max_len_a": 1.2, "max_len_b": 10, **json.loads(text or "{}")})


def detokeniser(cfg: TranslationDocConfig) -> Callable[[str], str]:
    """Return the detokeniser of ``--eval-bleu-detok``, one of fairseq's tokenizers, for the task's
    languages.
    """
    languages = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}
    options = json.loads(cfg.eval_bleu_detok_args or "{}")
    return build_tokenizer(
        Namespace(tokenizer=cfg.eval_bleu_detok, **{**languages, **options})
    ).decode


class BleuValidation:
    """Translation of validation batches and the statistics of BLEU; every sentence counts once.

    Args:
        generator: of the model in training.
        dictionary: of the target side.
        non_words: its symbols that are no words: padding and languages.
        options: the task's.
    """

    def __init__(
        self,
        generator: SequenceGenerator,
        dictionary: Dictionary,
        non_words: set[int],
        options: Options,
    ):
        self.generator, self.dictionary, self.non_words = generator, dictionary, non_words
        cfg = options.cfg
        self.print_samples, self.remove_bpe = cfg.eval_bleu_print_samples, cfg.eval_bleu_remove_bpe
        self.detokenise = detokeniser(cfg)
        self.tokenize = "none" if cfg.eval_tokenized_bleu else bleu_tokenizer(cfg.target_lang or "")
        self.with_context = options.scheme.with_context

    @torch.no_grad()
    def counts(self, sample: dict, model: nn.Module) -> dict[str, float]:
        """Return ``bleu_counts`` of one batch."""
        generated = self.generator.generate([model], sample, prefix_tokens=None)
        hypotheses = [self._plain(best[0]["tokens"]) for best in generated]
        references = [
            self._plain(utils.strip_pad(line, self.dictionary.pad())) for line in sample["target"]
        ]
        if self.print_samples:
            logger.info("example hypothesis: %s", " | ".join(hypotheses[0]))
            logger.info("example reference: %s", " | ".join(references[0]))
        if self.with_context:
            pairs = [
                current_alone(one, ref) for one, ref in zip(hypotheses, references, strict=True)
            ]
            hypotheses, references = [one for one, _ in pairs], [ref for _, ref in pairs]
        return bleu_counts(hypotheses, references, self.tokenize)

    def _plain(self, tokens: Tensor) -> list[str]:
        sentences = split_sentences(tokens.tolist(), self.dictionary, self.non_words)
        if self.remove_bpe is not None:
            sentences = [
                data_utils.post_process(sentence, self.remove_bpe) for sentence in sentences
            ]
        return [self.detokenise(sentence) for sentence in sentences]


def current_alone(hypothesis: list[str], reference: list[str]) -> tuple[list[str], list[str]]:
    """Return the current (last) sentence of both; the hypothesis is aligned from the end, as for
    scoring.
    """
    return align_sentences(hypothesis, len(reference), from_end=True)[-1:], reference[-1:]


def bleu_counts(
    hypotheses: list[list[str]], references: list[list[str]], tokenize: str
) -> dict[str, float]:
    """Return BLEU statistics of a batch that can be summed.

    Args:
        hypotheses, references: the sentences of each instance. Surplus hypothesis sentences are
            added to the last one, missing ones are empty.
        tokenize: sacrebleu's tokeniser ("none" for tokenised text).
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=tokenize, force=True)
    aligned = [
        align_sentences(one, len(ref)) for one, ref in zip(hypotheses, references, strict=True)
    ]
    logs: dict[str, float] = {}
    texts = {
        "s_bleu": (
            [hyp for one in aligned for hyp in one],
            [ref for one in references for ref in one],
        ),
        "d_bleu": ([" ".join(one) for one in hypotheses], [" ".join(one) for one in references]),
    }
    for level, (hyps, refs) in texts.items():
        score = metric.corpus_score(hyps, [refs])
        statistics = score.sys_len, score.ref_len, *score.counts, *score.totals
        logs |= {f"_{level}_{place}": value for place, value in enumerate(statistics)}
    return logs


def log_bleu(logging_outputs: list[dict]) -> None:
    """Sum the counts of all batches and workers, and log s_bleu, d_bleu and bleu (the same as
    s_bleu).
    """
    for level in LEVELS:
        logs = [log for log in logging_outputs if f"_{level}_0" in log]
        if not logs:
            continue
        sums = [
            sum(float(log[f"_{level}_{place}"]) for log in logs) for place in range(2 + 2 * ORDERS)
        ]
        metrics.log_scalar(f"_{level}_statistics", np.array(sums))
        for name in (level, "bleu") if level == "s_bleu" else (level,):
            metrics.log_derived(
                name, lambda meters, level=level: bleu_of(meters[f"_{level}_statistics"].sum)
            )


def bleu_of(statistics: np.ndarray) -> float:
    """Return BLEU of the sums of ``bleu_counts``."""
    from sacrebleu.metrics import BLEU

    numbers = [int(number) for number in statistics]
    counts, totals = numbers[2 : 2 + ORDERS], numbers[2 + ORDERS :]
    return BLEU.compute_bleu(counts, totals, *numbers[:2], smooth_method="exp").score


def log_entropy(logging_outputs: list[dict]) -> None:
    """Log ``entropy_PART_REACH``, mean bits over queries and layers, and ``..._flat``, that of
    uniform attention.

    Args:
        logging_outputs: with the sums of ``plugin.entropy.measured`` under ENTROPY.
    """
    sums: Counter[str] = Counter()
    for log in logging_outputs:
        sums.update({name: value for name, value in log.items() if name.startswith(ENTROPY)})
    for name, queries in sums.items():
        if name.endswith("_queries") and queries:
            kind = name.removesuffix("_queries")
            for key in (kind, f"{kind}_flat"):
                metrics.log_scalar(key.removeprefix("_"), sums[key] / queries, queries, round=4)
