"""Corpora of a comparison: every Nth training document, and single splits, in the raw corpus format."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.preprocess.corpus import Pair, document_lines, find_splits, read_documents

# The name of a split in a prepared directory -> its raw name.
RAW = {"train": "train", "valid": "dev", "test": "test"}


def split_files(directory: Path, pair: tuple[str, str], split: str) -> tuple[Path, Path]:
    """The files of a raw split (train, dev, test), source and target; UserError if the corpus lacks it."""
    found = {RAW[name]: files for name, files in find_splits(directory, *pair).items()}
    if split not in found:
        raise UserError(f"{directory}: no {split} set; it has {', '.join(found)}")
    return found[split]


def thin_corpus(raw: Path, output: Path, pair: tuple[str, str], every: int) -> None:
    """Write the corpus ``raw`` with every ``every``-th training document, from the first on, and all others."""
    for split in RAW.values():
        documents = read_documents(*split_files(raw, pair, split))
        write_split(islice(documents, 0, None, every if split == "train" else 1), output, pair, split)


def write_split(documents: Iterable[list[Pair]], output: Path, pair: tuple[str, str], split: str) -> None:
    """Write one split of a raw corpus: documents of (source, target) sentences."""
    names = [output / f"concatenated_{pair[0]}2{pair[1]}_{split}_{lang}.txt" for lang in pair]
    with atomic_write(names[0]) as source, atomic_write(names[1]) as target:
        for document in documents:
            for side, stream in enumerate((source, target)):
                stream.writelines(document_lines([[sentences[side] for sentences in document]]))
