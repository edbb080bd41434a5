"""Sequential decoding by a strategy (strategies.py): window by window, all documents of a batch in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, TEXT_POSITION
from gtransformer.errors import UserError
from gtransformer.models.common.blocks import BySentence
from gtransformer.search.beam import joined_hypothesis
from gtransformer.search.generator import LIMITS, DocumentGenerator
from gtransformer.search.strategies import SentenceWindow, Strategy


@dataclass
class DocumentProgress:
    """The state of a document that is being translated.

    Attributes:
        sentences: its source, ``<s> words </s>`` each, (length,) int64.
        begin: the number of its first sentence in the document, from 1.
        number: that of the document in the text.
        windows: the windows still to be translated.
        chosen: translations so far, ``words </s>`` each; scores: of their tokens; limits: most words of each.
        hypothesis: the result of the newest window; None: nothing was found, and the document ends here.
    """

    sentences: list[Tensor]
    windows: deque[SentenceWindow]
    begin: int
    number: int
    chosen: list[Tensor] = field(default_factory=list)
    scores: list[Tensor] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    hypothesis: dict | None = None


class ForcedPrefixGenerator:
    """A generator with fairseq's interface that continues forced prefixes of its own.

    Args:
        generator: searches.
        option: the option that requires it, for messages.

    Raises UserError if the generator translates without the sentence rule.
    """

    def __init__(self, generator: DocumentGenerator, option: str):
        self.generator, self.option, self.models = generator, option, generator.models
        self.symbols_to_strip_from_output = generator.symbols_to_strip_from_output
        if generator.free:
            raise UserError(f"{option} translates sentence by sentence; leave --sentence-rule off out")

    @property
    def sees_one_sentence(self) -> bool:
        """Whether no model's decoder reads the prefix: self-attention never leaves the current sentence."""
        scopes = [scope for model in self.models for scope in model.decoder.scopes(None)]
        return all(type(scope) is BySentence for scope in scopes)


class SequentialGenerator(ForcedPrefixGenerator):
    """A generator with fairseq's interface that decodes documents by a strategy; each has one translation.

    The sentence rule holds in each window. Chosen sentences never change later. So there is one hypothesis, the best of
    each window. Its score is the sum of the tokens' scores, normalised as in the generator.

    Args:
        generator: searches each window; its models' weights must not change any more.
        strategy: how the documents are decoded.

    Raises UserError for models without target context where the strategy needs it, and for more than one hypothesis.
    """

    def __init__(self, generator: DocumentGenerator, strategy: Strategy):
        super().__init__(generator, f"--strategy {strategy.kind}")
        self.strategy, self.nbest = strategy, 1
        if strategy.definition.context and self.sees_one_sentence:
            raise UserError(
                f"{self.option} translates after previous translations, but the decoder of this model sees the "
                "current sentence alone; leave --strategy out"
            )
        if generator.nbest > 1:
            raise UserError(f"{self.option} makes one translation of each document; leave --nbest out")
        for model in self.models:
            model.decoder.hold_weights()  # else each window would prepare them again

    @torch.no_grad()
    def generate(self, models, sample: dict, **unused) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document of the batch: one, or none if nothing was found."""
        tokens = sample["net_input"]["src_tokens"]
        begins = sample["net_input"].get(FIRST_SENTENCE)
        self.numbered = begins is not None
        begins = begins.tolist() if self.numbered else [1] * len(tokens)
        places = sample.get(TEXT_POSITION)
        numbers = [0] * len(tokens) if places is None else [number for number, _ in places]
        documents = list(map(self._progress, tokens, range(len(tokens)), begins, numbers))
        while active := [document for document in documents if document.windows]:
            self._advance(active)
        return [[] if document.hypothesis is None else [self._whole(document)] for document in documents]

    def _progress(self, source: Tensor, row: int, begin: int, number: int) -> DocumentProgress:
        tokens = source[source.ne(self.generator.tgt_dict.pad())]
        begins = tokens.eq(self.generator.tgt_dict.bos()).nonzero().flatten().tolist()
        sentences = [tokens[first:last] for first, last in pairwise([*begins, len(tokens)])]
        windows = self.strategy.windows([len(sentence) for sentence in sentences], number - 1 if number else row)
        return DocumentProgress(sentences, deque(windows), begin, number)

    def _advance(self, active: Sequence[DocumentProgress]) -> None:
        """Search the next window of every document."""
        windows = [document.windows.popleft() for document in active]
        sources = [
            torch.cat(document.sentences[window.first : window.last])
            for document, window in zip(active, windows, strict=True)
        ]
        lengths = torch.tensor([len(source) for source in sources], device=sources[0].device)
        pad = self.generator.tgt_dict.pad()
        padded = nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad)
        forced_prefixes = [
            self._forced_prefix(document, window) for document, window in zip(active, windows, strict=True)
        ]
        new = torch.tensor([window.last - window.new for window in windows], device=lengths.device)
        inputs = {"src_tokens": padded, "src_lengths": lengths}
        begins = [document.begin + window.first for document, window in zip(active, windows, strict=True)]
        if self.numbered:
            inputs[FIRST_SENTENCE] = torch.tensor(begins, device=lengths.device)
        positions = [(document.number, begin) for document, begin in zip(active, begins, strict=True)]
        found = self.generator.continue_prefixes(inputs, forced_prefixes, new, positions)
        for document, hypotheses in zip(active, found, strict=True):
            document.hypothesis = hypotheses[0] if hypotheses else None
            if document.hypothesis is None:
                document.windows.clear()
            else:
                self._take(document, document.hypothesis)

    def _forced_prefix(self, document: DocumentProgress, window: SentenceWindow) -> Tensor:
        """Return the translation that a window begins with, ``<s> words </s>`` each."""
        bos = document.sentences[0].new_tensor([self.generator.tgt_dict.bos()])
        return torch.cat(
            [bos[:0], *(part for one in document.chosen[window.prefix_start : window.new] for part in (bos, one))]
        )

    def _take(self, document: DocumentProgress, hypothesis: dict) -> None:
        """Store the sentences of a hypothesis ``words </s> <s> words </s> [de]``."""
        tokens = hypothesis["tokens"]
        ends = (tokens.eq(self.generator.tgt_dict.eos()).nonzero().flatten() + 1).tolist()
        for begin, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
            document.chosen.append(tokens[begin:end])
            document.scores.append(hypothesis["positional_scores"][begin:end])
        document.limits += hypothesis[LIMITS]

    def _whole(self, document: DocumentProgress) -> dict:
        """Return the hypothesis of a document; with a single window, its own."""
        generator, last = self.generator, document.hypothesis
        if len(document.chosen) == int(last["tokens"].eq(generator.tgt_dict.eos()).sum()):
            return last
        symbols = generator.tgt_dict.bos(), int(last["tokens"][-1])
        scoring = generator.scoring
        found = joined_hypothesis(document.chosen, document.scores, *symbols, scoring.normalise, scoring.lenpen)
        return found | {LIMITS: document.limits}


Contexts = Callable[[dict], Sequence[Tensor]]


class SecondPass(ForcedPrefixGenerator):
    """A generator with fairseq's interface whose instances each end in the one sentence to be translated.

    Args:
        generator: searches each batch.
        contexts: computes, for a batch, the prefix of each translation: ``<s> words </s>`` for each sentence of its
            context, (length,) int64, possibly none. None: no instance has one.
        option: the option that requires it, for messages.

    Raises UserError with contexts that the models' decoders do not read.
    """

    def __init__(self, generator: DocumentGenerator, contexts: Contexts | None, option: str = "--first-pass"):
        super().__init__(generator, option)
        if contexts is not None and self.sees_one_sentence:
            raise UserError(
                f"{option}: the decoder of this model sees the current sentence alone and reads no first "
                "translations; leave it out"
            )
        self.contexts, self.nbest = contexts, generator.nbest

    @torch.no_grad()
    def generate(self, models, sample: dict, **unused) -> list[list[dict]]:
        """Return fairseq's hypotheses of the last sentence of every instance: ``words </s> [de]``."""
        inputs = {name: value for name, value in sample["net_input"].items() if name != "prev_output_tokens"}
        tokens = inputs["src_tokens"]
        contexts = [tokens.new_zeros(0)] * len(tokens) if self.contexts is None else self.contexts(sample)
        forced_prefixes = [one.to(tokens.device) for one in contexts]
        return self.generator.continue_prefixes(
            inputs,
            forced_prefixes,
            torch.ones(len(tokens), dtype=torch.int64, device=tokens.device),
            sample.get(TEXT_POSITION),
        )
