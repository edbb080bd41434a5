"""Find and check the files of a prepared split: its instance index, its text and its instances."""

from __future__ import annotations

from pathlib import Path

from gtransformer.data.dictionaries import RESERVED, dictionary_words
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.instances import split_instance
from gtransformer.preprocess.plain_text import Documents, read_plain

RAW, INSTANCES = "text", "instances"  # folders of a prepared corpus
# fairseq's Dictionary.string(escape_unk=True): an unknown word of a reference matches nothing
UNKNOWN = "<<unk>>"


def find_instance_index(prepared: Path, split: str) -> Path:
    """Return the path of a split's instance index. Raises UserError, listing the existing splits,
    if there is none.
    """
    folder = prepared / "bin"
    found = sorted(folder.glob(f"{split}.*-*.instances.json"))
    if len(found) != 1:
        splits = ", ".join(sorted(path.name for path in folder.glob("*.instances.json")))
        raise UserError(
            f"{prepared}: not a prepared corpus with one split {split!r}; it has: {splits}"
        )
    return found[0]


def read_side(prepared: Path, instance_index: InstanceIndex, lang: str) -> Documents:
    """Return one side of a split as documents of sentences, untouched text; the other side may be
    missing.
    """
    documents, _ = read_plain(prepared / RAW / f"{instance_index.split}.{lang}")
    return documents


def read_target_pieces(prepared: Path, instance_index: InstanceIndex) -> list[list[str]]:
    """Return the target side by instance, sentences of pieces as fairseq-generate reads them;
    unknown ones are ``UNKNOWN``.

    Raises UserError if they do not match the instance index.
    """
    target = instance_index.target_lang
    path = prepared / INSTANCES / f"{instance_index.split}.{target}"
    dictionary = prepared / "bin" / f"dict.{target}.txt"
    words = frozenset([*dictionary_words(dictionary), *RESERVED])
    instances = []
    for line in read_lines(path):
        pieces = [sentence.split() for sentence in split_instance(line)]
        instances.append(
            [" ".join(p if p in words else UNKNOWN for p in sentence) for sentence in pieces]
        )
    join(instance_index, instances)
    return instances
