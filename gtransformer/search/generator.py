"""fairseq's sequence generator, told how long a document may become."""

from __future__ import annotations

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.search.document_search import EXHAUSTED, DocumentSearch, sentence_limits
from gtransformer.search.positions import within_positions


class DocumentGenerator(SequenceGenerator):
    """Generates whole documents; ``eos`` is the target language symbol, which opens and ends them.

    Length limits hold for each sentence (``--max-len-a``, ``--max-len-b``, ``--min-len``); their sum takes the place
    of fairseq's document-wide limit. ``max_len`` (``--max-len``) still caps a document in ``--doc-mode full``.

    Args:
        models, tgt_dict, options: as for fairseq's SequenceGenerator.
        symbols: (n,) int64 indices that are not words: ``<s>``, ``</s>``, padding and the languages.
    """

    def __init__(self, models, tgt_dict, symbols: Tensor, **options):
        self.sentence_a = options.pop("max_len_a", 0)
        self.sentence_b = options.pop("max_len_b", 200)
        # The constraint counts the words of a sentence; a document itself is never too short.
        options["min_len"] = min(1, options.get("min_len", 1))
        super().__init__(models, tgt_dict, max_len_a=0, max_len_b=0, **options)
        self.symbols = symbols
        self.constrained = isinstance(self.search, DocumentSearch)
        self.longest = self.max_len

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        src_tokens = sample["net_input"]["src_tokens"]
        bos = self.tgt_dict.bos()
        words = ~torch.isin(src_tokens, self.symbols.to(src_tokens.device))
        limits, sentences = sentence_limits(src_tokens, bos, words, self.sentence_a, self.sentence_b)
        limits = within_positions(limits, sentences, self.model.max_decoder_positions())
        if self.constrained:
            untagged = sentences.eq(0).nonzero().flatten()
            if len(untagged):
                number = sample["id"][untagged[0]].item() if "id" in sample else untagged[0].item()
                raise UserError(
                    f"source instance {number} has no <s>: write every sentence as '<s> words </s>' "
                    "(scripts/prepare.sh does), or give --prepend-bos for one sentence a line"
                )
            self.search.start(limits, sentences)
        # Words, <s> and </s> of every sentence, then the language symbol, which fairseq counts apart.
        total = int((limits.sum(dim=1) + 2 * sentences).max())
        if self.constrained:
            # The constraint ends every document. fairseq's limit must lie behind that, because it would make the
            # model pay for the language symbol; prefix tokens may exceed the sentences' limits.
            total += 1 + (0 if prefix_tokens is None else prefix_tokens.shape[1])
        else:
            plain = int(self.sentence_a * words.sum(dim=1).max()) + int(self.sentence_b)
            total = min(max(total, plain), self.longest - 1)
        self.max_len_b, self.max_len = total, total + 1
        finalized = super()._generate(sample, prefix_tokens, constraints, bos_token)
        return [[hypothesis for hypothesis in nbest if hypothesis["score"] > EXHAUSTED / 1e10] for nbest in finalized]
