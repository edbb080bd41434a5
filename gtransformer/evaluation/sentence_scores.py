"""Log probabilities of the sentences of given document translations (forced decoding).

The log probability of a sentence is the sum over its tokens and its end symbol. The ``<s>`` in
front of it is not counted, as the model does not choose it (``search.rules``). No position reads
later ones, so the value does not depend
on following sentences. Exception: models whose windows depend on the length of the whole target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.common.model import prefix_of
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.tokenisers import Moses

TokenLists = list[list[int]]
Progress = Callable[[Iterable], Iterable]


@dataclass(frozen=True)
class Layout:
    """The form of a text as one sequence of tokens, given by indices of one dictionary.

    Attributes:
        end: ends each sentence and is part of it.
        opening: precedes each sentence and is not part of it; the decoder starts from it. None, for
            a single sentence of fairseq's ``transformer``: it starts from ``end``.
        given: a forced first word of sentences, which is not part of them.
    """

    end: int
    opening: int | None = None
    given: int | None = None

    def target(self, sentences: TokenLists) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Return the decoder's input, its target tokens, and per sentence the span [first, end) of
        its target tokens.

        A decoder that starts from the document's own first token reads the whole document, as in
        training. Its last token predicts nothing, but counts for windows that depend on the length.
        """
        tokens, spans = self.document(sentences)
        if self.opening is None:
            return [self.end, *tokens[:-1]], tokens, spans
        # Row i predicts token i + 1, so spans move by one.
        return tokens, tokens[1:], [(start - 1, end - 1) for start, end in spans]

    def document(self, sentences: TokenLists) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the document's tokens, and the span of each sentence in them."""
        tokens: list[int] = []
        spans = []
        for sentence in sentences:
            tokens += [] if self.opening is None else [self.opening]
            own = [*sentence, self.end]
            spans.append((len(tokens) + (own[0] == self.given), len(tokens) + len(own)))
            tokens += own
        return tokens, spans


@dataclass(frozen=True)
class Request:
    """A source document and a translation of its beginning: sentences of token indices, without
    ``<s>`` and ``</s>``.

    Attributes:
        scored: the sentences of the translation, from 0, whose log probability is computed; None:
            all.
        name: for messages.
    """

    source: TokenLists
    target: TokenLists
    scored: tuple[int, ...] | None = None
    name: str = "a text"


def size(sentences: TokenLists) -> int:
    """Return the number of tokens of a document, including boundary tokens."""
    return sum(len(sentence) + 2 for sentence in sentences)


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> torch.Tensor:
    """Return rows of token indices as one (batch, longest) int64 tensor, padded on the right."""
    tensors = [torch.as_tensor(row, dtype=torch.long) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad).to(device)


class SentenceScorer:
    """Scorer of the sentences of translations, with one trained model.

    Args:
        model: a fairseq encoder-decoder; ``source`` and ``target`` are its dictionaries.
        max_tokens: most padded tokens of a batch, on each side.
        layouts: of source and target, for models with another document form.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        source: Vocabulary,
        target: Vocabulary,
        max_tokens: int = 4096,
        layouts: tuple[Layout, Layout] | None = None,
    ) -> None:
        self.model, self.source, self.target, self.max_tokens = (
            model.eval(),
            source,
            target,
            max_tokens,
        )
        self.layouts = layouts or (
            Layout(source.eos(), source.bos()),
            Layout(target.eos(), target.bos(), prefix_of(model, target)),
        )

    def score(self, requests: Sequence[Request], progress: Progress = iter) -> list[list[float]]:
        """Return for each request the log probability (natural logarithm) of its scored sentences.

        Batching does not change the result beyond rounding. ``progress`` wraps the list of batches.
        """
        return [
            [sum(tokens) for tokens in sentences]
            for sentences in self.score_tokens(requests, progress)
        ]

    def score_tokens(
        self, requests: Sequence[Request], progress: Progress = iter
    ) -> list[list[list[float]]]:
        """Return the same as ``score`` by token: a list for each sentence; the last token is
        ``</s>``.
        """
        results: list[list[list[float]]] = [[] for _ in requests]
        for batch in progress(list(self.batches(requests))):
            for number, parts in zip(
                batch, self._score_batch([requests[i] for i in batch]), strict=True
            ):
                if not all(
                    part.isfinite().all() for part in parts
                ):  # comparisons with them would be wrong
                    raise UserError(
                        f"{requests[number].name}: the model's log probabilities are not finite; "
                        "check its weights, or "
                        "try another precision"
                    )
                results[number] = [part.tolist() for part in parts]
        return results

    def batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Yield indices of requests in batches of at most ``max_tokens`` padded tokens on each
        side.

        Requests with the same source (the same object) are in one batch, so that it is encoded
        once. A longer request is its own batch. Batches are the same in every run, so scores are,
        too, to the last digit.
        """
        first: dict[int, int] = {}  # id of a source -> the first request with it
        for number, request in enumerate(requests):
            first.setdefault(id(request.source), number)

        def order(number: int) -> tuple[int, int, int]:
            request = requests[number]
            # Similar lengths together waste little padding; the same source next to itself is
            # encoded once.
            return size(request.source), first[id(request.source)], size(request.target)

        batch: list[int] = []
        for number in sorted(range(len(requests)), key=order):
            grown = [requests[i] for i in (*batch, number)]
            sources = {id(request.source): size(request.source) for request in grown}
            target_width = max(size(request.target) for request in grown)
            if (
                batch
                and max(target_width * len(grown), max(sources.values()) * len(sources))
                > self.max_tokens
            ):
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def features(
        self, requests: Sequence[Request], read: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, dict]:
        """Return the decoder's top states, (requests, longest, channels), and its extra outputs."""
        device = next(self.model.parameters()).device
        # By identity: the candidates of an item share their source, which is then encoded once.
        unique = list({id(request.source): request.source for request in requests}.values())
        rows = {id(source): row for row, source in enumerate(unique)}
        sources = [self.layouts[0].document(source)[0] for source in unique]
        encoder_out = self.model.encoder(
            pad_rows(sources, self.source.pad(), device),
            src_lengths=torch.tensor([len(source) for source in sources], device=device),
        )
        order = torch.tensor([rows[id(request.source)] for request in requests], device=device)
        return self.model.decoder(
            pad_rows(read, self.target.pad(), device),
            encoder_out=self.model.encoder.reorder_encoder_out(encoder_out, order),
            features_only=True,
        )

    @torch.no_grad()
    def _score_batch(self, requests: Sequence[Request]) -> list[list[torch.Tensor]]:
        laid_out = [self.layouts[1].target(request.target) for request in requests]
        features, extra = self.features(requests, [tokens for tokens, _, _ in laid_out])
        device = features.device
        # The output layer is expensive, so only the tokens of scored sentences go through it.
        scored = [request.scored or range(len(request.target)) for request in requests]
        spans = [
            [own[number] for number in numbers]
            for (_, _, own), numbers in zip(laid_out, scored, strict=True)
        ]
        positions = [
            (row, at) for row, own in enumerate(spans) for span in own for at in range(*span)
        ]
        goal = torch.tensor(
            [laid_out[row][1][at] for row, at in positions], dtype=torch.long, device=device
        )
        row, at = torch.tensor(positions, dtype=torch.long, device=device).view(-1, 2).unbind(1)
        with getattr(self.model.decoder, "autocast", nullcontext)():
            logits = self.model.decoder.output_layer(features[row, at].unsqueeze(0))
        log_probs = self.model.get_normalized_probs((logits, extra), log_probs=True)[0]
        # Summed in float64: the order of addition does not show in the score.
        tokens = log_probs.gather(1, goal.unsqueeze(1)).squeeze(1).double().cpu()
        parts = iter(tokens.split([end - start for own in spans for start, end in own]))
        return [[next(parts) for _ in own] for own in spans]


def sentence_encoder(
    prepared: Path, lang: str, dictionary: Vocabulary, tokenised: bool = False
) -> Callable[[Sequence[str]], TokenLists]:
    """Return a function from plain sentences to token indices, by the same steps that prepared the
    corpus.

    ``tokenised``: the sentences are tokenised by Moses' rules; they are detokenised first.
    """
    text = open_text(prepared, lang)
    detokeniser = Moses(lang) if tokenised else None

    def encode(texts: Sequence[str]) -> TokenLists:
        # Detokenised text is split as the corpus was, whatever tokeniser that had.
        plain = detokeniser.join(texts) if detokeniser else texts
        return [[dictionary.index(word) for word in line.split()] for line in text.encode(plain)]

    return encode
