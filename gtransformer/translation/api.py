"""The Python interface: ``GTransformer.from_pretrained(DIR).translate(documents)``."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark
from gtransformer.search.strategies import SEQUENTIAL, SLIDING
from gtransformer.translation.engine import Engine
from gtransformer.translation.keep import USUAL, Keep
from gtransformer.translation.lines import (
    InputLine,
    Remarks,
    Window,
    in_equal_parts,
    read_text,
    windows,
)
from gtransformer.translation.model_directory import ModelDirectory, check_search
from gtransformer.translation.options import SearchOptions

BATCHES = 4  # batches of ``max_tokens`` in a window: enough to group instances of similar length
# Batches of a window on the CPU: one, and room for what the last instance has in excess. A finished
# window is written; a model of base size takes 20 to 40 seconds for one on one core.
ON_CPU = 0.875


@dataclass(frozen=True)
class Translation:
    """One translation of a line: plain text, and its log probability (natural logarithm, summed
    over its tokens).
    """

    text: str
    score: float


@dataclass(frozen=True)
class TranslatedLine:
    """A line of the input and its n best translations, best first; empty for a line that is not a
    sentence.

    The n-th translation of a line is its part of the n-th hypothesis of the instance. So the n-th
    translations of neighbouring lines belong together.

    Attributes:
        at_limit: search had to end the best one, or a part of it.
        lost: a translation lacked a span that was to be kept (``keep``), which is at its end now.
    """

    line: InputLine
    translations: list[Translation]
    at_limit: bool
    lost: bool

    def as_text(self) -> str:
        """Return the best translation; ``<d>`` for ``<d>``, "" for any other line that is not a
        sentence.
        """
        if self.translations:
            return self.translations[0].text
        return DOCUMENT if is_document_mark(self.line.text) else ""

    def as_json(self) -> str:
        """Return an object with ``line``, ``document`` and ``sentence`` (all from 1; null between
        documents), ``source`` as read, ``translation``, its ``score`` (null for a line that is not
        a sentence), and, if there are several, ``nbest``.
        """
        nbest = [
            {"translation": found.text, "score": round(found.score, 4)}
            for found in self.translations
        ]
        value: dict = {
            "line": self.line.number,
            "document": None if self.line.breaks else self.line.document,
            "sentence": None if self.line.breaks else self.line.sentence,
            "source": self.line.text,
            "translation": self.as_text(),
            "score": nbest[0]["score"] if nbest else None,
        }
        if len(nbest) > 1:
            value["nbest"] = nbest
        return json.dumps(value, ensure_ascii=False)


class GTransformer:
    """A trained model that translates plain text.

    >>> model = GTransformer.from_pretrained("model")
    >>> model.translate(["My aunt lost her bat.", "It was old."])                # one document
    >>> model.translate([["My aunt lost her bat.", "It was old."], ["Hello."]])  # several

    ``keep``: the spans that must come back as they are; URLs, code and the like by default.
    """

    def __init__(self, directory: ModelDirectory, engine: Engine):
        self.directory, self.engine = directory, engine
        # A sentence may be cut in parts; the engine puts the prefix in front of each.
        self.source_text = open_text(directory.path, directory.source_lang, prefix=False)
        self.target_text = open_text(directory.path, directory.target_lang, prefix=False)
        self.options = directory.search
        self.keep = Keep(USUAL, self.survives)
        # Sentences of a line.
        self._between = "" if two_letters(directory.target_lang) in ("zh", "ja") else " "
        # A model may have fewer positions than an instance of its corpus has tokens; no sentence
        # may have more.
        self.max_instance_tokens = min(
            engine.longest + 1, directory.max_instance_tokens or math.inf
        )
        self.max_sentence_tokens = max(
            1, min(engine.longest, engine.longest_sentence) - engine.boundary_tokens
        )

    @classmethod
    def from_pretrained(
        cls, path: str | Path, device: str | torch.device | None = None, precision: str = "auto"
    ) -> GTransformer:
        """Load a model directory that ``gtransformer export`` has made.

        Args:
            device: "cpu", "cuda", "cuda:1", ...; by default a GPU if there is one.
            precision: "float32", "bfloat16" (a GPU, or a CPU with instructions for it), "float16"
                (a GPU), "int8" (a CPU with instructions for it), or "auto": the model's training
                precision (``--autocast``), float32 by default.

        Raises UserError if ``path`` is no model directory, or if the precision is not supported.
        """
        directory = ModelDirectory.open(path)
        return cls(directory, Engine(directory, device, precision))

    def translate(
        self, text: Sequence[str] | Sequence[Sequence[str]], **search: float | str
    ) -> list[str] | list[list[str]]:
        """Translate a document (a list of sentences) or several (a list of such lists).

        Sentences are plain text. The result has the shape of ``text``; a blank sentence gives an
        empty string. Documents may have any length. A warning names sentences that were cut in
        parts, and those whose translation reached its length limit, and tells if many tokens are
        unknown to the model.

        Args: search: fields of SearchOptions (``beam=1``) that override the model directory's.

        Raises TypeError for anything but lists of strings. Raises UserError for invalid search
        options.
        """
        if isinstance(text, str):
            raise TypeError(
                "give a list of sentences, or a list of documents (lists of sentences), not a "
                "string"
            )
        documents = list(text)
        single = bool(documents) and all(isinstance(sentence, str) for sentence in documents)
        found = self.nbest([documents] if single else documents, **search)
        best = [[line[0].text if line else "" for line in document] for document in found]
        return best[0] if single else best

    def nbest(
        self, documents: Sequence[Sequence[str]], **search: float | str
    ) -> list[list[list[Translation]]]:
        """Return, by document and sentence, the ``nbest`` best translations with scores (none for a
        blank sentence).

        Raises as ``translate``, and TypeError for a single document (give a list of one document).
        """
        documents = list(documents)
        if any(isinstance(document, str) for document in documents):
            raise TypeError("give a list of documents (lists of sentences)")
        if any(is_document_mark(sentence) for document in documents for sentence in document):
            raise UserError(
                f"a sentence is {DOCUMENT}, the border of documents: give each document as a list"
            )
        lines = [text for document in documents for text in (DOCUMENT, *document)]
        results: list[list[list[Translation]]] = []
        remarks = self.remarks()
        for window in self.translate_lines(lines, self.options.changed(**search)):
            for translated in window:
                remarks.add(translated.line, translated.at_limit, translated.lost)
                if translated.line.breaks:
                    # A border: all lines after it belong to the next document.
                    results.append([])
                else:
                    results[-1].append(translated.translations)
        for remark in remarks:
            warnings.warn(remark, stacklevel=2)
        return results

    def remarks(self) -> Remarks:
        """Return an empty record of what to tell the user about a text."""
        return Remarks(self.engine.source.indices)

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        split: Callable[[str], list[str]] | None = None,
        one_document: bool = False,
    ) -> Iterator[list[TranslatedLine]]:
        """Translate a text of any length as a stream, in bounded memory.

        Args:
            lines: with or without line ends, also an open file. ``<d>`` ends a document; so does a
                blank line if the text does not start with ``<d>``.
            options: search options (default: the model directory's).
            split: splits a line of running text into sentences; None: a line is a sentence.
            one_document: blank lines do not end a document.

        Yields:
            windows of consecutive lines; each line of the input once, in order.
        """
        options = self._with_strategy(options or self.options)
        longest = self.max_sentence_tokens
        if options.window_tokens is not None:  # a window must have room for a sentence
            longest = max(1, min(longest, options.window_tokens - self.engine.boundary_tokens))
        # Lazily: a window is translated and given back before the next lines are read.
        text = read_text(lines, self.encode, split, longest, one_document, self.keep)
        for window in self._windows(text, options):
            yield self._translate(window, options)

    def encode(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the subwords of plain source sentences; as many come back as went in."""
        return [line.split() for line in self.source_text.encode(sentences)]

    def survives(self, text: str) -> bool:
        """Return whether the model knows all tokens of a text, and writes them as this text."""
        sides = (self.source_text, self.engine.source), (self.target_text, self.engine.target)
        for side, vocabulary in sides:
            (line,) = side.encode([text])
            for token in line.split():
                # Bytes of characters without a piece are in the vocabulary, but a small corpus has
                # none to learn them from.
                if token not in vocabulary.indices or token.startswith("<0x"):
                    return False
        return self.target_text.decode([line]) == [text]

    def _windows(self, lines: Iterable[InputLine], options: SearchOptions) -> Iterator[Window]:
        strategy, boundary = options.decoding_strategy(), self.engine.boundary_tokens
        many = (ON_CPU if self.engine.device.type == "cpu" else BATCHES) * options.max_tokens
        if strategy.definition.by_window and (
            strategy.tokens is not None or strategy.context is not None
        ):
            # The strategy cuts documents by itself, so they come whole.
            return windows(lines, math.inf, many)
        # Search in the model's instances, as fairseq-generate does.
        if self.directory.parts:
            most = min(self.directory.max_instance_tokens, self.engine.longest)
            return (
                in_equal_parts(window, most, boundary) for window in windows(lines, math.inf, many)
            )
        return windows(lines, self.max_instance_tokens, many, self.directory.max_sents, boundary)

    def _with_strategy(self, options: SearchOptions) -> SearchOptions:
        """Return the options, completed from the model's instances where the strategy needs more.

        Raises UserError if the instances have no context, or if a window has more tokens than the
        model has positions.
        """
        check_search(vars(self.directory), options)
        if options.window_tokens is not None and options.window_tokens > self.engine.longest:
            raise UserError(
                f"--window-tokens {options.window_tokens}: the model takes at most "
                f"{self.engine.longest}"
            )
        if options.window_tokens is not None or options.context_sentences is not None:
            return options
        # What training's instances had is what the model knows how to read.
        if options.strategy == SEQUENTIAL and self.directory.max_sents is not None:
            return options.changed(context_sentences=self.directory.max_sents - 1)
        if options.strategy == SLIDING:
            return options.changed(window_tokens=self.max_instance_tokens - 1)
        return options

    def _translate(self, window: Window, options: SearchOptions) -> list[TranslatedLine]:
        tokens = [
            [window.tokens(reference) for reference in instance] for instance in window.instances
        ]
        first_sentences = [window.sentence(instance[0]) for instance in window.instances]
        found = self.engine.translate(tokens, options, first_sentences)
        # All at once, as a call of the detokeniser costs more than a sentence.
        plain = iter(
            self.target_text.decode(
                [text for nbest in found for one in nbest for text in one.sentences]
            )
        )
        # By line, source sentence, rank.
        pieces: list[list[list[Translation]]] = [[] for _ in window.lines]
        at_limit = [False] * len(window.lines)
        for references, nbest in zip(window.instances, found, strict=True):
            ranked = [
                [Translation(next(plain), score) for score in hypothesis.scores]
                for hypothesis in nbest
            ]
            for position, (line, _) in enumerate(references):
                pieces[line].append([one[position] for one in ranked])
                at_limit[line] |= nbest[0].at_limit[position]
        lines = []
        for line, parts, ended in zip(window.lines, pieces, at_limit, strict=True):
            translations, lost = [], False
            for translation in join(parts, line.start, self._between):
                # The spans, for their placeholders.
                text, lacks = self.keep.restore(translation.text, line.spans)
                translations.append(Translation(text, translation.score))
                lost = lost or lacks
            lines.append(TranslatedLine(line, translations, ended, lost))
        return lines


def join(parts: list[list[Translation]], start: str, between: str = " ") -> list[Translation]:
    """Return the n-best translations of a line, joined from those of its sentences; n is the
    smallest of all its sentences.

    Args:
        start: what stands before them; a line without words is only that.
        between: what the target language has between sentences.
    """
    if not (parts or start):
        return []
    joined = []
    # A line without sentences has one translation: what it begins with.
    for rank in range(min(map(len, parts), default=1)):
        own = [part[rank] for part in parts]
        text = start + between.join(translation.text for translation in own)
        joined.append(Translation(text, sum(translation.score for translation in own)))
    return joined
