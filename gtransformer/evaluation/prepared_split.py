"""Find and check the files of a prepared split: its instance index, its text and its instances."""

from __future__ import annotations

import glob
from pathlib import Path

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.instances import split_instance
from gtransformer.preprocess.plain_text import Documents, read_plain

RAW, TOKENISED, INSTANCES = "text", "tok", "instances"  # folders of a prepared corpus
# Where an item of a contrastive set is scored: inside an instance of the split, or as the last sentence of its own one.
INSTANCE, LAST = PLACED = ("instance", "last")
UNKNOWN = "<<unk>>"  # fairseq's Dictionary.string(escape_unk=True): an unknown word of a reference matches nothing


def find_instance_index(prepared: Path, split: str) -> Path:
    """Return the path of a split's instance index. Raises UserError, listing the existing splits, if there is none."""
    folder = prepared / "bin"
    if not folder.is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with gtransformer prepare")
    found = sorted(folder.glob(f"{glob.escape(split)}.*-*.instances.json"))
    if not found:
        splits = sorted({path.name.split(".")[0] for path in folder.glob("*.instances.json")})
        hint = "; the development set is called valid" if split == "dev" and "valid" in splits else ""
        raise UserError(f"{prepared}: no split {split!r}; it has: {', '.join(splits) or 'none'}{hint}")
    if len(found) > 1:
        raise UserError(
            f"{folder}: several language pairs for {split!r} ({', '.join(p.name for p in found)}); keep one"
        )
    return found[0]


def release_files(prepared: Path, split: str, target: str) -> tuple[Path, Path]:
    """Return the files of the target side's instances and dictionary, from which the reference ``release`` is read."""
    return prepared / INSTANCES / f"{split}.{target}", prepared / "bin" / f"dict.{target}.txt"


def corpus_files(prepared: Path) -> list[Path]:
    """Return the files of a prepared corpus, which no result may replace."""
    folders = (prepared / name for name in (RAW, TOKENISED, INSTANCES, "bin"))
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()]
    return [prepared / "manifest.json", *found]


def read_side(prepared: Path, instance_index: InstanceIndex, lang: str, folder: str = RAW) -> Documents:
    """Return one side of a split in ``RAW`` or ``TOKENISED`` as documents of sentences; the other side may be missing.

    Raises UserError if the file is missing, or if its documents do not match the instance index.
    """
    path = prepared / folder / f"{instance_index.split}.{lang}"
    documents, _ = read_plain(path)
    expected = [
        len(document) for document in join(instance_index, [[""] * count for *_, count in instance_index.instances])
    ]
    if [len(document) for document in documents] != expected:
        raise UserError(
            f"{path}: {len(documents)} documents of {sum(map(len, documents))} sentences, but the instance index of "
            f"{instance_index.split} has {len(expected)} of {sum(expected)}; prepare the corpus again"
        )
    return documents


def read_target_pieces(prepared: Path, instance_index: InstanceIndex) -> list[list[str]]:
    """Return the target side by instance, sentences of pieces as fairseq-generate reads them; unknown ones are
    ``UNKNOWN``.

    Raises UserError, naming file and line, if they do not match the instance index.
    """
    path, dictionary = release_files(prepared, instance_index.split, instance_index.target_lang)
    words = frozenset([*dictionary_words(dictionary), *RESERVED])
    instances = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            sentences = split_instance(line)
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}; prepare the corpus again") from None
        instances.append([" ".join(p if p in words else UNKNOWN for p in sentence.split()) for sentence in sentences])
    try:
        join(instance_index, instances)
    except UserError as error:
        raise UserError(f"{path}: {error}; prepare the corpus again") from None
    return instances
