"""fairseq's sequence generator with length limits for each sentence, and its loop restricted to the sentence rule."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from fairseq.data import Dictionary
from fairseq.search import BeamSearch as FairseqBeamSearch
from fairseq.search import DiverseBeamSearch, Search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from gtransformer.data.batch_fields import TEXT_POSITION
from gtransformer.data.group_tags import pad_context
from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.errors import UserError
from gtransformer.models.common.model import needs_of
from gtransformer.search.beam import BeamSearch, Beginnings, Sampling, Scoring, decodes_stepwise
from gtransformer.search.parallel import ParallelSearch
from gtransformer.search.positions import available, longest_sentence, within_positions
from gtransformer.search.rules import NO_LIMIT, SentenceRule, sentence_length_limits
from gtransformer.search.strategies import PARALLEL

Positions = Sequence[tuple[int, int]]


class DocumentGenerator(SequenceGenerator):
    """A generator of whole documents after a given ``<s>``; ``eos`` is the target language symbol, which ends them.

    Length limits hold for each sentence (``--max-len-a``, ``--max-len-b``, ``--min-len``), and so does
    ``--no-repeat-ngram-size``. The limits' sum replaces fairseq's limit, which is one for all documents of a batch.

    Plain beam search under the rule uses the faster ``search/beam.py``. fairseq's loop is used for other strategies,
    prefix tokens, lexical constraints, n-gram blocking, language models, and models that do not decode stepwise.
    Batches do not affect each other: objects that depend on a batch are made for it.

    Args:
        models, tgt_dict, options: as for fairseq's SequenceGenerator.
        symbols: (n,) int64 source indices that are not words: ``<s>``, ``</s>``, padding and the languages.
        rule: the sentence rule; None: the model is not restricted.
        nbest: requested hypotheses of each document (``--nbest``); all that were found are returned.
        sampling: draw the words of each document instead of searching; ``beam_size`` must be 1.
        parallel: search all sentences of a document at a time (``parallel.py``). Greedy search does so anyway if no
            sentence depends on another one.

    Raises UserError if ``sampling`` or ``parallel`` is not possible with these models and options, and for diverse
    beams under the rule: fairseq charges a group for what an earlier one has written, also where nothing else can be.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        symbols: Tensor,
        rule: SentenceRule | None = None,
        nbest: int = 1,
        sampling: Sampling | None = None,
        parallel: bool = False,
        **options,
    ):
        self.sentence_a = options.pop("max_len_a", 0)
        self.sentence_b = options.pop("max_len_b", 200)
        # The rule counts the words of a sentence; a document itself is never too short.
        options["min_len"] = min(1, options.get("min_len", 1))
        super().__init__(models, tgt_dict, max_len_a=0, max_len_b=0, **options)
        self.options = options
        self.symbols, self.rule, self.nbest = symbols, rule, nbest
        # Sinusoidal positions have no end; --max-target-positions does not limit translations.
        self.positions = min(available(model.decoder) for model in models)
        # If they restart at each sentence, each sentence must fit them.
        restarting = [longest_sentence(model) for model in models if getattr(model.decoder, "restarts", False)]
        self.longest_sentence = min(restarting, default=None)
        # Tokens of a sentence that its limit does not count.
        self.given = BOUNDARY_TOKENS + (rule is not None and rule.prefix is not None)
        self.translates_last_sentence_only = any(needs_of(model).last_sentence_only for model in models)
        if rule is not None and isinstance(self.search, DiverseBeamSearch):
            raise UserError(
                "--diverse-beam-groups would charge tokens that have no alternative, as every <s>; give "
                "--diversity-rate, or --sentence-rule off"
            )
        plain = rule is not None and type(self.search) is FairseqBeamSearch
        unusual = [self.lm_model, self.repeat_ngram_blocker, self.token_indices_to_suppress]
        usual = not self.match_source_len and all(option is None for option in unusual)
        self.fast = plain and usual and all(decodes_stepwise(model) for model in models)
        self.sampling = sampling
        if sampling and not self.fast:
            raise UserError(
                "--sampling-topk: words are drawn under the sentence rule, by models that decode word by word; give "
                "--sentence-rule on, or leave it out"
            )
        self.parallel = parallel
        if parallel and (sampling or not self.fast):
            raise UserError(
                f"--strategy {PARALLEL} is for plain beam search by models that decode word by word; leave sampling, "
                "diverse beams, n-gram blocking, language models and suppressed tokens out"
            )
        if parallel and nbest > 1:
            raise UserError(f"--strategy {PARALLEL} makes one translation of each document; leave --nbest out")

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        src_tokens, bos = sample["net_input"]["src_tokens"], self.tgt_dict.bos()
        if self.translates_last_sentence_only:
            src_tokens = pad_context(src_tokens, bos, self.pad)
        words = self._words(src_tokens)
        limits, sentences = self._limits(src_tokens, words)
        limits = within_positions(limits, sentences, self.positions, self.given)
        plain = prefix_tokens is None and constraints is None and bos_token in (None, bos)
        if self.fast and plain:
            found = self._search(sample["net_input"], limits, sentences, positions=sample.get(TEXT_POSITION))
            return with_limits(found, limits, torch.zeros_like(sentences), sentences)
        if self.parallel:
            raise UserError(f"--strategy {PARALLEL}: leave --prefix-size and --constraints out")
        # Words, <s>, the prefix and </s> of every sentence without the given first <s>; fairseq counts the language
        # symbol separately.
        totals = limits.sum(dim=1) + self.given * sentences - 1
        total, prefix = int(totals.max()), 0 if prefix_tokens is None else prefix_tokens.shape[1]
        strategy = copy.copy(self.search)  # some of fairseq's strategies store the state of a batch
        if self.rule is not None:
            strategy = DocumentSearch(self.tgt_dict, strategy, self.rule, limits, sentences)
            # The rule ends every document. fairseq's limit must be larger: it would add the score of the language
            # symbol. Prefix tokens may exceed the sentences' limits.
            total += 1 + prefix
        else:
            whole = (self.sentence_a * words.sum(dim=1).double()).floor() + int(self.sentence_b)
            totals = totals.maximum(whole.clamp(max=NO_LIMIT).long()).clamp(max=self.positions - 1)
            total = int(totals.max()) + prefix
            strategy = LimitedSearch(self.tgt_dict, strategy, totals, self.eos)
        # fairseq's diverse beams would use instance numbers of the corpus as numbers in the batch.
        sample = {name: value for name, value in sample.items() if name != "id"}
        found = self._loop(strategy, total)._generate(
            sample, prefix_tokens, constraints, bos if bos_token is None else bos_token
        )
        found = [[hypothesis for hypothesis in nbest if hypothesis["score"] > EXHAUSTED / 1e10] for nbest in found]
        return found if self.rule is None else with_limits(found, limits, torch.zeros_like(sentences), sentences)

    def _loop(self, strategy, longest: int) -> SequenceGenerator:
        """Return fairseq's generator for one batch: its length limit is an attribute, not an argument of calls."""
        limits = {"max_len_a": 0, "max_len_b": longest, "max_len": longest + 1}
        made = SequenceGenerator(self.model, self.tgt_dict, **{**self.options, **limits, "search_strategy": strategy})
        if made.repeat_ngram_blocker is not None:
            made.repeat_ngram_blocker = RepeatedNgrams(self.options["no_repeat_ngram_size"], self.tgt_dict.bos())
        return made

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

    def most_tokens(self, sentences: Sequence[Tensor]) -> int:
        """Return the most tokens that the translations of source sentences, (length,) int64 each, may have."""
        tokens = torch.cat(list(sentences)).unsqueeze(0)
        limits, count = self._limits(tokens, self._words(tokens))
        return int((limits.sum(dim=1) + self.given * count).sum())

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
        """Search with our own beam search (beam.py), if possible all sentences at a time (parallel.py)."""
        scoring = Scoring(
            beam=self.beam_size,
            unk=self.unk,
            lenpen=self.len_penalty,
            unkpen=self.unk_penalty,
            temperature=self.temperature,
            normalise=self.normalize_scores,
            sampling=self.sampling,
        )
        random = []
        if self.sampling:
            sources = [source[source.ne(self.pad)] for source in net_input["src_tokens"]]
            random = list(map(self.sampling.generator, sources, positions or [()] * len(sources)))
        models = list(self.model.models)
        outputs = [model.encoder.forward_torchscript(net_input) for model in models]
        memories = [output["memory"][0] for output in outputs]
        searched = self.rule, scoring, [model.decoder for model in models], memories
        if beginnings is not None:
            return BeamSearch(*searched, limits, sentences, beginnings=beginnings, random=random).run()
        if self.parallel or (scoring.beam == 1 and not self.sampling and int(sentences.max()) > 1):
            search = ParallelSearch(*searched, limits, sentences, self.positions - self.given)
            if self.parallel or search.independent:
                return search.run()
        return BeamSearch(*searched, limits, sentences, random=random).run()


LIMITS = "limits"  # key of a hypothesis


def with_limits(found: list[list[dict]], limits: Tensor, first: Tensor, count: Tensor) -> list[list[dict]]:
    """Return the hypotheses of documents with ``LIMITS``: the most words of each of their sentences.

    ``first``, ``count``: (documents,) int64, which columns of ``limits`` these are.
    """
    rows = zip(found, limits.tolist(), first.tolist(), count.tolist(), strict=True)
    return [[one | {LIMITS: row[begin : begin + number]} for one in nbest] for nbest, row, begin, number in rows]


EXHAUSTED = -1e30  # score of a placeholder, which is no hypothesis


class LimitedSearch(Search):
    """A search that ends each document at a length of its own, then lets ``inner`` (beam search, sampling, ...) choose.

    It is made for one batch: it drops the documents that fairseq's loop has finished.

    Args:
        dictionary: target dictionary.
        inner: one of fairseq's search strategies; not those for lexical constraints and for the source's length, which
            no document has (``tasks/accepted_options.py``).
        limits: (batch,) int64, most tokens of each document before the one that ends it.
        end: the token that ends a document.
    """

    def __init__(self, dictionary: Dictionary, inner: Search, limits: Tensor, end: int):
        super().__init__(dictionary)
        self.inner, self.limits, self.end = inner, limits, end
        self.stop_on_max_len = inner.stop_on_max_len

    def step(self, step: int, lprobs: Tensor, scores: Tensor | None, prev_output_tokens=None, original_batch_idxs=None):
        """Implement fairseq's step: lprobs (batch, beam, vocabulary), prev_output_tokens (batch * beam, length)."""
        beam = lprobs.shape[1]
        self.constrain(lprobs, prev_output_tokens.unflatten(0, (-1, beam)))
        if step > 0:
            # With few candidates, fairseq continues hypotheses that have ended: their scores must be -inf.
            ended = prev_output_tokens[:, -1].eq(self.end).view(-1, beam, 1)
            scores = scores.masked_fill(ended, -torch.inf)
        found = self.inner.step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        return self._end_exhausted(*found, beam)

    def _end_exhausted(self, scores: Tensor, tokens: Tensor, beams: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
        """End documents that have no hypothesis left, because the constraint allows fewer than the beam is wide.

        fairseq would wait for more for ever. It gets EXHAUSTED ones, which the generator discards.
        """
        exhausted = scores.isneginf().all(dim=1, keepdim=True)
        first = torch.arange(scores.shape[1], device=scores.device) < beam  # the others stay as continuations
        chosen = exhausted & first
        return scores.masked_fill(chosen, EXHAUSTED), tokens.masked_fill(chosen, self.end), beams

    def constrain(self, lprobs: Tensor, prefixes: Tensor) -> None:
        """Change lprobs (batch, beam, vocabulary) in place, given prefixes (batch, beam, length) that start with <s>.

        A hypothesis whose next token is fixed by prefix tokens stays as it is.
        """
        last = (self.limits < prefixes.shape[2]).unsqueeze(1) & lprobs[..., self.end].isfinite()
        ends = lprobs[..., self.end][last]
        lprobs[last] = -torch.inf
        lprobs[..., self.end] = lprobs[..., self.end].masked_scatter(last, ends)

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Keep only these documents of the batch (called by the generator)."""
        self.limits = self.limits[batch_idxs]
        self.inner.prune_sentences(batch_idxs)


class DocumentSearch(LimitedSearch):
    """A search that masks what the sentence structure forbids.

    Args:
        dictionary, inner: as of ``LimitedSearch``.
        rule: the sentence rule.
        limits: (batch, most sentences) int64, most words of each sentence.
        sentences: (batch,) int64, how many there are.
    """

    def __init__(self, dictionary: Dictionary, inner: Search, rule: SentenceRule, limits: Tensor, sentences: Tensor):
        super().__init__(dictionary, inner, limits, rule.language)
        self.rule, self.sentences = rule.on(limits.device), sentences
        # Siblings that are diverse (--diversity-rate) pay for their rank: a token without an alternative would, too.
        self.free = getattr(inner, "diversity_rate", 0.0)

    def constrain(self, lprobs: Tensor, prefixes: Tensor) -> None:
        """Change lprobs (batch, beam, vocabulary) in place, given prefixes (batch, beam, length) that start with <s>.

        A hypothesis whose next token is fixed by prefix tokens, against the rule, stays as it is.
        """
        rule, state = self.rule, self.rule.read(prefixes)
        lprobs = lprobs.view(-1, lprobs.shape[-1])
        original = lprobs.clone()
        between = rule.between(state)
        short, full = rule.length_bounds(state, self.limits)
        rule.restrict(lprobs, indices_of(short & ~between), indices_of(full & ~between))
        boundaries = indices_of(between)
        lprobs[boundaries] = -torch.inf
        lprobs[boundaries, rule.without_choice(state, self.sentences.unsqueeze(1))[between]] = (
            self.free if prefixes.shape[2] > 1 else 0.0  # at the first step there are no siblings
        )

        settled = original.isneginf().sum(dim=1).eq(original.shape[1] - 1)  # prefix tokens leave one choice
        lprobs[settled.unsqueeze(1) & original.isneginf()] = -torch.inf
        stuck = lprobs.isneginf().all(dim=1)
        lprobs[stuck] = original[stuck]

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Keep only these documents of the batch (called by the generator)."""
        super().prune_sentences(batch_idxs)
        self.sentences = self.sentences[batch_idxs]


def indices_of(chosen: Tensor) -> Tensor:
    """Return int64 indices of the chosen among the batch * beam hypotheses, (batch, beam) bool."""
    return chosen.flatten().nonzero().flatten()


class RepeatedNgrams(nn.Module):
    """N-gram blocking with the interface of fairseq's ``NGramRepeatBlock``; n-grams restart at each sentence.

    fairseq's would also compare with padding at the end of the hypotheses' buffer, and count ``<s>`` and ``</s>``, of
    which documents have many. As the length limits, blocking here holds within a sentence: names and terms may recur in
    the next one.

    Args:
        size: n, the number of consecutive words.
        bos: index of ``<s>``, which opens a sentence.
    """

    def __init__(self, size: int, bos: int):
        super().__init__()
        self.size, self.bos = size, bos

    def forward(self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
        """Set ``lprobs`` (bsz * beam_size, vocabulary) to -inf at words that would complete a repeated n-gram.

        A word without an alternative (``--prefix-size``) stays: all others are -inf already.

        ``tokens``: (bsz * beam_size, longest) int64 prefixes, of which ``step`` + 1 tokens are written.
        """
        settled = lprobs.isfinite().sum(dim=1).le(1).tolist()
        for hypothesis, prefix in enumerate(tokens[:, : step + 1].tolist()):
            banned = [] if settled[hypothesis] else self.banned(prefix)
            if banned:
                lprobs[hypothesis, banned] = -torch.inf
        return lprobs

    def banned(self, prefix: list[int]) -> list[int]:
        """Return the words that may not follow a prefix."""
        opened = len(prefix) - prefix[::-1].index(self.bos) if self.bos in prefix else 0
        sentence, before = prefix[opened:], self.size - 1
        newest = sentence[len(sentence) - before :]
        starts = range(len(sentence) - before) if len(sentence) >= before else ()
        return [sentence[start + before] for start in starts if sentence[start : start + before] == newest]
