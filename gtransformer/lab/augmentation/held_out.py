"""Documents of dev and test sets, which must not be augmented."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import SPLITS, find_splits, read_documents

TELLING = 20  # characters; shorter sentences are in many documents (our choice)
SEVERAL = 3  # such sentences of one held-out document


def fingerprint(text: str) -> str:
    """Return the letters and digits of a text in lower case, so that blanks and punctuation do not
    matter."""
    return "".join(filter(str.isalnum, text)).casefold()


class HeldOut:
    """The documents of dev and test sets, both sides.

    Args:
        corpora: directories of raw corpora.
        langs: source and target.

    Raises UserError for a corpus without dev and test set.
    """

    def __init__(self, corpora: Iterable[Path], langs: Sequence[str]):
        self._names: dict[str, str] = {}  # fingerprint of a whole document -> which one it is
        # Fingerprint of a sentence -> documents with it.
        self._owners: dict[str, set[str]] = defaultdict(set)
        self._sizes: dict[str, int] = {}  # characters of a document's different sentences
        for corpus in corpora:
            splits = find_splits(corpus, *langs)
            if not splits.keys() & {SPLITS["dev"], SPLITS["test"]}:
                raise UserError(f"{corpus}: has neither a dev nor a test set for {'-'.join(langs)}")
            for split in splits.keys() - {SPLITS["train"]}:
                for number, document in enumerate(read_documents(*splits[split]), 1):
                    for sentences in zip(*document, strict=True):
                        self._add(f"document {number} of {splits[split][0]}", sentences)

    def _add(self, name: str, sentences: Sequence[str]) -> None:
        whole, lines = fingerprint("".join(sentences)), set(map(fingerprint, sentences))
        self._names[whole] = name
        self._sizes[whole] = sum(map(len, lines))
        for line in lines:
            self._owners[line].add(whole)

    def find(self, sentences: Sequence[str]) -> str | None:
        """Return which held-out document this is, or shares much with; None if there is none.

        Much: more than half of either in characters of shared sentences, or ``SEVERAL``
            sentences of ``TELLING``
        characters that no other held-out document has.
        """
        whole, lines = fingerprint("".join(sentences)), set(map(fingerprint, sentences))
        if whole in self._names:
            return self._names[whole]
        shared: dict[str, set[str]] = defaultdict(set)
        for line in lines:
            for owner in self._owners.get(line, ()):
                shared[owner].add(line)
        size = sum(map(len, lines))
        for owner, common in shared.items():
            telling = [
                line for line in common if len(line) >= TELLING and len(self._owners[line]) == 1
            ]
            if 2 * sum(map(len, common)) > min(size, self._sizes[owner]) or len(telling) >= SEVERAL:
                return self._names[owner]
        return None
