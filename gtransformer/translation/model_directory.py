"""A saved model directory: all that translating needs, and nothing outside it.

::

    DIR/manifest.json     settings of the text steps, search defaults, where it comes from
        model.pt          fairseq checkpoint without optimiser state
        dict.en.txt       dictionaries as fairseq names them, so that DIR is a data directory for fairseq-interactive
        dict.de.txt
        sentencepiece.model, or other files that split text, as in a prepared corpus (``preprocess.chain``)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import MODEL_FILE, read_json
from gtransformer.preprocess.chain import open_text
from gtransformer.preprocess.settings import MODEL_KIND
from gtransformer.search.strategies import FULL, PARALLEL, SEQUENTIAL, SLIDING
from gtransformer.translation.options import SearchOptions

MANIFEST, CHECKPOINT = "manifest.json", MODEL_FILE


def check_search(settings: Mapping[str, Any], options: SearchOptions) -> None:
    """Raise UserError for options that do not suit a model with these settings."""
    strategy = f"--strategy {options.strategy}"
    if options.strategy in (SEQUENTIAL, PARALLEL) and settings.get("max_sents") == 1:
        raise UserError(f"{strategy}: the model was trained on single sentences, without context; leave it out")
    if options.strategy in (FULL, PARALLEL) or options.window_tokens or options.context_sentences:
        return
    limits = settings.get("max_instance_tokens"), settings.get("max_sents")
    if limits[0] is None and (options.strategy == SLIDING or limits[1] is None):
        raise UserError(f"{strategy}: the model's instances have no token limit; give --window-tokens W")


@dataclass(frozen=True, kw_only=True)
class ModelDirectory:
    """A model directory.

    Attributes:
        path: the directory.
        search: default options.
        langs: languages in the order of their symbols in the dictionary.
        max_instance_tokens, max_sents: instances cost less and have at most so many sentences (``data.instances``);
            None: no such limit.
        parts: whether documents are cut into parts of roughly equal length, of at most ``max_instance_tokens``.
        source_prefix, target_prefix: the words that sentences of each side begin with: of models for many languages,
            the language.
    """

    path: Path
    search: SearchOptions
    source_lang: str
    target_lang: str
    langs: list[str]
    normalise_punctuation: bool
    max_instance_tokens: int | None = None
    max_sents: int | None = None
    parts: bool = False
    source_prefix: str | None = None
    target_prefix: str | None = None

    @classmethod
    def open(cls, path: str | Path) -> ModelDirectory:
        """Read the manifest. Raise UserError if the directory is none of a model."""
        path = Path(path)
        manifest = read_json(path / MANIFEST) if (path / MANIFEST).is_file() else {}
        if manifest.get("kind") != MODEL_KIND:
            raise UserError(f"{path}: no model directory; make one with gtransformer export")
        return cls(path=path, search=SearchOptions(**manifest["search"]), **manifest["settings"])


class TextChain:
    """Plain text to what a model reads and back, just as its corpus was prepared (``preprocess.chain``)."""

    def __init__(self, model: ModelDirectory):
        # A sentence may be cut in parts; the engine puts the prefix in front of each.
        self._source = open_text(model.path, model.source_lang, prefix=False)
        self._target = open_text(model.path, model.target_lang, prefix=False)
        self._back = open_text(model.path, model.target_lang)

    def encode(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the subwords of plain source sentences; as many come back as went in."""
        return [line.split() for line in self._source.encode(sentences)]

    def encode_target(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the same for plain sentences of the target language."""
        return [line.split() for line in self._target.encode(sentences)]

    def decode(self, sentences: Sequence[str]) -> list[str]:
        """Return sentences of subwords of the target language as plain text, each on one line."""
        return self._back.decode(sentences)
