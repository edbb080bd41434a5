"""Documents that are augmented: a share of them, none of a held-out set; and the corpus that is made with a model."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from unicodedata import east_asian_width

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.clean import CleanReport, clean_documents
from gtransformer.preprocess.corpus import (
    DOCUMENT,
    SPLITS,
    Pair,
    document_lines,
    find_splits,
    is_document_mark,
    read_documents,
)
from gtransformer.preprocess.formats import read_split
from gtransformer.preprocess.observed import is_plain, random_numbers, with_observed

HELD_OUT = ("dev", "test")
Side = tuple[int, int]  # of a held-out document: its number, and 0 for the source or 1 for the target
# Shorter sentences are in many documents, so that longer ones decide, wherever they stand: whether most of a document
# is in held-out ones (it may be a part of one), most of a held-out one is in it, or several sentences that no other
# held-out one has. Of 8,568 English pages of technical documentation, 13 are found. (Our choice.)
TELLING = 20  # characters (``size``)
SEVERAL = 3
# Of fixed position (canonical combining classes): points of Hebrew and Arabic, which a text may have or not.
_POINTS = range(10, 36)
_RESERVED = {token: f"< {token[1:]}" for token in (DOCUMENT, "<s>", "</s>")}


@cache
def _tells(sign: str) -> bool:
    """Return whether a character is a letter, a number, or a mark without which words are others (vowels of Hindi)."""
    kind = unicodedata.category(sign)[0]
    optional = unicodedata.combining(sign) in _POINTS or "\ufe00" <= sign <= "\ufe0f"  # these choose a picture
    return kind in "LN" or (kind == "M" and not optional)


def fingerprint(text: str) -> bytes:
    """Return a digest of a text that does not depend on case, blanks, punctuation and points of Hebrew and Arabic.

    Of a text that has nothing else, it is of all but blanks.
    """
    letters = "".join(filter(_tells, unicodedata.normalize("NFC", text))) or "".join(text.split())
    return hashlib.sha256(letters.casefold().encode()).digest()[:16]


class HeldOut:
    """The documents of dev and test sets, both sides, which must not be augmented.

    Args:
        corpora: directories of raw corpora.
        langs: source and target.
        sentence_pairs: in files without documents, each sentence is one.

    Raises UserError for a corpus without dev and test set, and as ``read_documents``.
    """

    def __init__(self, corpora: Iterable[Path], langs: Sequence[str], sentence_pairs: bool = False):
        self._names: list[str] = []
        self._documents: dict[bytes, int] = {}
        self._sizes: dict[Side, int] = {}
        self._sentences: dict[bytes, set[Side]] = {}
        for corpus in corpora:
            splits = find_splits(corpus, *langs)
            found = {name: splits[SPLITS[name]] for name in HELD_OUT if SPLITS[name] in splits}
            if not found:
                raise UserError(f"{corpus}: has neither a dev nor a test set for {'-'.join(langs)}; name one that has")
            for name, paths in found.items():
                for number, document in enumerate(read_split(paths, langs, sentence_pairs), 1):
                    self._names.append(f"document {number} of the {name} set in {corpus}")
                    for side, sentences in enumerate(zip(*document, strict=True)):
                        self._add(list(map(clean_line, sentences)), (len(self._names) - 1, side))

    def _add(self, sentences: Sequence[str], side: Side) -> None:
        if self._documents.setdefault(fingerprint("".join(sentences)), side[0]) != side[0]:
            return  # a copy, of a corpus that was named twice for instance
        self._sizes[side] = sum(map(size, sentences))
        for sentence in sentences:
            if size(sentence) >= TELLING:
                self._sentences.setdefault(fingerprint(sentence), set()).add(side)

    def find(self, sentences: Sequence[str]) -> str | None:
        """Return how a document is held out, for messages; None if it is not."""
        whole = self._documents.get(fingerprint("".join(sentences)))
        if whole is not None:
            return f"it is {self._names[whole]}"
        shared, found = 0, defaultdict(dict)  # by held-out side: its sentences that are here, with their sizes
        for sentence in sentences:
            sides = self._sentences.get(fingerprint(sentence), ()) if size(sentence) >= TELLING else ()
            shared += size(sentence) if sides else 0
            for side in sides:
                found[side][fingerprint(sentence)] = size(sentence)
        for side, sizes in sorted(found.items(), key=lambda one: -sum(one[1].values())):
            name = self._names[side[0]]
            if 2 * shared > sum(map(size, sentences)):
                return f"most of it is in {name}"
            if 2 * sum(sizes.values()) > self._sizes[side]:
                return f"most of {name} is in it"
            own = sum(len({document for document, _ in self._sentences[one]}) == 1 for one in sizes)
            if own >= SEVERAL:
                return f"{own} sentences of {name} are in it"
        return None


def size(text: str) -> int:
    """Return the number of characters without blanks.

    Wide ones (Chinese, Japanese, Korean) count twice: ten of them say about as much as twenty letters.
    """
    characters = "".join(text.split())
    if max(characters, default="") < "\u1100":  # the first wide one
        return len(characters)
    return len(characters) + sum(east_asian_width(one) in "WF" for one in characters)


@dataclass
class Selection:
    """What ``select`` selected, and left out.

    Attributes:
        documents, sentences: selected.
        held_out: documents that are held out.
        with_signs: sentence pairs that have the signs of observed words.
    """

    documents: int = 0
    sentences: int = 0
    held_out: int = 0
    with_signs: int = 0


def select(
    files: tuple[Path, Path],
    held_out: HeldOut,
    counts: Selection,
    share: tuple[int, int] = (0, 1),
    skip: bool = False,
    plain: bool = False,
    sentence_pairs: bool = False,
    langs: tuple[str, str] | None = None,
) -> Iterator[tuple[int, list[Pair]]]:
    """Yield the documents that are augmented, cleaned, each with its number in the text, from 0; count in ``counts``.

    Args:
        files: source and target; the same one twice for a text in one language, and for a file with both sides.
        share: (i, n): every n-th document, from the i-th on.
        skip: leave held-out documents out.
        plain: leave sentences with the signs of observed words out.
        sentence_pairs: in files without documents, each sentence is one.
        langs: source and target of a corpus; None for a text in one language.

    Raises UserError as ``read_documents`` and ``read_split``, if nothing is left, and for a held-out document without
    ``skip``.
    """
    own, shards = share
    read = read_split(files, langs, sentence_pairs) if langs else read_documents(*files, sentence_pairs)
    documents = islice(clean_documents(read, CleanReport()), own, None, shards)
    for number, document in enumerate(documents):
        number = own + number * shards
        where = next(filter(None, map(held_out.find, zip(*document, strict=True))), None)
        if where is not None and not skip:
            raise UserError(
                f"{files[0]}: document {number + 1}, which begins '{document[0][0][:40]}', is held out: {where}; "
                "remove it, or leave such documents out with --skip-held-out"
            )
        if where is not None:
            counts.held_out += 1
            continue
        kept = [pair for pair in document if not plain or all(map(is_plain, pair))]
        counts.with_signs += len(document) - len(kept)
        if kept:
            counts.documents += 1
            counts.sentences += len(kept)
            yield number, kept
    if not counts.documents:
        advice = " in this shard; give a smaller N (--shard I/N)" if shards > 1 else "; check the text"
        if counts.held_out and shards == 1:
            advice = f"; {counts.held_out} of its documents are in a held-out set"
        raise UserError(f"{files[0]}: no document is left to augment{advice}")


def with_observed_words(
    documents: Iterable[tuple[int, list[Pair]]], copies: int, seed: int, unseen: bool = False
) -> Iterator[tuple[int, list[Pair]]]:
    """Yield each document ``copies`` times, with newly drawn observed words behind each source sentence.

    Each has its number among the copies of all documents, from 0. ``unseen``: drawn apart from those that an
    augmentation model is trained on.
    """
    for number, document in documents:
        for copy in range(copies):
            random = random_numbers(seed, copy, number, unseen)
            yield number * copies + copy, [(with_observed(*pair, random), pair[1]) for pair in document]


def write_text(path: Path, documents: Iterable[Sequence[str]]) -> None:
    """Write a text that is to be translated."""
    with atomic_write(path) as stream:
        stream.writelines(document_lines(documents))


def read_translated(text: Path, translation: Path) -> Iterator[list[Pair]]:
    """Yield documents of a text and its translation, line by line.

    In translations, tokens of the raw format get a blank. Raises UserError if the numbers of lines differ.
    """
    document: list[Pair] = []
    lines = read_lines(translation)
    for line in read_lines(text):
        translated = next(lines, None)
        if translated is None:
            break
        if not is_document_mark(line):
            for token, harmless in _RESERVED.items():
                translated = translated.replace(token, harmless)
            document.append((line, translated))
        elif document:
            yield document
            document = []
    else:
        if next(lines, None) is None:
            yield document
            return
    raise UserError(f"{translation}: not the translation of {text}, line by line; give --restart to make it again")
