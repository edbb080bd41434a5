"""A saved model directory: all that translating needs, and nothing outside it.

::

    DIR/config.json       the model's system and options
        model.safetensors its parameters
        manifest.json     settings of the text steps, search defaults, where it comes from
        dict.en.txt       vocabularies as fairseq names them
        dict.de.txt
        sentencepiece.model, or other files that split text, as in a prepared corpus
        (``preprocess.chain``)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.data.sides import Sides
from gtransformer.errors import UserError
from gtransformer.files import atomic_directory, read_json, write_json
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.saved import save
from gtransformer.preprocess.chain import MODEL_KIND, prepared_settings
from gtransformer.search.strategies import AUTO, FULL, PARALLEL, SLIDING
from gtransformer.translation.options import SearchOptions

MANIFEST = "manifest.json"
OF_THE_CORPUS = (
    "source_lang", "target_lang", "langs", "max_instance_tokens", "max_sents",
    "normalise_punctuation", "kept_punctuation", "source_prefix", "target_prefix",
)  # fmt: skip


def model_settings(prepared: Path, checkpoint: Path, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the text steps.

    Text is translated in disjoint instances of as many tokens or sentences as those of training
    have, or in parts of documents where these were trained on.

    Args:
        task: options of the checkpoint's task.

    Raises UserError for a checkpoint of another task or of other languages.
    """
    if task.get("_name", task.get("task")) != "translation_doc":
        raise UserError(f"{checkpoint}: not trained with --task translation_doc")
    settings = prepared_settings(prepared)
    pair = settings["source_lang"], settings["target_lang"]
    direction = task.get("source_lang") or pair[0], task.get("target_lang") or pair[1]
    if direction != pair:
        raise UserError(
            f"{checkpoint}: translates {'-'.join(direction)}, but {prepared} holds "
            f"{'-'.join(pair)}; name the corpus that it was trained on with --prepared"
        )
    chosen = {name: settings.get(name) for name in OF_THE_CORPUS}
    chosen["sentence_rule"] = str(task.get("sentence_rule") or AUTO)
    scheme = InstanceScheme.stored_in(task)
    # The model knows the instances that were built on loading, not those of the corpus.
    if scheme.kind != STORED:
        chosen |= {"max_instance_tokens": scheme.tokens, "max_sents": scheme.max_sentences}
    if scheme.kind == "parts":
        chosen["parts"] = True
    return chosen


def check_search(settings: Mapping[str, Any], options: SearchOptions) -> None:
    """Raise UserError for options that do not suit a model with these settings."""
    strategy = f"--strategy {options.strategy}"
    if options.strategy != FULL and settings.get("max_sents") == 1:
        raise UserError(
            f"{strategy}: the model was trained on single sentences, without context; leave it out"
        )
    if options.strategy in (FULL, PARALLEL) or options.window_tokens or options.context_sentences:
        return
    # Sequential decoding without a number of sentences is limited by tokens, too.
    sliding = options.strategy == SLIDING or settings.get("max_sents") is None
    if sliding and settings.get("max_instance_tokens") is None:
        raise UserError(
            f"{strategy}: the model's instances have no token limit; give --window-tokens W"
        )


def new_directory(output: Path) -> AbstractContextManager[Path]:
    """Give the folder to write a model directory in; it becomes ``output`` at the end, and is
    removed on an error.

    Raises UserError if there is something at ``output`` already, but for an empty folder.
    """
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise UserError(f"{output}: exists already; remove it or give another name")
    return atomic_directory(output)


def write_model(
    work: Path,
    model: DocumentModel,
    settings: dict[str, Any],
    search: SearchOptions,
    origin: dict[str, Any],
) -> dict[str, Any]:
    """Write a model and its manifest, which is returned; ``origin``: command, commit, versions and
    the like.
    """
    save(model, work)
    parameters = sum(parameter.numel() for parameter in model.parameters())  # tied: once
    kept = {"settings": settings, "search": search.recorded(), "parameters": parameters}
    manifest = {"kind": MODEL_KIND, **kept, **origin}
    write_json(work / MANIFEST, manifest)
    return manifest


@dataclass(frozen=True, kw_only=True)
class ModelDirectory:
    """A model directory.

    Attributes:
        path: the directory.
        search: default options.
        langs: languages in the order of their symbols in the dictionary.
        normalise_punctuation, kept_punctuation: whether text is normalised, and a language whose
            text is not.
        max_instance_tokens, max_sents: instances cost less and have at most so many sentences
        (``data.instances``);
            None: no such limit.
        parts: whether documents are cut into parts of roughly equal length, of at most
            ``max_instance_tokens``.
        sentence_rule: that of training, one of ``SENTENCE_RULES``.
        source_prefix, target_prefix: the words that sentences of each side begin with: of models
            for many languages, the language.
    """

    path: Path
    search: SearchOptions
    source_lang: str
    target_lang: str
    langs: list[str]
    normalise_punctuation: bool
    kept_punctuation: str | None = None
    max_instance_tokens: int | None = None
    max_sents: int | None = None
    parts: bool = False
    sentence_rule: str = AUTO
    source_prefix: str | None = None
    target_prefix: str | None = None

    @classmethod
    def open(cls, path: str | Path) -> ModelDirectory:
        """Read the manifest. Raise UserError if the directory is none of a model."""
        path = Path(path)
        manifest = read_json(path / MANIFEST) if (path / MANIFEST).is_file() else {}
        if manifest.get("kind") != MODEL_KIND:
            raise UserError(
                f"{path}: no model directory; make one with gtransformer export or model convert"
            )
        return cls(path=path, search=SearchOptions(**manifest["search"]), **manifest["settings"])

    @cached_property
    def sides(self) -> Sides:
        """The vocabularies."""
        pair = self.source_lang, self.target_lang
        return Sides(
            *(Vocabulary.load(self.path / f"dict.{lang}.txt") for lang in pair), pair, self.langs
        )
