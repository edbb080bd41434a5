"""Sentence models that other toolkits have trained, read into this package's layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.models.from_sentence_model.hugging_face import read_hugging_face
from gtransformer.models.from_sentence_model.marian import find_marian, read_marian
from gtransformer.models.from_sentence_model.sentence_model import PiecesOf, SentenceModel

__all__ = ["SentenceModel", "read_sentence_model"]


def read_sentence_model(
    path: Path,
    source_lang: str,
    target_lang: str,
    pieces_of: PiecesOf,
    vocabulary: Sequence[Path] = (),
) -> SentenceModel:
    """Read a sentence model: a folder of Hugging Face's form, or a file of Marian's or the folder
    that holds it.

    Args:
        path: the folder or file; its content says which kind it is.
        source_lang, target_lang: the direction; of a model for many languages as the model writes
        them.
        pieces_of: the pieces of a SentencePiece model.
        vocabulary: of Marian's models, the file of both sides, or those of source and target; none:
            those that are in the folder.

    Raises UserError for another kind of model, for layers that this package lacks, for a vocabulary
    that does not fit, and for languages that the model does not translate.
    """
    if not path.exists():
        raise UserError(
            f"{path}: no such file or folder; fetch a model of Hugging Face with "
            f"hf download {path} --local-dir FOLDER, and give the folder"
        )
    # Marian's folders have none: its configuration is in the model's file.
    if (path / "config.json").is_file():
        return read_hugging_face(path, source_lang, target_lang, pieces_of)
    return read_marian(find_marian(path), target_lang, pieces_of, vocabulary)
