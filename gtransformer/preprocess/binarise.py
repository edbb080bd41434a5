"""Dictionaries, and the binary data that fairseq trains on, from instance files."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np

from gtransformer.data.dictionaries import RESERVED, control_symbols, dictionary_words
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.instances import END, instance_index_name
from gtransformer.preprocess.parallel import map_chunks

SMALL = 65500  # a smaller dictionary has indices of two bytes


def count_words(files: Sequence[str | Path]) -> dict[str, int]:
    """Count the words of files together, in fairseq's order: by frequency, then by spelling."""
    counts = Counter(word for path in files for line in read_lines(path) for word in line.split())
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def write_dictionary(counts: Mapping[str, int], langs: Sequence[str], output: str | Path) -> None:
    """Write a dictionary: words with their counts, then the language symbols and ``<mask>``.

    Symbols among the words are moved to the end. The size is not padded to a multiple of eight:
    fairseq would add entries that are never learnt, and the symbols have to be the last.
    """
    symbols = control_symbols(langs)
    words = [word for word in counts if word not in {*symbols, *RESERVED}]
    with atomic_write(output) as stream:
        stream.writelines(f"{word} {counts[word]}\n" for word in words)
        stream.writelines(f"{symbol} 1\n" for symbol in symbols)


class _Indices:
    """A converter of instance lines to the indices that fairseq stores; each line gets a final
    ``</s>``.
    """

    def __init__(self, dictionary: str | Path):
        self.index = {
            word: number for number, word in enumerate((*RESERVED, *dictionary_words(dictionary)))
        }
        self.code, self.dtype = (
            (8, np.uint16) if len(self.index) < SMALL else (9, np.uint32)
        )  # fairseq's

    def __call__(self, lines: Sequence[str]) -> tuple[bytes, list[int], int]:
        """Return the indices as bytes, the length of each line, and the number of words not in the
        dictionary.
        """
        unk, eos = self.index["<unk>"], self.index[END]
        found = [[*map(self.index.get, line.split(), repeat(-1)), eos] for line in lines]
        flat = np.array([index for line in found for index in line], dtype=np.int64)
        unknown = flat < 0
        return (
            np.where(unknown, unk, flat).astype(self.dtype).tobytes(),
            list(map(len, found)),
            int(unknown.sum()),
        )


def write_binary(
    instances: str | Path, indices: _Indices, prefix: str | Path, workers: int = 1
) -> int:
    """Write ``prefix.bin`` and ``prefix.idx`` as fairseq-preprocess does; return the number of
    unknown tokens.
    """
    lengths: list[int] = []
    unknown = 0
    with atomic_write(f"{prefix}.bin", "wb") as stream:
        for tokens, sizes, missing in map_chunks(
            indices, read_lines(instances), workers, label="binarise"
        ):
            stream.write(tokens)
            lengths += sizes
            unknown += missing
    ends = np.cumsum([0, *lengths])[:-1] * np.dtype(indices.dtype).itemsize
    with atomic_write(f"{prefix}.idx", "wb") as stream:  # as fairseq's MMapIndexedDataset reads it
        stream.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, indices.code, len(lengths)))
        stream.write(np.array(lengths, dtype=np.int32).tobytes() + ends.astype(np.int64).tobytes())
    return unknown


def binarise(
    instances: Path, splits: Sequence[str], langs: tuple[str, str], output: Path, workers: int = 1
) -> dict[str, dict[str, int]]:
    """Write binaries and instance indices of ``instances/{split}.{lang}`` into the folder
    ``output``.

    It has the dictionaries, ``dict.{lang}.txt``. Each line ends with another ``</s>``, as
    fairseq-preprocess writes it; the task removes it on loading. Returns, by split and language,
    the number of tokens that are not in the dictionary. Raises UserError if an instance file is
    missing.
    """
    unknown: dict[str, dict[str, int]] = {split: {} for split in splits}
    for lang in langs:
        indices = _Indices(output / f"dict.{lang}.txt")
        for split in splits:
            prefix = output / f"{split}.{'-'.join(langs)}.{lang}"
            unknown[split][lang] = write_binary(
                instances / f"{split}.{lang}", indices, prefix, workers
            )
    for split in splits:
        shutil.copy(instances / instance_index_name(split, *langs), output)
    return unknown
