"""A saved model directory: all that translating needs, and nothing outside it.

::

    DIR/manifest.json     settings of the text steps, search defaults, where it comes from, checksums
        model.pt          fairseq checkpoint without optimiser state
        dict.en.txt       dictionaries as fairseq names them, so that DIR is a data directory for fairseq-interactive
        dict.de.txt
        bpe.codes         what cuts the text, named as in a prepared corpus
        truecase.en
        truecase.de

With mBART, ``sentencepiece.model`` stands for the last three; with BERT, ``wordpieces.json`` for ``truecase.en``;
with given BPE codes there are no truecasers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import MODEL_FILE, read_json, sha256
from gtransformer.preprocess.chain import PieceJoiner, Postprocessor, TextEncoder, never_truecased, text_files
from gtransformer.preprocess.settings import MODEL_KIND
from gtransformer.search.strategies import FULL, PARALLEL, SEQUENTIAL, SLIDING
from gtransformer.settings import Entries, count, setting, typed
from gtransformer.translation.options import SearchOptions

KIND = MODEL_KIND
VERSION = 1
LANGUAGE = re.compile(r"[\w-]+")  # part of the names of files, which are to stay in the directory
MANIFEST, CHECKPOINT, FIRST_PASS = "manifest.json", MODEL_FILE, "first_pass.pt"


def file_names(settings: Mapping[str, Any]) -> list[str]:
    """Return the files beside a manifest with these settings."""
    dictionaries = [f"dict.{settings[side]}.txt" for side in ("source_lang", "target_lang")]
    first_pass = [FIRST_PASS] if settings.get("first_pass") else []
    return [CHECKPOINT, *first_pass, *dictionaries, *text_files(settings)]


def check_search(settings: Mapping[str, Any], options: SearchOptions, longest: float = math.inf) -> None:
    """Raise UserError for options that do not suit a model with these settings; ``longest``: tokens that it takes."""
    wanted, most, window = f"--strategy {options.strategy}", settings.get("max_sents"), options.window_tokens
    two_passes, wrong = settings.get("sentences_before") is not None, None
    if options.batch_sentences is not None and not two_passes:
        wrong = f"--batch-sentences {options.batch_sentences}: the model does not translate in two passes; leave it out"
    elif options.strategy == FULL:
        return
    elif two_passes:
        wrong = f"{wanted}: the model translates in two passes; leave it out"
    elif settings.get("sentences_beside") is not None:
        wrong = f"{wanted}: the model translates sentence by sentence, without previous translations; leave it out"
    elif window is not None and window > longest:
        wrong = f"--window-tokens {window}: the model takes at most {longest}"
    elif options.strategy in (SEQUENTIAL, PARALLEL) and most == 1:
        wrong = f"{wanted}: the model was trained on single sentences, without context; leave it out"
    elif options.strategy == PARALLEL or window is not None or options.context_sentences is not None:
        return
    elif settings.get("max_instance_tokens") is None and (options.strategy == SLIDING or most is None):
        wrong = f"{wanted}: the model's instances have no token limit; give --window-tokens W"
    if wrong:
        raise UserError(wrong)


@dataclass  # not frozen: OmegaConf, by which it is read, would not set its fields
class TextSettings:
    """What the manifest says of how text is made ready; whoever made it may have written anything.

    Attributes:
        langs: languages in the order of their symbols in the dictionary.
        max_instance_tokens, max_sents: instances cost less and have at most so many sentences (``data.instances``);
            None: no such limit.
        sentencepiece: whether both sides are cut by SentencePiece (mBART and others).
        sentencepiece_target: whether the target side has a SentencePiece model of its own.
        first_pass: whether the sentence model of the first pass is there, too.
        moses_rules: whether it was tokenised and truecased by Moses' rules alone, or so that text comes back as it was.
        parts: whether documents are cut into parts of roughly equal length, of at most ``max_instance_tokens``.
        source_prefix, target_prefix: the words that sentences of each side begin with: of models for many languages,
            the language.
        sentences_beside: for a model that translates one sentence, how many previous source sentences it reads beside
            it; None for models of documents.
        sentences_before: for a model that translates batches of consecutive sentences by two passes, behind how many
            previous ones each stands; None for others.
    """

    source_lang: str = setting("a language, as en or en_XX", LANGUAGE.fullmatch)
    target_lang: str = setting("a language, as en or en_XX", LANGUAGE.fullmatch)
    langs: list[str] = field()
    normalise_punctuation: bool = field()
    max_instance_tokens: int | None = count(None)
    max_sents: int | None = count(None)
    sentencepiece: bool = False
    sentencepiece_target: bool = False
    bert: bool = False
    bpe_codes: bool = False
    first_pass: bool = False
    moses_rules: bool = True
    parts: bool = False
    source_prefix: str | None = None
    target_prefix: str | None = None
    sentences_beside: int | None = setting("a whole number of at least 0", lambda value: value >= 0, None)
    sentences_before: int | None = setting("a whole number of at least 0", lambda value: value >= 0, None)

    def check(self) -> None:
        """Raise UserError for what does not go together."""
        if self.parts and self.max_instance_tokens is None:
            raise UserError("settings: parts of how many tokens; give max_instance_tokens")
        if self.source_lang == self.target_lang:
            raise UserError(f"settings: source and target language are both {self.source_lang}")


@dataclass(kw_only=True)
class ModelDirectory(TextSettings):
    """A model directory found complete.

    Attributes:
        search: default options.
        fingerprint: SHA-256 of the manifest, which holds the checksums of all files.
    """

    path: Path
    search: SearchOptions
    fingerprint: str

    @classmethod
    def open(cls, path: str | Path) -> ModelDirectory:
        """Read the manifest and check the files against it, the checkpoint for presence alone.

        Raises UserError if it is no model directory, is of another version, or if a file is missing or changed.
        """
        path = Path(path)
        manifest = path / MANIFEST
        if not path.is_dir():
            raise UserError(f"{path}: no such model directory; make one with gtransformer export")
        if not manifest.is_file():
            raise UserError(f"{path}: no model directory, it lacks {MANIFEST}; make one with gtransformer export")
        value = read_json(manifest)
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise UserError(f"{manifest}: not of a model directory; make one of it with gtransformer export")
        if value.get("version") != VERSION:
            raise UserError(f"{manifest}: version {value.get('version')} is unknown here; export the model again")
        try:
            known = [one.name for one in fields(TextSettings)]  # what else stands there is left aside
            given = Entries({name: value["settings"][name] for name in known if name in value["settings"]}, "settings")
            settings = typed(given, TextSettings, "settings")
            settings.check()
            if newer := value["search"].keys() - {one.name for one in fields(SearchOptions)}:
                raise UserError(f"search option {min(newer)} is unknown here, perhaps of a newer version")
            search = SearchOptions(**value["search"])
            if not isinstance(value["files"], dict):
                raise UserError("files: give a checksum for each file")
            checksums = {name: value["files"][name] for name in file_names(vars(settings))}
        except (AttributeError, LookupError, TypeError, ValueError, UserError) as error:
            raise UserError(f"{manifest}: damaged ({error}); export the model again") from None
        for name, checksum in checksums.items():
            if not (path / name).is_file():
                raise UserError(f"{path / name}: no such file; the model directory is incomplete, export it again")
            # Checkpoints are large, and PyTorch notices damage itself.
            if name not in (CHECKPOINT, FIRST_PASS) and sha256(path / name) != checksum:
                raise UserError(f"{path / name}: changed since the model was exported; export it again")
        return cls(**vars(settings), path=path, search=search, fingerprint=sha256(manifest))

    def file(self, name: str) -> Path:
        """Return the path of one of its files."""
        return self.path / name


class TextChain:
    """Plain text to what a model reads and back, just as its corpus was prepared (``preprocess.chain``)."""

    def __init__(self, model: ModelDirectory):
        self._model = model
        # A sentence may be cut in parts; the engine puts the prefix in front of each.
        self._source = TextEncoder(model.path, model.source_lang, prefix=False)
        if model.sentencepiece:
            self._back = PieceJoiner(model.path, model.target_lang)
        else:
            given = never_truecased(model.path, model.target_lang)
            self._back = Postprocessor(model.target_lang, given, not model.moses_rules)

    @cached_property
    def _target(self) -> TextEncoder:
        return TextEncoder(self._model.path, self._model.target_lang, prefix=False)

    def encode(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the subwords of plain source sentences; as many come back as went in."""
        return [line.split() for line in self._source(sentences)]

    def encode_target(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the same for plain sentences of the target language."""
        return [line.split() for line in self._target(sentences)]

    def decode(self, sentences: Sequence[str]) -> list[str]:
        """Return sentences of subwords of the target language as plain text, each on one line."""
        # A tab would be taken for the end of a column, a line break for the end of a sentence.
        return [" ".join(line.split()) for line in self._back.plain_lines(sentences)]
