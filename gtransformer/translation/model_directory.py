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

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, sha256
from gtransformer.preprocess.chain import text_files
from gtransformer.settings import Entries, count, setting, typed
from gtransformer.translation.options import SearchOptions

KIND = "gtransformer model"
VERSION = 1
LANGUAGE = re.compile(r"[\w-]+")  # part of the names of files, which are to stay in the directory
MANIFEST, CHECKPOINT, FIRST_PASS = "manifest.json", "model.pt", "first_pass.pt"


def file_names(settings: Mapping[str, Any]) -> list[str]:
    """The files beside a manifest with these settings."""
    dictionaries = [f"dict.{settings[side]}.txt" for side in ("source_lang", "target_lang")]
    first_pass = [FIRST_PASS] if settings.get("first_pass") else []
    return [CHECKPOINT, *first_pass, *dictionaries, *text_files(settings)]


@dataclass
class Recorded:
    """What the manifest says of how text is made ready; whoever made it may have written anything."""

    source_lang: str = setting("a language, as en or en_XX", LANGUAGE.fullmatch)
    target_lang: str = setting("a language, as en or en_XX", LANGUAGE.fullmatch)
    langs: list[str] = field()
    moses: bool = field()
    normalise_punctuation: bool = field()
    max_instance_tokens: int | None = count(None)
    max_sents: int | None = count(None)
    sentencepiece: bool = False
    bert: bool = False
    bpe_codes: bool = False
    codes_within_dictionary: bool = False
    first_pass: bool = False
    moses_rules: bool = True
    parts: bool = False
    sentences_beside: int | None = setting("a whole number of at least 0", lambda value: value >= 0, None)
    sentences_before: int | None = setting("a whole number of at least 0", lambda value: value >= 0, None)

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Recorded:
        """Raises UserError for what cannot be; what else stands there is left aside."""
        known = {one.name for one in fields(cls)}
        found = typed(
            Entries({name: settings[name] for name in settings if name in known}, "settings"), cls, "settings"
        )
        if found.parts and found.max_instance_tokens is None:
            raise UserError("settings: parts of how many tokens; give max_instance_tokens")
        if found.source_lang == found.target_lang:
            raise UserError(f"settings: source and target language are both {found.source_lang}")
        return found


@dataclass(frozen=True)
class ModelDirectory:
    """A model directory found complete.

    Attributes:
        source_lang, target_lang: languages; langs: in the order of their symbols in the dictionary.
        moses: whether the corpus was prepared with the Perl scripts of Moses.
        moses_rules: whether it was tokenised and truecased by Moses' rules alone, or so that text comes back as it was.
        sentencepiece: whether both sides are cut by a SentencePiece model (mBART).
        max_instance_tokens, max_sents: instances cost less and have at most so many sentences (``data.instances``);
            None: no such limit.
        search: default options.
        fingerprint: SHA-256 of the manifest, which holds the checksums of all files.
        sentences_beside: for a model that translates one sentence, how many previous source sentences it reads beside
            it; None for models of documents.
        sentences_before: for a model that translates batches of consecutive sentences by two passes, behind how many
            previous ones each stands; None for others.
        has_first_pass: whether the sentence model of the first pass is there, too.
        parts: whether documents are cut into parts of roughly equal length, of at most ``max_instance_tokens``.
    """

    path: Path
    source_lang: str
    target_lang: str
    langs: tuple[str, ...]
    moses: bool
    sentencepiece: bool
    max_instance_tokens: int | None
    max_sents: int | None
    search: SearchOptions
    fingerprint: str
    sentences_beside: int | None = None
    sentences_before: int | None = None
    has_first_pass: bool = False
    moses_rules: bool = True
    parts: bool = False

    @classmethod
    def open(cls, path: str | Path) -> ModelDirectory:
        """Read the manifest and check the files against it, the checkpoint for presence alone.

        Raises UserError if it is no model directory, is of another version, or if a file is missing or changed.
        """
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"{path}: no such model directory; make one with scripts/export.sh")
        if not (path / MANIFEST).is_file():
            raise UserError(f"{path}: no model directory, it lacks {MANIFEST}; make one with scripts/export.sh")
        value = read_json(path / MANIFEST)
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise UserError(f"{path / MANIFEST}: not of a model directory; make one of it with scripts/export.sh")
        if value.get("version") != VERSION:
            raise UserError(
                f"{path / MANIFEST}: version {value.get('version')} is unknown here; export the model again"
            )
        try:
            settings = Recorded.read(value["settings"])
            directory = cls(
                path,
                settings.source_lang,
                settings.target_lang,
                tuple(settings.langs),
                settings.moses,
                settings.sentencepiece,
                settings.max_instance_tokens,
                settings.max_sents,
                SearchOptions(**value["search"]),
                sha256(path / MANIFEST),
                settings.sentences_beside,
                settings.sentences_before,
                settings.first_pass,
                settings.moses_rules,
                settings.parts,
            )
            if not isinstance(value["files"], dict):
                raise UserError("files: give a checksum for each file")
            checksums = {name: value["files"][name] for name in file_names(vars(settings))}
        except (AttributeError, LookupError, TypeError, ValueError, UserError) as error:
            raise UserError(f"{path / MANIFEST}: damaged ({error}); export the model again") from None
        for name, checksum in checksums.items():
            if not (path / name).is_file():
                raise UserError(f"{path / name}: no such file; the model directory is incomplete, export it again")
            # Checkpoints are large, and PyTorch notices damage itself.
            if name not in (CHECKPOINT, FIRST_PASS) and sha256(path / name) != checksum:
                raise UserError(f"{path / name}: changed since the model was exported; export it again")
        return directory

    def file(self, name: str) -> Path:
        """The path of one of its files."""
        return self.path / name
