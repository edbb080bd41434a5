"""The generator with fairseq's interface: beam search over whole documents with length limits for each sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, TEXT_POSITION
from gtransformer.data.batching import fill_batches
from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.group_tags import pad_context
from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.data.sides import Sides, never_text
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of, prefix_of
from gtransformer.search.beam import BeamSearch, Beginnings, Scoring, decodes_stepwise
from gtransformer.search.parallel import ParallelSearch
from gtransformer.search.positions import available, longest_sentence, within_positions
from gtransformer.search.rules import NO_LIMIT, FreeText, SentenceRule, sentence_length_limits
from gtransformer.search.strategies import PARALLEL

Positions = Sequence[tuple[int, int]]


class DocumentGenerator:
    """A generator of whole documents after a given ``<s>``; the target language symbol ends them.

    Length limits hold for each sentence. Without the sentence rule their sum is the limit of a document.

    Args:
        models, tgt_dict: as for fairseq's SequenceGenerator.
        symbols: (n,) int64 source indices that are not words: ``<s>``, ``</s>``, padding and the languages.
        rule: the sentence rule, or ``FreeText``.
        scoring: the width of the search and its scores. Sampling needs a beam of 1.
        max_len_a, max_len_b: the most words of a sentence are a * (words of its source) + b.
        nbest: requested hypotheses of each document (``--nbest``); all that were found are returned.
        parallel: search all sentences of a document at a time (``parallel.py``). Greedy search does so anyway if no
            sentence depends on another one.

    Raises UserError for models that do not decode token by token, and for options that exclude each other.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        tgt_dict: Vocabulary,
        symbols: Tensor,
        rule: SentenceRule,
        scoring: Scoring,
        max_len_a: float = 0,
        max_len_b: float = 200,
        nbest: int = 1,
        parallel: bool = False,
    ):
        self.models, self.tgt_dict, self.symbols = list(models), tgt_dict, symbols
        self.rule, self.scoring, self.nbest, self.parallel = rule, scoring, nbest, parallel
        self.sentence_a, self.sentence_b = max_len_a, max_len_b
        for model in self.models:
            if not decodes_stepwise(model):
                raise UserError(f"{type(model).__name__} is no document model; translate with a model of this package")
            model.eval()
        if parallel and (self.free or scoring.sampling or nbest > 1):
            raise UserError(
                f"--strategy {PARALLEL} makes one translation by beam search under the sentence rule; leave --nbest, "
                "sampling and --sentence-rule off out"
            )
        # Sinusoidal positions have no end; --max-target-positions does not limit translations.
        self.positions = min(available(model.decoder) for model in self.models)
        # If they restart at each sentence, each sentence must fit them.
        restarting = [longest_sentence(model) for model in self.models if getattr(model.decoder, "restarts", False)]
        self.longest_sentence = min(restarting, default=None)
        # Tokens of a sentence that its limit does not count.
        self.given = BOUNDARY_TOKENS + (rule.prefix is not None)
        self.translates_last_sentence_only = any(needs_of(model).last_sentence_only for model in self.models)
        # fairseq-generate's name for symbols that it does not print.
        self.symbols_to_strip_from_output = {rule.language} if rule.prefix is None else {rule.language, rule.prefix}

    @property
    def free(self) -> bool:
        """Whether documents are translated without the sentence rule."""
        return isinstance(self.rule, FreeText)

    @torch.no_grad()
    def generate(self, models, sample: dict, prefix_tokens=None, constraints=None) -> list[list[dict]]:
        """Return fairseq's hypotheses of every document, best first, with ``LIMITS`` under the rule.

        fairseq's further arguments are ignored: ``models`` are the generator's own, and the task refuses options that
        would set the others.
        """
        tokens = sample["net_input"]["src_tokens"]
        if self.translates_last_sentence_only:
            tokens = pad_context(tokens, self.tgt_dict.bos(), self.tgt_dict.pad())
        words = self._words(tokens)
        limits, sentences = self._limits(tokens, words)
        limits = within_positions(limits, sentences, self.positions, self.given)
        positions = sample.get(TEXT_POSITION)
        if self.free:
            totals = self._document_limits(limits, sentences, words).unsqueeze(1)
            return self._search(sample["net_input"], totals, sentences, positions=positions)
        found = self._search(sample["net_input"], limits, sentences, positions=positions)
        return with_limits(found, limits, torch.zeros_like(sentences), sentences)

    def _document_limits(self, limits: Tensor, sentences: Tensor, words: Tensor) -> Tensor:
        """Return the most tokens of each document, (documents,): those of its sentences, or fairseq's limit if larger.

        They count words, ``</s>`` and ``<s>`` of all sentences, without the given first ``<s>``.
        """
        totals = limits.sum(dim=1) + self.given * sentences - 1
        whole = (self.sentence_a * words.sum(dim=1).double()).floor() + int(self.sentence_b)
        return totals.maximum(whole.clamp(max=NO_LIMIT).long()).clamp(max=self.positions - 1)

    def continue_prefixes(
        self, net_input: dict, forced_prefixes: Sequence[Tensor], new: Tensor, positions: Positions | None = None
    ) -> list[list[dict]]:
        """Translate the last sentences of every document after given translations of the earlier ones.

        The forced prefix costs nothing and does not count in length normalisation, nor does the ``<s>`` after it.

        Args:
            net_input: ``src_tokens`` and ``src_lengths``, context sentences and new ones.
            forced_prefixes: for each document (length,) int64, the context's translations, ``<s> words </s>`` each; or
                none.
            new: (documents,) int64, how many sentences are to be translated.
            positions: the batch's ``TEXT_POSITION``.

        Returns:
            as fairseq's generator; hypotheses hold the new sentences: ``words </s> <s> words </s> [de]``.
        """
        src_tokens = net_input["src_tokens"]
        limits, sentences = self._limits(src_tokens, self._words(src_tokens))
        given = torch.tensor(
            [int(one.eq(self.tgt_dict.eos()).sum()) for one in forced_prefixes], device=src_tokens.device
        )
        lengths = torch.tensor([len(one) for one in forced_prefixes], device=src_tokens.device)
        column = torch.arange(int((given + new).max()), device=src_tokens.device) - given.unsqueeze(1)
        wanted = (column >= 0) & (column < new.unsqueeze(1))
        # Index of the source sentence of each target sentence: their contexts may have different lengths.
        source = (column + (sentences - new).unsqueeze(1)).clamp(0, limits.shape[1] - 1)
        limits = limits.gather(1, source).where(wanted, 0)
        limits = within_positions(limits, new, self.positions - lengths, self.given)
        beginnings = Beginnings.whole(forced_prefixes, self.tgt_dict.eos())
        return with_limits(self._search(net_input, limits, given + new, beginnings, positions), limits, given, new)

    def _limits(self, src_tokens: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sentence_length_limits``, none above the positions of a sentence with ``<s>`` and ``</s>``."""
        limits, sentences = sentence_length_limits(
            src_tokens, self.tgt_dict.bos(), words, self.sentence_a, self.sentence_b
        )
        return limits if self.longest_sentence is None else limits.clamp(
            max=self.longest_sentence - self.given
        ), sentences

    def _words(self, src_tokens: Tensor) -> Tensor:
        """Return (batch, length) bool, True at words."""
        return ~torch.isin(src_tokens, self.symbols.to(src_tokens.device))

    def _search(
        self,
        net_input: dict,
        limits: Tensor,
        sentences: Tensor,
        beginnings: Beginnings | None = None,
        positions: Positions | None = None,
    ) -> list[list[dict]]:
        """Search token by token (beam.py), if possible all sentences at a time (parallel.py)."""
        scoring, random = self.scoring, []
        if scoring.sampling:
            sources = [source[source.ne(self.tgt_dict.pad())] for source in net_input["src_tokens"]]
            random = list(map(scoring.sampling.generator, sources, positions or [()] * len(sources)))
        inputs = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
        memories = [model.encoder(**inputs)["memory"][0] for model in self.models]
        searched = self.rule, scoring, [model.decoder for model in self.models], memories
        if beginnings is not None:
            return BeamSearch(*searched, limits, sentences, beginnings=beginnings, random=random).run()
        greedy = scoring.beam == 1 and not scoring.sampling and not self.free
        if self.parallel or (greedy and int(sentences.max()) > 1):
            search = ParallelSearch(*searched, limits, sentences, self.positions - self.given)
            if self.parallel or search.independent:
                return search.run()
        return BeamSearch(*searched, limits, sentences, random=random).run()


def make_generator(
    models: Sequence[nn.Module],
    sides: Sides,
    scoring: Scoring,
    keeps_sentences: bool,
    min_len: int = 1,
    never: Iterable[int] = (),
    **options,
) -> DocumentGenerator:
    """Return a generator for documents.

    Args:
        models: of an ensemble.
        sides: the vocabularies.
        scoring: as of ``DocumentGenerator``, as are further ``options``.
        keeps_sentences: whether a translation has as many sentences as its source (the sentence rule).
        min_len: fewest words of a sentence.
        never: further indices that are not written.

    Raises UserError for search without the rule by a model that has not learned to predict the ``<s>`` between
    sentences (``--marks-loss off``).
    """
    source, target = sides.source, sides.target
    if not keeps_sentences and any(getattr(model, "leaves_unpredicted_out", False) for model in models):
        raise UserError(
            "--sentence-rule off: the model has not learned to predict the <s> between sentences (--marks-loss off); "
            "leave it out"
        )
    ends = target.bos(), target.eos(), sides.language
    if keeps_sentences:
        prefix = prefix_of(models[0], target)
        word = None if prefix is None else target[prefix]
        forbidden = {*sides.symbols(target), *never_text(target, word, sides.pair), *never} - {target.eos()}
        rule = SentenceRule(*ends, torch.tensor(sorted(forbidden)), min_len, prefix)
    else:
        rule = FreeText(*ends, torch.tensor([target.pad()]), min_len)
    return DocumentGenerator(models, target, torch.tensor(sides.symbols(source)), rule, scoring, **options)


def in_batches(
    generator: DocumentGenerator,
    sources: Sequence[Tensor],
    costs: Sequence[int],
    max_tokens: int,
    positions: Positions | None = None,
) -> Iterator[tuple[int, list[dict]]]:
    """Yield the number of every source (length,) int64 and fairseq's hypotheses for it, in any order.

    Args:
        generator: of documents, or one of ``search.sequential``.
        costs: tokens that each source counts in a batch.
        max_tokens: tokens of a batch.
        positions: of each source its ``TEXT_POSITION``; None: not known.
    """
    # Longest first: lack of memory shows at once, and documents of a batch end at about the same time.
    order = sorted(range(len(sources)), key=lambda number: (-len(sources[number]), number))
    models = generator.models
    device, padding = next(models[0].parameters()).device, models[0].decoder.padding
    for batch in fill_batches(order, [costs[number] for number in order], max_tokens, None):
        chosen = [int(number) for number in batch]
        rows = [sources[number] for number in chosen]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding).to(device)
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(padding).sum(dim=1)}}
        if positions is not None:
            sample[TEXT_POSITION] = [positions[number] for number in chosen]
            sample[FIRST_SENTENCE] = torch.tensor([sentence for _, sentence in sample[TEXT_POSITION]], device=device)
        yield from zip(chosen, generator.generate(models, as_read(sample, *models)), strict=True)


def as_read(sample: dict, *models: nn.Module) -> dict:
    """Return a batch with the numbers of its sentences as an input if any of the models reads them."""
    if FIRST_SENTENCE not in sample or not any(needs_of(model).numbers for model in models):
        return sample
    return sample | {"net_input": sample["net_input"] | {FIRST_SENTENCE: sample[FIRST_SENTENCE]}}


LIMITS = "limits"  # key of a hypothesis


def with_limits(found: list[list[dict]], limits: Tensor, first: Tensor, count: Tensor) -> list[list[dict]]:
    """Return the hypotheses of documents with ``LIMITS``: the most words of each of their sentences.

    ``first``, ``count``: (documents,) int64, which columns of ``limits`` these are.
    """
    rows = zip(found, limits.tolist(), first.tolist(), count.tolist(), strict=True)
    return [[one | {LIMITS: row[begin : begin + number]} for one in nbest] for nbest, row, begin, number in rows]
