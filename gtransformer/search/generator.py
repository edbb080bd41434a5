"""The generator with fairseq's interface: beam search over whole documents with length limits for
each sentence.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE
from gtransformer.data.batching import fill_batches
from gtransformer.data.group_tags import pad_context
from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.data.sides import Sides, never_text
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of, prefix_of
from gtransformer.search.beam import BeamSearch, Scoring
from gtransformer.search.parallel import ParallelSearch
from gtransformer.search.positions import within_positions
from gtransformer.search.rules import NO_LIMIT, FreeText, SentenceRule, sentence_length_limits
from gtransformer.search.strategies import PARALLEL


class DocumentGenerator:
    """A generator of whole documents after a given ``<s>``; the target language symbol ends them.

    Length limits hold for each sentence. Without the sentence rule their sum is the limit of a
    document.

    Args:
        models: of an ensemble.
        sides: the vocabularies.
        scoring: the width of the search and its scores. Sampling needs a beam of 1.
        keeps_sentences: whether a translation has as many sentences as its source (the sentence
            rule).
        min_len: fewest words of a sentence.
        max_len_a, max_len_b: the most words of a sentence are a * (words of its source) + b.
        nbest: requested hypotheses of each document (``--nbest``); all that were found are
            returned.
        parallel: search all sentences of a document at a time (``parallel.py``). Greedy search does
            so anyway if no sentence depends on another one.
        never: further indices that are not written.

    Raises UserError for options that exclude each other, and for search without the rule by a model
    that has not learned to predict the ``<s>`` between sentences (``--marks-loss off``).
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        sides: Sides,
        scoring: Scoring,
        keeps_sentences: bool,
        min_len: int = 1,
        max_len_a: float = 0,
        max_len_b: float = 200,
        nbest: int = 1,
        parallel: bool = False,
        never: Iterable[int] = (),
    ):
        self.models, self.tgt_dict, self.scoring = list(models), sides.target, scoring
        self.sentence_a, self.sentence_b = max_len_a, max_len_b
        self.nbest, self.parallel, self.free = nbest, parallel, not keeps_sentences
        for model in self.models:
            model.eval()
        if parallel and (scoring.sampling is not None or nbest > 1):
            raise UserError(
                f"--strategy {PARALLEL} makes one translation by beam search; leave --nbest and "
                "sampling out"
            )
        if self.free and any(
            getattr(model, "leaves_unpredicted_out", False) for model in self.models
        ):
            raise UserError(
                "--sentence-rule off: the model has not learned to predict the <s> between "
                "sentences (--marks-loss "
                "off); leave it out"
            )
        # Source indices that are no words: <s>, </s>, padding and the languages.
        self.symbols = torch.tensor(sides.symbols(sides.source))
        self.rule = self._rule(sides, min_len, never)
        # Sinusoidal positions have no end; --max-target-positions does not limit translations.
        self.positions = min(model.decoder.positions() for model in self.models)
        # If they restart at each sentence, each sentence must fit them.
        self.longest_sentence = min(model.decoder.sentence_positions() for model in self.models)
        # Tokens of a sentence that its limit does not count.
        self.given = BOUNDARY_TOKENS + (self.rule.prefix is not None)
        self.translates_last_sentence_only = any(
            needs_of(model).last_sentence_only for model in self.models
        )
        if parallel:
            for model in self.models:
                # Else each round would prepare weights again.
                model.decoder.copies = model.decoder.copies or []
        # fairseq-generate's name for symbols that it does not print.
        self.symbols_to_strip_from_output = {self.rule.language, self.rule.prefix} - {None}

    def _rule(self, sides: Sides, min_len: int, never: Iterable[int]) -> SentenceRule:
        target = sides.target
        ends = target.bos(), target.eos(), sides.language
        if self.free:
            return FreeText(*ends, np.array([target.pad()]), min_len)
        prefix, *others = {prefix_of(model, target) for model in self.models}
        if others:
            raise UserError(
                "some models of the ensemble begin every sentence with a language symbol, others "
                "do not, or with another one; give models that agree"
            )
        word = None if prefix is None else target[prefix]
        forbidden = {*sides.symbols(target), *never_text(target, word, sides.pair), *never} - {
            target.eos()
        }
        return SentenceRule(*ends, np.array(sorted(forbidden)), min_len, prefix)

    @torch.no_grad()
    def generate(self, models, sample: dict, **unused) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document, best first, with ``LIMITS`` under the
        rule.

        fairseq's further arguments are ignored: ``models`` are the generator's own, and the task
        refuses options that would set the others.
        """
        return self.continue_prefixes(sample["net_input"])

    def _document_limits(self, limits: Tensor, sentences: Tensor, words: Tensor) -> Tensor:
        """Return the most tokens of each document, (documents,): those of its sentences, or
        fairseq's limit if larger.

        They count words, ``</s>`` and ``<s>`` of all sentences, without the given first ``<s>``.
        """
        totals = limits.sum(dim=1) + self.given * sentences - 1
        whole = (self.sentence_a * words.sum(dim=1).double()).floor() + int(self.sentence_b)
        return totals.maximum(whole.clamp(max=NO_LIMIT).long()).clamp(max=self.positions - 1)

    def continue_prefixes(
        self, net_input: dict, forced_prefixes: Sequence[Tensor] = (), new: Tensor | None = None
    ) -> list[list[dict]]:
        """Translate the last sentences of every document after given translations of the earlier
        ones.

        The forced prefix costs nothing and does not count in length normalisation, nor does the
        ``<s>`` after it.

        Args:
            net_input: ``src_tokens`` and ``src_lengths``, context sentences and new ones.
            forced_prefixes: for each document (length,) int64, the context's translations, ``<s>
                words </s>`` each; or none.
            new: (documents,) int64, how many sentences are to be translated; None: all.

        Returns:
            as fairseq's generator; hypotheses hold the new sentences: ``words </s> <s> words </s>
            [de]``.
        """
        tokens, bos = net_input["src_tokens"], self.tgt_dict.bos()
        if self.translates_last_sentence_only:
            tokens = pad_context(tokens, bos, self.tgt_dict.pad())
        words = ~torch.isin(tokens, self.symbols.to(tokens.device))
        limits, sentences = sentence_length_limits(
            tokens, bos, words, self.sentence_a, self.sentence_b
        )
        limits = limits.clamp(max=self.longest_sentence - self.given)
        new, given, lengths = sentences if new is None else new, torch.zeros_like(sentences), 0
        if forced_prefixes:
            given = tokens.new_tensor(
                [int(one.eq(self.tgt_dict.eos()).sum()) for one in forced_prefixes]
            )
            lengths = tokens.new_tensor([len(one) for one in forced_prefixes])
            column = torch.arange(int((given + new).max()), device=tokens.device) - given.unsqueeze(
                1
            )
            wanted = (column >= 0) & (column < new.unsqueeze(1))
            # Index of the source sentence of each target sentence: their contexts may have
            # different lengths.
            source = (column + (sentences - new).unsqueeze(1)).clamp(0, limits.shape[1] - 1)
            limits = limits.gather(1, source).where(wanted, 0)
        limits = within_positions(limits, new, self.positions - lengths, self.given)
        if self.free:
            limits = self._document_limits(limits, sentences, words).unsqueeze(1)
        first, last = given.cpu().numpy(), (given + new).cpu().numpy()
        found = self._search(net_input, limits.cpu().numpy(), first, last, forced_prefixes)
        if self.free:
            return found
        rows = zip(found, limits.tolist(), first, last, strict=True)
        return [
            [one | {LIMITS: row[begin:end]} for one in nbest] for nbest, row, begin, end in rows
        ]

    def _search(
        self,
        net_input: dict,
        limits: np.ndarray,
        complete: np.ndarray,
        sentences: np.ndarray,
        forced_prefixes: Sequence[Tensor],
    ) -> list[list[dict]]:
        """Search token by token (beam.py), if possible all sentences at a time (parallel.py).

        ``complete``, ``sentences``: (documents,) int64, how many sentences there are before and
        behind the search.
        """
        scoring, device = self.scoring, net_input["src_tokens"].device
        inputs = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
        memories = [model.encoder(**inputs)["memory"][0] for model in self.models]
        decoders, rule = [model.decoder for model in self.models], self.rule
        greedy = (
            scoring.beam == 1
            and scoring.sampling is None
            and not self.free
            and (sentences > 1).any()
        )
        if self.parallel or (greedy and not forced_prefixes):
            search = ParallelSearch(
                rule, scoring, decoders, memories, limits, sentences, self.positions - self.given
            )
            if self.parallel or search.independent:
                return search.run()
        states = [
            decoder.begin(memory, np.arange(len(limits)), scoring.beam)
            for decoder, memory in zip(decoders, memories, strict=True)
        ]
        if any(map(len, forced_prefixes)):
            for state in states:
                state.force(forced_prefixes)
        random = None
        if scoring.sampling is not None:  # other batches draw other words
            checksum = zlib.crc32(net_input["src_tokens"].cpu().numpy().tobytes())
            random = torch.Generator(device).manual_seed(scoring.seed ^ checksum)
        start = rule.start(len(limits), scoring.beam, complete)
        return BeamSearch(rule, scoring, states, limits, sentences, start, random).run()


LIMITS = "limits"  # key of a hypothesis: the most words of each of its sentences, under the rule


def in_batches(
    generator: DocumentGenerator,
    sources: Sequence[Tensor],
    costs: Sequence[int],
    max_tokens: int,
    first_sentences: Sequence[int] | None = None,
) -> Iterator[tuple[int, list[dict]]]:
    """Yield the number of every source (length,) int64 and fairseq's hypotheses for it, in any
    order.

    Args:
        generator: of documents, or one of ``search.sequential``.
        costs: tokens that each source counts in a batch.
        max_tokens: tokens of a batch.
        first_sentences: the number of each source's first sentence in its document, from 1; None:
            not known.
    """
    # Longest first: lack of memory shows at once, and documents of a batch end at about the same
    # time.
    order = sorted(range(len(sources)), key=lambda number: (-len(sources[number]), number))
    models = generator.models
    numbered = first_sentences is not None and any(needs_of(model).numbers for model in models)
    device, padding = next(models[0].parameters()).device, models[0].decoder.padding
    for batch in fill_batches(order, [costs[number] for number in order], max_tokens, None):
        chosen = [int(number) for number in batch]
        rows = [sources[number] for number in chosen]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding).to(device)
        inputs = {"src_tokens": tokens, "src_lengths": tokens.ne(padding).sum(dim=1)}
        if numbered:
            inputs[FIRST_SENTENCE] = torch.tensor(
                [first_sentences[number] for number in chosen], device=device
            )
        yield from zip(chosen, generator.generate(models, {"net_input": inputs}), strict=True)
