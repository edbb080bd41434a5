"""Sequential decoding by a strategy (strategies.py): window by window, all documents of a batch in
parallel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE
from gtransformer.errors import UserError
from gtransformer.search.beam import joined
from gtransformer.search.generator import LIMITS, DocumentGenerator
from gtransformer.search.strategies import SentenceWindow, Strategy


@dataclass
class DocumentProgress:
    """The state of a document that is being translated.

    Attributes:
        sentences: its source, ``<s> words </s>`` each, (length,) int64.
        begin: the number of its first sentence in the document, from 1.
        windows: the windows still to be translated.
        chosen: translations so far, ``words </s>`` each; scores: of their tokens; limits: most
            words of each.
    """

    sentences: list[Tensor]
    begin: int
    windows: deque[SentenceWindow]
    chosen: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def add(self, hypothesis: dict, eos: int) -> None:
        """Store the sentences of a hypothesis ``words </s> <s> words </s> [de]``."""
        tokens, scores = (hypothesis[name].numpy() for name in ("tokens", "positional_scores"))
        begin = 0
        for end in np.flatnonzero(tokens == eos) + 1:
            self.chosen.append(tokens[begin:end])
            self.scores.append(scores[begin:end])
            begin = end + 1  # after <s>
        self.limits += hypothesis[LIMITS]


class ForcedPrefixGenerator:
    """A generator with fairseq's interface that continues forced prefixes of its own under the
    sentence rule.

    ``generator`` searches.
    """

    def __init__(self, generator: DocumentGenerator):
        self.generator, self.models, self.nbest = generator, generator.models, generator.nbest
        self.symbols_to_strip_from_output = generator.symbols_to_strip_from_output


class SequentialGenerator(ForcedPrefixGenerator):
    """A generator that decodes documents by a strategy; each has one translation.

    Chosen sentences never change later. So there is one hypothesis, the best of each window. Its
    score is the sum of the tokens' scores, normalised as in the generator.

    Args:
        generator: searches each window; its models' weights must not change any more.
        strategy: how the documents are decoded.

    Raises UserError for a generator of several hypotheses.
    """

    def __init__(self, generator: DocumentGenerator, strategy: Strategy):
        super().__init__(generator)
        self.strategy = strategy
        if self.nbest > 1:
            raise UserError(
                f"--strategy {strategy.kind} makes one translation of each document; leave --nbest "
                "out"
            )
        for model in self.models:
            # Else each window would prepare weights again.
            model.decoder.copies = model.decoder.copies or []

    @torch.no_grad()
    def generate(self, models, sample: dict, **unused) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document of the batch: one."""
        tokens = sample["net_input"]["src_tokens"]
        begins = sample["net_input"].get(FIRST_SENTENCE, tokens.new_ones(len(tokens)))
        documents = []
        for source, begin in zip(tokens, begins.tolist(), strict=True):
            source = source[source.ne(self.generator.tgt_dict.pad())]
            starts = source.eq(self.generator.tgt_dict.bos()).nonzero().flatten().tolist()
            sentences = [source[first:last] for first, last in pairwise([*starts, len(source)])]
            # Only lengths decide where windows end, so all of them are known before the first is
            # translated.
            windows = self.strategy.windows([len(sentence) for sentence in sentences])
            documents.append(DocumentProgress(sentences, begin, deque(windows)))
        while active := [document for document in documents if document.windows]:
            self._advance(active, FIRST_SENTENCE in sample["net_input"])
        rule, scoring = self.generator.rule, self.generator.scoring
        return [
            [joined(one.chosen, one.scores, rule, scoring) | {LIMITS: one.limits}]
            for one in documents
        ]

    def _advance(self, active: Sequence[DocumentProgress], numbered: bool) -> None:
        """Search the next window of every document."""
        sources, prefixes, new, begins, bos = [], [], [], [], self.generator.tgt_dict.bos()
        for document in active:
            window = document.windows.popleft()
            # The source is encoded again for every window: with other neighbours it has other
            # states.
            sources.append(torch.cat(document.sentences[window.first : window.last]))
            before = document.chosen[window.prefix_start : window.new]
            prefix = [token for sentence in before for token in (bos, *sentence)]
            prefixes.append(torch.tensor(prefix, dtype=torch.int64, device=sources[0].device))
            new.append(window.last - window.new)
            # Models that count sentences count them in the document, not in the window.
            begins.append(document.begin + window.first)
        pad = self.generator.tgt_dict.pad()
        padded = nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad)
        inputs = {"src_tokens": padded, "src_lengths": padded.ne(pad).sum(dim=1)}
        if numbered:
            inputs[FIRST_SENTENCE] = padded.new_tensor(begins)
        found = self.generator.continue_prefixes(inputs, prefixes, padded.new_tensor(new))
        for document, (best, *_) in zip(active, found, strict=True):
            document.add(best, self.generator.tgt_dict.eos())


class SecondPass(ForcedPrefixGenerator):
    """A generator whose instances each end in the one sentence to be translated.

    Args:
        generator: searches each batch.
        contexts: computes, for a batch, the prefix of each translation: ``<s> words </s>`` for each
            sentence of its context, (length,) int64, possibly none. None: no instance has one.
    """

    def __init__(
        self, generator: DocumentGenerator, contexts: Callable[[dict], Sequence[Tensor]] | None
    ):
        super().__init__(generator)
        self.contexts = contexts

    @torch.no_grad()
    def generate(self, models, sample: dict, **unused) -> list[list[dict]]:
        """Return fairseq's hypotheses of the last sentence of every instance: ``words </s>
        [de]``.
        """
        inputs = {
            name: value
            for name, value in sample["net_input"].items()
            if name != "prev_output_tokens"
        }
        tokens = inputs["src_tokens"]
        contexts = (
            [tokens.new_zeros(0)] * len(tokens) if self.contexts is None else self.contexts(sample)
        )
        prefixes = [one.to(tokens.device) for one in contexts]
        return self.generator.continue_prefixes(inputs, prefixes, tokens.new_ones(len(tokens)))
