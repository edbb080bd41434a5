"""Translation in two passes: single sentences, then batches of consecutive sentences with the first as context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.tasks.first_pass import SentenceModel, WordIndices, with_boundaries
from gtransformer.tasks.options import BATCH
from gtransformer.tasks.trained import convert_to
from gtransformer.translation.engine import Engine, Hypothesis, Instance
from gtransformer.translation.model_directory import FIRST_PASS
from gtransformer.translation.options import SearchOptions


class TwoPasses:
    """A translator of whole documents with an engine's model of batches.

    Args:
        engine: of the second pass.
        first_pass: checkpoint of the first pass; None: that of the model directory, if it has one.

    ``before``: number of first translations before each sentence.

    Raises UserError for a first pass that is missing, or that the model does not read.
    """

    def __init__(self, engine: Engine, first_pass: Path | None = None):
        directory = engine.directory
        self.engine, self.before = engine, directory.sentences_before
        if first_pass is None and directory.first_pass:
            first_pass = directory.file(FIRST_PASS)
        self.first = None
        if first_pass is not None:
            if not self.before:
                raise needless(first_pass, directory.path)
            if not first_pass.is_file():
                raise UserError(f"--first-pass {first_pass}: no such file; give the checkpoint of a sentence model")
            like = next(engine.model.parameters())
            self.first = SentenceModel(first_pass, engine.task, like, **engine.options)
            convert_to(engine.precision, self.first.model)

    def translate(
        self,
        documents: Sequence[Instance],
        options: SearchOptions,
        given: Sequence[Instance] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[list[Hypothesis]]]:
        """Return, by document and sentence, the n best translations, best first.

        Args:
            given: first translations of all sentences, which replace the first pass.
            numbers: of the documents in the text (default: from 1).

        Raises UserError as ``Engine.translate``, and if first translations are needed but missing.
        """
        words = iter(self._first_translations(documents, options, given))
        dictionary, together = self.engine.target, options.batch_sentences or BATCH
        results = []
        for number, document in zip(numbers or range(1, len(documents) + 1), documents, strict=True):
            translations = [next(words) for _ in document] if self.before else []
            begins = [max(0, at - self.before) for at in range(len(document))]
            read = [document[begin : at + 1] for at, begin in enumerate(begins)]
            contexts = [with_boundaries(translations[begin:at], dictionary) for at, begin in enumerate(begins)]
            positions = [(number, begin + 1) for begin in begins]
            batches = (slice(at, at + together) for at in range(0, len(document), together))
            found = [self.engine.translate_batch(read[one], contexts[one], positions[one], options) for one in batches]
            results.append([nbest for batch in found for nbest in batch])
        return results

    def _first_translations(
        self, documents: Sequence[Instance], options: SearchOptions, given: Sequence[Instance] | None
    ) -> list[Tensor]:
        if given is not None:
            indices = WordIndices(self.engine.target, self.engine.task, self.engine.task.prefix)
            return [torch.tensor(indices(text), dtype=torch.int64) for document in given for text in document]
        if self.first is not None:
            sources = [self.engine.instance_tokens([sentence]) for document in documents for sentence in document]
            return self.first.translate(sources, options.arguments(), options.max_tokens) if sources else []
        if self.before:
            raise UserError(
                f"{self.engine.directory.path}: translates behind first translations; give the checkpoint of a "
                "sentence model with --first-pass (first_pass= in Python), or export the model with it"
            )
        return []


def needless(first_pass: Path | str, model: Path) -> UserError:
    """Return the error for a first pass that the model does not read."""
    return UserError(f"--first-pass {first_pass}: {model} translates behind no first translations; leave it out")
