"""fairseq's sequence generator, told how long a document may become."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fairseq.search import BeamSearch as FairseqBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.search.beam import BeamSearch, Rules
from gtransformer.search.document_search import EXHAUSTED, DocumentSearch, sentence_limits
from gtransformer.search.positions import available, within_positions


class DocumentGenerator(SequenceGenerator):
    """Generates whole documents behind a given ``<s>``; ``eos`` is the target language symbol, which ends them.

    Length limits hold for each sentence (``--max-len-a``, ``--max-len-b``, ``--min-len``); their sum takes the place
    of fairseq's document-wide limit. ``max_len`` (``--max-len``) still caps a document in ``--doc-mode full``.

    Plain beam search under the constraint goes the faster way of ``search/beam.py``; other strategies, prefix tokens,
    lexical constraints, n-gram blocking and language models go through fairseq's loop.

    Args:
        models, tgt_dict, options: as for fairseq's SequenceGenerator.
        symbols: (n,) int64 source indices that are not words: ``<s>``, ``</s>``, padding and the languages.
        documents_at_once: how many documents of a batch are translated at a time; 0 means all.
    """

    def __init__(self, models, tgt_dict, symbols: Tensor, documents_at_once: int = 0, **options):
        self.sentence_a = options.pop("max_len_a", 0)
        self.sentence_b = options.pop("max_len_b", 200)
        # The constraint counts the words of a sentence; a document itself is never too short.
        options["min_len"] = min(1, options.get("min_len", 1))
        super().__init__(models, tgt_dict, max_len_a=0, max_len_b=0, **options)
        self.symbols = symbols
        self.constrained = isinstance(self.search, DocumentSearch)
        # Sinusoidal positions have no end; what --max-target-positions says is no limit on translations.
        self.positions = min(available(model.decoder) for model in models)
        self.longest = options.get("max_len") or self.positions
        self.documents_at_once = documents_at_once
        self.on_step: Callable[[], None] | None = None  # called before every step of our beam search
        ours = all(isinstance(model, GTransformerModel) for model in models)
        plain = self.constrained and type(self.search.inner) is FairseqBeamSearch and ours
        unusual = [self.lm_model, self.repeat_ngram_blocker, self.token_indices_to_suppress]
        self.fast = plain and not self.match_source_len and all(option is None for option in unusual)

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        src_tokens = sample["net_input"]["src_tokens"]
        bos = self.tgt_dict.bos()
        words = ~torch.isin(src_tokens, self.symbols.to(src_tokens.device))
        limits, sentences = sentence_limits(src_tokens, bos, words, self.sentence_a, self.sentence_b)
        limits = within_positions(limits, sentences, self.positions)
        if self.constrained:
            if self.fast and prefix_tokens is None and constraints is None and bos_token in (None, bos):
                return self._search(sample["net_input"], limits, sentences)
            self.search.start(limits, sentences)
        # Words, <s> and </s> of every sentence but the given first <s>, then the language symbol, which fairseq counts
        # apart.
        total = int((limits.sum(dim=1) + 2 * sentences).max()) - 1
        if self.constrained:
            # The constraint ends every document. fairseq's limit must lie behind that, because it would make the
            # model pay for the language symbol; prefix tokens may exceed the sentences' limits.
            total += 1 + (0 if prefix_tokens is None else prefix_tokens.shape[1])
        else:
            plain = int(self.sentence_a * words.sum(dim=1).max()) + int(self.sentence_b)
            total = min(max(total, plain), self.longest - 1)
        self.max_len_b, self.max_len = total, total + 1
        finalized = super()._generate(sample, prefix_tokens, constraints, bos if bos_token is None else bos_token)
        return [[hypothesis for hypothesis in nbest if hypothesis["score"] > EXHAUSTED / 1e10] for nbest in finalized]

    def _search(self, net_input: dict, limits: Tensor, sentences: Tensor) -> list[list[dict]]:
        """Beam search document by document (search/beam.py)."""
        rules = Rules(
            bos=self.tgt_dict.bos(),
            eos=self.tgt_dict.eos(),
            unk=self.unk,
            language=self.eos,
            forbidden=self.search.forbidden,
            min_len=self.search.min_len,
            beam=self.beam_size,
            lenpen=self.len_penalty,
            unkpen=self.unk_penalty,
            temperature=self.temperature,
            normalise=self.normalize_scores,
        )
        models = list(self.model.models)
        outputs = [model.encoder.forward_torchscript(net_input) for model in models]
        memories = [output["memory"][0] for output in outputs]
        decoders = [model.decoder for model in models]
        search = BeamSearch(rules, decoders, memories, limits, sentences, self.documents_at_once, self.on_step)
        return search.run()
