"""The Python interface: ``GTransformer.from_pretrained(DIR).translate(documents)``."""

from __future__ import annotations

import json
import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

import torch

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import DOCUMENT, is_document_mark
from gtransformer.preprocess.parallel import map_in_order
from gtransformer.preprocess.spacing import UNSPACED
from gtransformer.search.strategies import FULL, PARALLEL, SEQUENTIAL, SLIDING, Strategy
from gtransformer.translation.engine import Engine
from gtransformer.translation.lines import (
    START,
    InputLine,
    Remarks,
    TextPosition,
    Window,
    beside,
    documents_to_lines,
    in_equal_parts,
    read_text,
    windows,
    with_first,
)
from gtransformer.translation.model_directory import ModelDirectory, TextChain, check_search
from gtransformer.translation.options import SearchOptions
from gtransformer.translation.two_passes import TwoPasses, needless

BATCHES = 4  # batches of ``max_tokens`` in a window: enough to group instances of similar length
# Batches of a window on the CPU: one, and room for what the last instance has in excess. A finished window is saved; a
# model of base size takes 20 to 40 seconds for one on one core.
ON_CPU = 0.875
# Characters that JSON does not escape but some readers treat as line ends.
_BREAKS = {sign: f"\\u{sign:04x}" for sign in (0x85, 0x2028, 0x2029)}


@dataclass(frozen=True)
class Translation:
    """One translation of a line: plain text, and its log probability (natural logarithm, summed over its tokens)."""

    text: str
    score: float


@dataclass(frozen=True)
class TranslatedLine:
    """A line of the input and its n best translations, best first; empty for a line that is not a sentence.

    The n-th translation of a line is its part of the n-th hypothesis of the instance. So the n-th translations of
    neighbouring lines belong together. ``at_limit``: search had to end the best one, or a part of it.
    """

    line: InputLine
    translations: list[Translation]
    at_limit: bool = False

    @property
    def _best(self) -> str:
        """The best translation; ``<d>`` for ``<d>``, "" for any other line that is not a sentence."""
        return self.translations[0].text if self.translations else DOCUMENT if is_document_mark(self.line.text) else ""

    def as_text(self, scores: bool, several: bool) -> str:
        """Return columns separated by tabs: the translation, or score and translation, of the best or all n best."""
        if not self.translations:
            return self._best
        shown = self.translations if several else self.translations[:1]
        cells = [cell for one in shown for cell in ((f"{one.score:.4f}", one.text) if scores else (one.text,))]
        return "\t".join(cells)

    def as_json(self, scores: bool, several: bool) -> str:
        """Return an object with ``line``, ``document`` and ``sentence`` (all from 1; null between documents),
        ``source`` as read, ``translation``, and on request ``score`` and ``nbest``.
        """
        value: dict = {
            "line": self.line.position.lines,
            "document": None if self.line.breaks else self.line.position.documents,
            "sentence": None if self.line.breaks else self.line.position.sentences,
            "source": self.line.text,
            "translation": self._best,
        }
        if self.translations and scores:
            value["score"] = round(self.translations[0].score, 4)
        if self.translations and several:
            value["nbest"] = [
                {"translation": one.text} | ({"score": round(one.score, 4)} if scores else {})
                for one in self.translations
            ]
        return json.dumps(value, ensure_ascii=False).translate(_BREAKS)


class GTransformer:
    """A trained model that translates plain text.

    >>> model = GTransformer.from_pretrained("model")
    >>> model.translate(["My aunt lost her bat.", "It was old."])                # one document
    >>> model.translate([["My aunt lost her bat.", "It was old."], ["Hello."]])  # several
    """

    def __init__(self, directory: ModelDirectory, chain: TextChain, engine: Engine, first_pass: Path | None = None):
        self.directory, self.chain, self.engine = directory, chain, engine
        if directory.sentences_before is None and first_pass is not None:
            raise needless(first_pass, directory.path)
        self.passes = None if directory.sentences_before is None else TwoPasses(engine, first_pass)
        self.options = directory.search
        self._between = "" if two_letters(directory.target_lang) in UNSPACED else " "  # sentences of a line
        # A model may have fewer positions than an instance of its corpus has tokens; no sentence may have more.
        self.max_instance_tokens = engine.longest + 1
        if directory.max_instance_tokens is not None:
            self.max_instance_tokens = min(self.max_instance_tokens, directory.max_instance_tokens)
        # The context sentences of a sentence need positions, too.
        others = (directory.sentences_beside or 0) + (directory.sentences_before or 0)
        self.max_sentence_tokens = max(
            1, min(engine.longest // (1 + others), engine.longest_sentence) - engine.boundary_tokens
        )

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        device: str | torch.device | None = None,
        precision: str = "auto",
        first_pass: str | Path | None = None,
    ) -> GTransformer:
        """Load a model directory that ``gtransformer export`` has made.

        Args:
            device: "cpu", "cuda", "cuda:1", ...; by default a GPU if there is one.
            precision: "float32", "bfloat16" (a GPU, or a CPU with instructions for it), "float16" (a GPU), "int8" (a
                CPU with instructions for it), or "auto": the model's training precision (``--autocast``), float32 by
                default.
            first_pass: checkpoint of a sentence model, which replaces the directory's, for a model of two passes.

        Raises UserError if ``path`` is not a complete model directory, or if the precision is not supported.
        """
        directory = ModelDirectory.open(path)
        engine = Engine(directory, device, precision)
        return cls(directory, TextChain(directory), engine, None if first_pass is None else Path(first_pass))

    @overload
    def translate(self, text: Sequence[str], *, first_pass=None, **search: float | str) -> list[str]: ...

    @overload
    def translate(
        self, text: Sequence[Sequence[str]], *, first_pass=None, **search: float | str
    ) -> list[list[str]]: ...

    def translate(self, text, *, first_pass=None, **search):
        """Translate a document (a list of sentences) or several (a list of such lists).

        Sentences are plain text. The result has the shape of ``text``; a blank sentence gives an empty string.
        Documents may have any length. A warning names sentences that were cut in parts, and those whose translation
        reached its length limit, and tells if many tokens are unknown to the model.

        Args: search: fields of SearchOptions (``beam=1``) that override the model directory's.

        Raises TypeError for anything but lists of strings. Raises UserError for invalid search options, and for a
        sentence with a line break or a lone surrogate.
        """
        single, documents = as_documents(text)
        first = [first_pass] if single and first_pass is not None else first_pass
        found = self.nbest(documents, first_pass=first, **search)
        best = [[line[0].text if line else "" for line in document] for document in found]
        return best[0] if single else best

    def nbest(
        self,
        documents: Sequence[Sequence[str]],
        *,
        first_pass: Sequence[Sequence[str]] | None = None,
        **search: float | str,
    ) -> list[list[list[Translation]]]:
        """Return, by document and sentence, the ``nbest`` best translations with scores (none for a blank sentence).

        Raises as ``translate``, and TypeError for a single document (give a list of one document).
        """
        options = self.options.changed(**search)
        longest = self._longest_sentence(options)
        options = self._with_strategy(options)
        documents = _items(documents)
        if documents and all(isinstance(one, str) for one in documents):
            raise TypeError("nbest takes a list of documents, but this is one document; give [sentences]")
        documents = listed(documents)
        results: list[list[list[Translation]]] = []
        lines = documents_to_lines(documents, self.chain.encode, longest)
        if first_pass is not None:
            first_pass = listed(first_pass)
            if [len(one) for one in first_pass] != [len(one) for one in documents]:
                raise UserError(
                    "first_pass: its documents and sentences do not match the text; give one translation of each"
                )
            flat = (text for document in first_pass for text in (DOCUMENT, *document))
            lines = self._with_first(lines, flat, "first_pass")
        remarks = self.remarks()
        for window in self._windows(lines, options):
            for translated in self._translate(window, options):
                remarks.add(translated.line, translated.at_limit)
                if translated.line.breaks:
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
        start: TextPosition = START,
        first_pass: Iterable[str] | None = None,
        jobs: int = 1,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[list[TranslatedLine]]:
        """Translate a text of any length as a stream, in bounded memory.

        Args:
            lines: with or without line ends, also an open file. ``<d>`` ends a document; so does a blank line if the
                text does not start with ``<d>``.
            options: search options (default: the model directory's).
            split: splits a line of running text into sentences; None: a line is a sentence.
            start: position of the first line in the text.
            first_pass: for a model of two passes, the first translations, line by line; not with ``split``.
            jobs: processes that translate windows. More than one are forked from this one, whose memory they share; so
                it must have no other threads (``torch.set_num_threads(1)`` before the model is loaded), and no GPU.
            numbers: of the text's documents, on which sampling depends (default: from 1).

        Yields:
            windows of consecutive lines; each line of the input once, in order.

        Raises UserError for ``jobs`` below 1, and for more than one with a GPU or several threads; TypeError for a
        text instead of lines.
        """
        if isinstance(lines, str | bytes) or isinstance(first_pass, str | bytes):
            raise TypeError("give lines, for instance an open file or a list, not a string")
        if jobs < 1 or (jobs > 1 and self.engine.device.type != "cpu"):
            raise UserError(f"jobs {jobs}: give 1 or more, and 1 with a GPU")
        if jobs > 1 and (threads := torch.get_num_threads()) > 1:
            raise UserError(
                f"jobs {jobs}: PyTorch has {threads} threads, for which forked processes would wait for ever; call "
                "torch.set_num_threads(1) before the model is loaded"
            )
        longest = self._longest_sentence(options or self.options)
        options = self._with_strategy(options or self.options)
        text = read_text(lines, self.chain.encode, split, start, longest)
        if first_pass is not None:
            if split is not None:
                raise UserError("--first-pass has a translation for each line; leave it out with --split-sentences")
            text = self._with_first(text, first_pass, "--first-pass")
        windows = self._windows(text, options)
        work = partial(self._translate, options=options, numbers=numbers)
        if jobs == 1:
            yield from map(work, windows)
            return
        self._pack_weights(options)
        context = multiprocessing.get_context("fork")
        with closing(map_in_order(work, windows, jobs, context, "translate", "--jobs")) as results:
            for _, translated in results:
                yield translated

    def _pack_weights(self, options: SearchOptions) -> None:
        """Translate two words, so that weights are packed before processes are forked, which then share them."""
        if self.passes is None:
            strategy, beam = (PARALLEL, min(2, options.beam)) if options.strategy == PARALLEL else (FULL, 1)
            few = SearchOptions(beam=beam, max_len_a=0, max_len_b=1, strategy=strategy)
            self.engine.translate([[["a"], ["a"]]], few)

    def _with_first(self, lines: Iterable[InputLine], first: Iterable[str], name: str) -> Iterator[InputLine]:
        if self.passes is None or not self.passes.before:
            raise needless("TEXT", self.directory.path)
        return with_first(lines, first, self.chain.encode_target, name)

    def _windows(self, lines: Iterable[InputLine], options: SearchOptions) -> Iterator[Window]:
        strategy, boundary = options.decoding_strategy(), self.engine.boundary_tokens
        many = (ON_CPU if self.engine.device.type == "cpu" else BATCHES) * options.max_tokens
        if self.directory.sentences_beside is not None or self.passes is not None:
            return windows(lines, math.inf, many)
        within = not strategy.definition.by_window or (
            strategy.kind == SEQUENTIAL and strategy.tokens is None and strategy.context is None
        )
        if not within:  # search in the model's instances, as fairseq-generate does
            return windows(map(partial(checked, strategy, boundary), lines), math.inf, many)
        if self.directory.parts:
            most = min(self.directory.max_instance_tokens, self.engine.longest)
            return (in_equal_parts(window, most, boundary) for window in windows(lines, math.inf, many))
        return windows(lines, self.max_instance_tokens, many, self.directory.max_sents, boundary)

    def _longest_sentence(self, options: SearchOptions) -> int:
        """Return the maximum tokens of a sentence, also of a window that the model's instances decide."""
        if options.strategy != SLIDING or options.window_tokens is not None:
            return self.max_sentence_tokens
        return max(1, min(self.max_sentence_tokens, self.max_instance_tokens - 1 - self.engine.boundary_tokens))

    def _with_strategy(self, options: SearchOptions) -> SearchOptions:
        """Return the options, completed from the model's instances where the strategy needs more.

        Raises UserError if the instances have no context, or if a window has more tokens than the model has positions.
        """
        check_search(vars(self.directory), options, self.engine.longest)
        if options.window_tokens is not None or options.context_sentences is not None:
            return options
        if options.strategy == SEQUENTIAL and self.directory.max_sents is not None:
            return options.changed(context_sentences=self.directory.max_sents - 1)
        return options.changed(window_tokens=self.max_instance_tokens - 1) if options.strategy == SLIDING else options

    def _translate(
        self, window: Window, options: SearchOptions, numbers: Sequence[int] | None = None
    ) -> list[TranslatedLine]:
        read, written, count = window.instances, window.instances, self.directory.sentences_beside
        if count is not None:
            read = beside(window.instances, count)
            written = [one[-1:] for one in read]
        tokens = [[window.tokens(reference) for reference in one] for one in read]
        positions = [window.position(one[0]) for one in read]
        if numbers is not None:
            positions = [(numbers[document - 1], sentence) for document, sentence in positions]
        if self.passes is not None:
            given = any(line.first for line in window.lines)
            first = [[window.first(reference) for reference in one] for one in read] if given else None
            found = [
                nbest
                for document in self.passes.translate(tokens, options, first, [number for number, _ in positions])
                for nbest in document
            ]
            written = [[reference] for one in read for reference in one]
        else:
            found = self.engine.translate(tokens, options, positions)
        plain = iter(self.chain.decode([text for nbest in found for one in nbest for text in one.sentences]))
        pieces: list[list[list[Translation]]] = [[] for _ in window.lines]  # by line, source sentence, rank
        at_limit = [False] * len(window.lines)
        for references, nbest in zip(written, found, strict=True):
            ranked = [[Translation(next(plain), score) for score in hypothesis.scores] for hypothesis in nbest]
            for position, (line, _) in enumerate(references):
                pieces[line].append([one[position] for one in ranked])
                at_limit[line] |= nbest[0].at_limit[position]
        return [
            TranslatedLine(line, join(parts, self._between), ended)
            for line, parts, ended in zip(window.lines, pieces, at_limit, strict=True)
        ]


def checked(strategy: Strategy, boundary_tokens: int, line: InputLine) -> InputLine:
    """Return the line. Raises UserError, with its position, for a sentence that fits into no window.

    ``boundary_tokens``: of a sentence besides its words.
    """
    for tokens in line.tokens:
        strategy.check_sentence(len(tokens) + boundary_tokens, line.position.documents, line.position.sentences)
    return line


def as_documents(text: Sequence[str] | Sequence[Sequence[str]]) -> tuple[bool, list[list[str]]]:
    """Return whether ``text`` is a single document, and the documents. Raises TypeError if it is neither."""
    found = _items(text)
    single = all(isinstance(sentence, str) for sentence in found)
    return single, [found] if single else listed(found)


def listed(documents: Iterable[Iterable[str]]) -> list[list[str]]:
    """Return documents as lists. Raises TypeError for anything but lists of lists of strings."""
    found = [_items(document) for document in _items(documents)]
    for wrong in (sentence for document in found for sentence in document if not isinstance(sentence, str)):
        raise _wanted(wrong)
    return found


def _items(value: Iterable[Any]) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _wanted(value)
    return list(value)


def _wanted(given: Any) -> TypeError:
    found = "a string" if isinstance(given, str) else "None" if given is None else type(given).__name__
    return TypeError(f"give a list of sentences, or a list of documents (lists of sentences), not {found}")


def join(parts: list[list[Translation]], between: str = " ") -> list[Translation]:
    """Return the n-best translations of a line, joined from those of its sentences; n is the smallest of all its
    sentences. ``between``: what stands between sentences.
    """
    ranks = min((len(part) for part in parts), default=0)
    return [
        Translation(between.join(part[rank].text for part in parts), sum(part[rank].score for part in parts))
        for rank in range(ranks)
    ]
