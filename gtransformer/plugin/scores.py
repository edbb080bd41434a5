"""What fairseq-generate prints and writes of a translation, as in the authors' release: BLEU by
sentence and instance.

The release keeps ``<s>`` and ``</s>`` in the text of an instance, joins subwords and detokenises
the whole of it, and cuts it into sentences last. A final ``@@`` then does not join two sentences,
and quotation marks are counted over the instance.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar, Optional

from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.scoring import register_scorer
from omegaconf import OmegaConf, open_dict
from sacrebleu.metrics import BLEU

from gtransformer.data.translations import align_sentences
from gtransformer.files import write_lines

logger = logging.getLogger(__name__)

BUCKETS = 5  # the first positions in an instance, each of which has its own BLEU


class DocumentDictionary(Dictionary):
    """A dictionary whose text shows where sentences begin and end."""

    def string(
        self,
        tensor,
        bpe_symbol=None,
        escape_unk=False,
        extra_symbols_to_ignore=None,
        unk_string=None,
        **_,
    ):
        """Return the words of tokens (length,), with ``<s>`` and ``</s>``; arguments are
        fairseq's.
        """
        ignored = set(extra_symbols_to_ignore or ())
        unknown = unk_string or self.unk_string(escape_unk)
        words = []
        for token in tensor.tolist():
            if token not in ignored:
                words.append(unknown if token == self.unk() else self[token])
        return data_utils.post_process(" ".join(words), bpe_symbol)


def sentences_of(text: str) -> list[str]:
    """Cut the text of an instance at ``</s>``, as the release does; words after the last one are a
    sentence, too.
    """
    *sentences, rest = [part.strip() for part in text.replace("<s>", "").split("</s>")]
    return [*sentences, rest] if rest else sentences


@dataclass
class DocumentScorerConfig(FairseqDataclass):
    """Settings of ``DocumentScorer``, made by ``score_documents``."""

    title: str = ""
    by_sentence: bool = True
    tokenize: str = "13a"
    output: Optional[str] = None  # noqa: UP045


@register_scorer("documents", dataclass=DocumentScorerConfig)
class DocumentScorer:
    """BLEU over sentences, over instances, and over the sentences at each of the first positions in
    an instance.
    """

    # The instances' numbers in the order of ``add_string``, to which fairseq does not pass them;
    # the task adds them.
    numbers: ClassVar[list[int]] = []

    def __init__(self, cfg: DocumentScorerConfig):
        self.cfg = cfg
        self.texts: list[tuple[str, str]] = []
        self.numbers.clear()

    def add_string(self, reference: str, hypothesis: str) -> None:
        """Add the text of an instance, with ``<s>`` and ``</s>``."""
        self.texts.append((hypothesis, reference))

    def result_string(self) -> str:
        """Log the release's lines, write its files, and return s-BLEU, or with ``--doc-mode full``
        d-BLEU.

        The release drops empty sentences, and stops if hypothesis and reference then differ in
        number. Here they count.
        """
        in_order = sorted(zip(self.numbers, self.texts, strict=True))
        pairs = [tuple(map(sentences_of, texts)) for _, texts in in_order]
        documents = [
            (" ".join(filter(None, hyp)), " ".join(filter(None, ref))) for hyp, ref in pairs
        ]
        if not self.cfg.by_sentence:
            return self._level("document", documents)
        different = sum(len(hyp) != len(ref) for hyp, ref in pairs)
        if different:
            logger.warning(
                "%d translations have another number of sentences than their references", different
            )
        if empty := sum(not sentence for pair in pairs for side in pair for sentence in side):
            logger.info(
                "%d empty sentences are scored, which the authors' release would leave out", empty
            )
        aligned = [
            list(zip(align_sentences(hyp, len(ref)), ref, strict=True)) for hyp, ref in pairs
        ]
        result = self._level("sentence", [pair for instance in aligned for pair in instance])
        self._level("document", documents)
        for place in range(BUCKETS):
            there = [instance[place] for instance in aligned if place < len(instance)]
            logger.info("Bucket %d-th sent: %s", place, self._bleu(there) if there else "empty.")
        return result

    def _level(self, name: str, pairs: list[tuple[str, str]]) -> str:
        """Return BLEU of (hypothesis, reference) pairs as text; log it, and write the pairs to
        files.
        """
        result = self._bleu(pairs)
        logger.info("[%s-level] %s: %s", name, self.cfg.title, result)
        if self.cfg.output:
            kind = {"document": "doc", "sentence": "sent"}[name]
            write_lines(f"{self.cfg.output}.{kind}.gen", [hypothesis for hypothesis, _ in pairs])
            write_lines(f"{self.cfg.output}.{kind}.ref", [reference for _, reference in pairs])
        return result

    def _bleu(self, pairs: list[tuple[str, str]]) -> str:
        """Return sacrebleu's BLEU in the release's format."""
        hypotheses, references = zip(*pairs, strict=True)
        score = BLEU(tokenize=self.cfg.tokenize).corpus_score(hypotheses, [references])
        precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
        lengths = f"ratio={score.ratio:.3f}, hyp_len={score.sys_len}, ref_len={score.ref_len}"
        return f"BLEU = {score.score:.2f}, {precisions} (BP={score.bp:.3f}, {lengths})"


def score_documents(args: Any, by_sentence: bool, output: str | None) -> None:
    """Let fairseq-generate score by ``DocumentScorer`` where it would use BLEU.

    Args:
        args: fairseq's options of generation, a part of the whole command's.
        output: the prefix of ``--gen-output``.
    """
    if not OmegaConf.is_config(args) or args._get_root() is args:
        return  # not fairseq-generate's
    with open_dict(args._get_root()) as whole:
        if args.sacrebleu or whole.scoring._name in ("bleu", "sacrebleu"):
            title = f"Generate {whole.dataset.gen_subset} with beam={args.beam}"
            settings = {"title": title, "by_sentence": by_sentence, "output": output}
            settings["tokenize"] = whole.scoring.get("sacrebleu_tokenizer", "13a")
            whole.scoring = {"_name": "documents", **settings}
