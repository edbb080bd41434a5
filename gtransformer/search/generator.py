"""fairseq's sequence generator, told how long a document may become, and its loop held to the sentence rule."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from fairseq.data import Dictionary
from fairseq.search import BeamSearch as FairseqBeamSearch
from fairseq.search import Search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from gtransformer.data.group_tags import pad_context
from gtransformer.data.instances import BOUNDARY_TOKENS
from gtransformer.models.common.model import needs_of
from gtransformer.search.beam import BeamSearch, Scoring, decodes_stepwise
from gtransformer.search.positions import available, longest_sentence, within_positions
from gtransformer.search.rules import SentenceRule, sentence_length_limits


class DocumentGenerator(SequenceGenerator):
    """Generates whole documents behind a given ``<s>``; ``eos`` is the target language symbol, which ends them.

    Length limits hold for each sentence (``--max-len-a``, ``--max-len-b``, ``--min-len``), and so does
    ``--no-repeat-ngram-size``; the limits' sum takes the place of fairseq's document-wide limit. ``max_len``
    (``--max-len``) still caps a document in ``--doc-mode full``.

    Plain beam search under the rule goes the faster way of ``search/beam.py``; other strategies, prefix tokens, lexical
    constraints, n-gram blocking, language models, and models that do not decode stepwise go through fairseq's loop.
    No batch leaves a trace: what depends on one is made for it.

    Args:
        models, tgt_dict, options: as for fairseq's SequenceGenerator.
        symbols: (n,) int64 source indices that are not words: ``<s>``, ``</s>``, padding and the languages.
        rule: what a document may look like; None lets the model write what it will.
        documents_at_once: how many documents of a batch are translated at a time; 0 means all.
        nbest: how many hypotheses of each document are asked for (``--nbest``); all that were found are returned.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        symbols: Tensor,
        rule: SentenceRule | None = None,
        documents_at_once: int = 0,
        nbest: int = 1,
        **options,
    ):
        self.sentence_a = options.pop("max_len_a", 0)
        self.sentence_b = options.pop("max_len_b", 200)
        # The rule counts the words of a sentence; a document itself is never too short.
        options["min_len"] = min(1, options.get("min_len", 1))
        super().__init__(models, tgt_dict, max_len_a=0, max_len_b=0, **options)
        self.options = options
        self.symbols, self.rule, self.nbest = symbols, rule, nbest
        # Sinusoidal positions have no end; what --max-target-positions says is no limit on translations.
        self.positions = min(available(model.decoder) for model in models)
        # Where they restart at each sentence, a sentence must fit them by itself.
        restarting = [longest_sentence(model) for model in models if getattr(model.decoder, "restarts", False)]
        self.longest_sentence = min(restarting, default=None)
        self.longest = options.get("max_len") or self.positions
        self.translates_last_sentence_only = any(needs_of(model).last_sentence_only for model in models)
        self.documents_at_once = documents_at_once
        plain = rule is not None and type(self.search) is FairseqBeamSearch
        unusual = [self.lm_model, self.repeat_ngram_blocker, self.token_indices_to_suppress]
        usual = not self.match_source_len and all(option is None for option in unusual)
        self.fast = plain and usual and all(decodes_stepwise(model) for model in models)

    def _generate(self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        src_tokens, bos = sample["net_input"]["src_tokens"], self.tgt_dict.bos()
        if self.translates_last_sentence_only:
            src_tokens = pad_context(src_tokens, bos, self.pad)
        words = self._words(src_tokens)
        limits, sentences = self._limits(src_tokens, words)
        limits = within_positions(limits, sentences, self.positions)
        plain = prefix_tokens is None and constraints is None and bos_token in (None, bos)
        if self.fast and plain:
            return self._search(sample["net_input"], limits, sentences)
        # Words, <s> and </s> of every sentence but the given first <s>, then the language symbol, which fairseq counts
        # apart.
        total = int((limits.sum(dim=1) + 2 * sentences).max()) - 1
        strategy = copy.copy(self.search)  # some of fairseq's keep what they know of a batch in themselves
        if self.rule is not None:
            strategy = DocumentSearch(self.tgt_dict, strategy, self.rule, limits, sentences)
            # The rule ends every document. fairseq's limit must lie behind that, because it would make the model pay
            # for the language symbol; prefix tokens may exceed the sentences' limits.
            total += 1 + (0 if prefix_tokens is None else prefix_tokens.shape[1])
        else:
            whole = int(self.sentence_a * words.sum(dim=1).max()) + int(self.sentence_b)
            total = min(max(total, whole), self.longest - 1)
        # fairseq's diverse beams take the numbers of instances in the corpus for those in the batch.
        sample = {name: value for name, value in sample.items() if name != "id"}
        found = self._loop(strategy, total)._generate(
            sample, prefix_tokens, constraints, bos if bos_token is None else bos_token
        )
        return [[hypothesis for hypothesis in nbest if hypothesis["score"] > EXHAUSTED / 1e10] for nbest in found]

    def _loop(self, strategy, longest: int) -> SequenceGenerator:
        """fairseq's generator for one batch: its length limit is one of its attributes, not of its calls."""
        limits = {"max_len_a": 0, "max_len_b": longest, "max_len": longest + 1}
        made = SequenceGenerator(self.model, self.tgt_dict, **{**self.options, **limits, "search_strategy": strategy})
        if made.repeat_ngram_blocker is not None:
            made.repeat_ngram_blocker = RepeatedNgrams(self.options["no_repeat_ngram_size"], self.tgt_dict.bos())
        return made

    def continue_prefixes(self, net_input: dict, forced_prefixes: Sequence[Tensor], new: Tensor) -> list[list[dict]]:
        """Translate the last sentences of every document behind translations that are there already.

        What is forced costs nothing and does not count in length normalisation, nor does the ``<s>`` behind it.

        Args:
            net_input: ``src_tokens`` and ``src_lengths``, context sentences and new ones.
            forced_prefixes: for each document (length,) int64, the context's translations, ``<s> words </s>`` each; or
                none.
            new: (documents,) int64, how many sentences are to be translated.

        Returns:
            as fairseq's generator; hypotheses hold what is new: ``words </s> <s> words </s> [de]``.
        """
        src_tokens = net_input["src_tokens"]
        limits, sentences = self._limits(src_tokens, self._words(src_tokens))
        given = torch.tensor(
            [int(one.eq(self.tgt_dict.eos()).sum()) for one in forced_prefixes], device=src_tokens.device
        )
        lengths = torch.tensor([len(one) for one in forced_prefixes], device=src_tokens.device)
        column = torch.arange(int((given + new).max()), device=src_tokens.device) - given.unsqueeze(1)
        wanted = (column >= 0) & (column < new.unsqueeze(1))
        # From the place in the translation to that of the source sentence: contexts may be of different lengths.
        source = (column + (sentences - new).unsqueeze(1)).clamp(0, limits.shape[1] - 1)
        limits = limits.gather(1, source).where(wanted, 0)
        limits = within_positions(limits, new, self.positions - lengths)
        return self._search(net_input, limits, given + new, forced_prefixes)

    def _limits(self, src_tokens: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sentence_length_limits``, none above the positions of a sentence with ``<s>`` and ``</s>``."""
        limits, sentences = sentence_length_limits(
            src_tokens, self.tgt_dict.bos(), words, self.sentence_a, self.sentence_b
        )
        return limits if self.longest_sentence is None else limits.clamp(
            max=self.longest_sentence - BOUNDARY_TOKENS
        ), sentences

    def _words(self, src_tokens: Tensor) -> Tensor:
        """(batch, length) bool, True at words."""
        return ~torch.isin(src_tokens, self.symbols.to(src_tokens.device))

    def _search(
        self, net_input: dict, limits: Tensor, sentences: Tensor, forced_prefixes: Sequence[Tensor] | None = None
    ) -> list[list[dict]]:
        """Beam search document by document (search/beam.py)."""
        scoring = Scoring(
            beam=self.beam_size,
            unk=self.unk,
            lenpen=self.len_penalty,
            unkpen=self.unk_penalty,
            temperature=self.temperature,
            normalise=self.normalize_scores,
        )
        models = list(self.model.models)
        outputs = [model.encoder.forward_torchscript(net_input) for model in models]
        memories = [output["memory"][0] for output in outputs]
        decoders = [model.decoder for model in models]
        at_once = self.documents_at_once if forced_prefixes is None else 0
        documents = limits, sentences, at_once, forced_prefixes
        return BeamSearch(self.rule, scoring, decoders, memories, *documents).run()


EXHAUSTED = -1e30  # score of what is no hypothesis


class DocumentSearch(Search):
    """Masks what the sentence structure forbids, then lets ``inner`` (beam search, sampling, ...) choose.

    Made for one batch: it forgets the documents that fairseq's loop has finished.

    Args:
        dictionary: target dictionary.
        inner: one of fairseq's search strategies; not those for lexical constraints and for the source's length, which
            no document has (``tasks/accepted_options.py``).
        rule: what a document may look like.
        limits: (batch, most sentences) int64, most words of each sentence.
        sentences: (batch,) int64, how many there are.
    """

    def __init__(self, dictionary: Dictionary, inner: Search, rule: SentenceRule, limits: Tensor, sentences: Tensor):
        super().__init__(dictionary)
        self.inner, self.rule = inner, rule.on(limits.device)
        self.limits, self.sentences = limits, sentences
        self.stop_on_max_len = inner.stop_on_max_len

    def step(self, step: int, lprobs: Tensor, scores: Tensor | None, prev_output_tokens=None, original_batch_idxs=None):
        """fairseq's interface: lprobs (batch, beam, vocabulary), prev_output_tokens (batch * beam, step + 1)."""
        beam = lprobs.shape[1]
        self.constrain(lprobs, prev_output_tokens.unflatten(0, (-1, beam)))
        if step > 0:
            # Where candidates are few, fairseq continues rows that have ended already: nothing may come of them.
            ended = prev_output_tokens[:, -1].eq(self.rule.language).view(-1, beam, 1)
            scores = scores.masked_fill(ended, -torch.inf)
        found = self.inner.step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        return self._end_exhausted(*found, beam)

    def _end_exhausted(self, scores: Tensor, tokens: Tensor, beams: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
        """End documents that have no hypothesis left, because the constraint allows fewer than the beam is wide.

        fairseq would wait for more for ever. It gets EXHAUSTED ones, which the generator throws away.
        """
        exhausted = scores.isneginf().all(dim=1, keepdim=True)
        first = torch.arange(scores.shape[1], device=scores.device) < beam  # the others must remain to be continued
        chosen = exhausted & first
        return scores.masked_fill(chosen, EXHAUSTED), tokens.masked_fill(chosen, self.rule.language), beams

    def constrain(self, lprobs: Tensor, prefixes: Tensor) -> None:
        """Change lprobs (batch, beam, vocabulary) in place, given prefixes (batch, beam, length) that start with <s>.

        A row that prefix tokens have already settled against the rule stays as it is.
        """
        rule, state = self.rule, self.rule.read(prefixes)
        lprobs = lprobs.view(-1, lprobs.shape[-1])
        original = lprobs.clone()
        between = rule.between(state)
        short, full = rule.length_bounds(state, self.limits)
        rule.restrict(lprobs, indices_of(short & ~between), indices_of(full & ~between))
        boundaries = indices_of(between)
        lprobs[boundaries] = -torch.inf
        lprobs[boundaries, rule.without_choice(state, self.sentences.unsqueeze(1))[between]] = 0.0

        settled = original.isneginf().sum(dim=1).eq(original.shape[1] - 1)  # prefix tokens leave one choice
        lprobs[settled.unsqueeze(1) & original.isneginf()] = -torch.inf
        stuck = lprobs.isneginf().all(dim=1)
        lprobs[stuck] = original[stuck]

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Only these documents of the batch go on (called by the generator)."""
        self.limits, self.sentences = self.limits[batch_idxs], self.sentences[batch_idxs]
        self.inner.prune_sentences(batch_idxs)


def indices_of(chosen: Tensor) -> Tensor:
    """(batch, beam) bool -> int64 indices of the chosen among the batch * beam rows."""
    return chosen.flatten().nonzero().flatten()


class RepeatedNgrams(nn.Module):
    """Called as fairseq's ``NGramRepeatBlock``, which compares with padding at the end of the hypotheses' buffer.

    That one would also count ``<s>`` and ``</s>``, of which documents have many: n-grams restart at each sentence,
    as the limits on its length do. Names and terms may come again in the next one.

    Args:
        size: n, how many words in a row.
        bos: index of ``<s>``, which opens a sentence.
    """

    def __init__(self, size: int, bos: int):
        super().__init__()
        self.size, self.bos = size, bos

    def forward(self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
        """``lprobs`` (bsz * beam_size, vocabulary), -inf at words that would end an n-gram which is there already.

        A word that is forced (``--prefix-size``) stays: all others are -inf already, and nothing would be left.

        ``tokens``: (bsz * beam_size, longest) int64 prefixes, of which ``step`` + 1 tokens are written.
        """
        settled = lprobs.isfinite().sum(dim=1).le(1).tolist()
        for hypothesis, prefix in enumerate(tokens[:, : step + 1].tolist()):
            banned = [] if settled[hypothesis] else self.banned(prefix)
            if banned:
                lprobs[hypothesis, banned] = -torch.inf
        return lprobs

    def banned(self, prefix: list[int]) -> list[int]:
        """What may not come next, behind a prefix."""
        opened = len(prefix) - prefix[::-1].index(self.bos) if self.bos in prefix else 0
        sentence, before = prefix[opened:], self.size - 1
        newest = sentence[len(sentence) - before :]
        starts = range(len(sentence) - before) if len(sentence) >= before else ()
        return [sentence[start + before] for start in starts if sentence[start : start + before] == newest]
