"""Instance files and their index, dictionaries, and the binary data that fairseq trains on.

An instance has consecutive sentences of one document, grouped greedily by the rule in
``gtransformer.data.instances``. Its line is ``<s> a b </s> <s> c </s>``. The index
(``data.instance_index``) records the document and the sentences of each instance.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gtransformer.data.dictionaries import RESERVED, Vocabulary, control_symbols
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import BOUNDARY_TOKENS, greedy, sentence_costs
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import fault, read_documents
from gtransformer.preprocess.parallel import map_chunks, progress

BEGIN, END = "<s>", "</s>"


def document_instances(
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    max_tokens: int,
    max_sents: int | None = None,
    max_sentence_tokens: int | None = None,
) -> tuple[list[tuple[int, int]], list[int]]:
    """Split one document into instances ``(first sentence, number of sentences)``, in order.

    A sentence counts max(source, target) + 2 tokens. It joins the current instance while the sum
    stays below ``max_tokens`` (and the instance has fewer than ``max_sents`` sentences); else it
    begins a new one. A sentence of ``max_tokens`` or more is an instance alone. Lengths are in
    tokens, without ``<s>`` and ``</s>``.

    Returns the instances and the indices of dropped sentences: those with a side longer than
    ``max_sentence_tokens`` (for training), and those without source words. A dropped sentence ends
    the current instance, so that the sentences of an instance are consecutive.
    """
    costs = sentence_costs(source_lengths, target_lengths)
    limit = float("inf") if max_sentence_tokens is None else max_sentence_tokens + BOUNDARY_TOKENS
    dropped = [
        position
        for position, cost in enumerate(costs)
        if cost > limit or not source_lengths[position]
    ]
    instances: list[tuple[int, int]] = []
    begin = 0
    for end in [*dropped, len(costs)]:
        for first, last in greedy(costs[begin:end], max_tokens, max_sents):
            instances.append((begin + first, last - first))
        begin = end + 1
    return instances, dropped


def instance_line(sentences: Iterable[str]) -> str:
    """Return the line of an instance: ``["a b", "c"]`` becomes ``<s> a b </s> <s> c </s>``."""
    return " ".join(
        f"{BEGIN} {sentence} {END}" if sentence else f"{BEGIN} {END}" for sentence in sentences
    )


def split_instance(line: str) -> list[str]:
    """Return the sentences of an instance line. Raise UserError unless the line consists of ``<s>
    ... </s>``.
    """
    matches = re.findall(rf"{BEGIN} (.*?)(?<!\S){END}(?!\S)", line)
    sentences = [sentence.strip() for sentence in matches]
    # What the expression passed over shows when the line is put together again.
    if instance_line(sentences) != line.strip() or line.split().count(BEGIN) != len(sentences):
        raise UserError(f"not an instance, sentences in {BEGIN} and {END}: {line[:60]!r}")
    return sentences


@dataclass
class InstanceReport:
    """Counts of one split: those of Table 1 (Bao et al. 2021), and long or dropped sentences.

    Tokens are BPE tokens without ``<s>`` and ``</s>``.
    """

    sentences: int = 0
    documents: int = 0
    instances: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    dropped_too_long: int = 0
    without_source: int = 0


def write_instances(
    source: str | Path,
    target: str | Path,
    output: str | Path,
    split: str,
    langs: tuple[str, str],
    max_tokens: int = 512,
    max_sents: int | None = None,
    max_sentence_tokens: int | None = None,
    total: int | None = None,
) -> InstanceReport:
    """Write ``output/{split}.{lang}`` of each side and
    ``output/{split}.{src}-{tgt}.instances.json``.

    ``source`` and ``target`` are BPE text in the raw corpus format. ``max_tokens`` and so on: see
    ``document_instances``. ``total``: number of documents, for the progress bar. Raises UserError
    as ``corpus.read_documents`` does, and if no instance is left.
    """
    output = Path(output)
    report = InstanceReport()
    instance_index = InstanceIndex(split, *langs, documents=0)
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(output / f"{split}.{lang}")) for lang in langs]
        documents = read_documents(source, target, raw=False)
        for document in progress(documents, f"instances {split}", total=total, unit=" documents"):
            lengths = [[side.count(" ") + 1 if side else 0 for side in pair] for pair in document]
            sides = list(zip(*lengths, strict=True))
            cuts, dropped = document_instances(*sides, max_tokens, max_sents, max_sentence_tokens)
            for first, count in cuts:
                for side, stream in enumerate(streams):
                    stream.write(
                        instance_line(pair[side] for pair in document[first : first + count]) + "\n"
                    )
                instance_index.instances.append((instance_index.documents, first, count))
            instance_index.dropped += [(instance_index.documents, position) for position in dropped]
            instance_index.documents += 1
            # These are dropped in all splits, as there is nothing to translate.
            report.without_source += (without := sides[0].count(0))
            report.dropped_too_long += len(dropped) - without
            for position in reversed(dropped):
                del lengths[position]
            report.sentences += len(lengths)
            report.documents += bool(lengths)
            report.instances += len(cuts)
            report.source_tokens += sum(pair[0] for pair in lengths)
            report.target_tokens += sum(pair[1] for pair in lengths)
        # Inside the block, so that an error leaves no files.
        if not report.instances:
            raise fault(source, 1, f"every sentence is longer than {max_sentence_tokens} tokens")
    instance_index.save(output / instance_index_name(split, *langs))
    return report


def instance_index_name(split: str, source_lang: str, target_lang: str) -> str:
    """Return the file name of a split's index of instances."""
    return f"{split}.{source_lang}-{target_lang}.instances.json"


SMALL = 65500  # fairseq's: a smaller dictionary has indices of two bytes


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


def indices_of(
    lines: Sequence[str], indices: Mapping[str, int], dtype: type
) -> tuple[bytes, list[int], int]:
    """Return the indices of the words of instance lines as bytes, the length of each line with a
    final ``</s>``, and the number of words without an index.
    """
    rows = [[*line.split(), END] for line in lines]
    words = [word for row in rows for word in row]
    unk = indices["<unk>"]
    tokens = np.array([indices.get(word, unk) for word in words], dtype=dtype)
    return tokens.tobytes(), list(map(len, rows)), sum(word not in indices for word in words)


def write_binary(
    instances: str | Path, dictionary: str | Path, prefix: str | Path, workers: int = 1
) -> int:
    """Write ``prefix.bin`` and ``prefix.idx`` as fairseq-preprocess does; return the number of
    unknown tokens.
    """
    indices = Vocabulary.load(dictionary).indices
    # The format of fairseq's MMapIndexedDataset: 8 and 9 are its codes of these types.
    code, dtype = (8, np.uint16) if len(indices) < SMALL else (9, np.uint32)
    work = partial(indices_of, indices=indices, dtype=dtype)
    lengths: list[int] = []
    unknown = 0
    with atomic_write(f"{prefix}.bin", "wb") as stream:
        for chunk in map_chunks(work, read_lines(instances), workers, label="binarise"):
            tokens, sizes, missing = chunk
            stream.write(tokens)
            lengths += sizes
            unknown += missing
    starts = np.cumsum([0, *lengths])[:-1] * np.dtype(dtype).itemsize
    with atomic_write(f"{prefix}.idx", "wb") as stream:
        stream.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, len(lengths)))
        stream.write(np.array(lengths, dtype=np.int32).tobytes())
        stream.write(starts.astype(np.int64).tobytes())
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
    for split in splits:
        shutil.copy(instances / instance_index_name(split, *langs), output)
        for lang in langs:
            prefix = output / f"{split}.{'-'.join(langs)}.{lang}"
            dictionary = output / f"dict.{lang}.txt"
            text = instances / f"{split}.{lang}"
            unknown[split][lang] = write_binary(text, dictionary, prefix, workers)
    return unknown
