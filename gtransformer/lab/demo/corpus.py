"""Write the demonstration corpus: three splits in the raw corpus format, the contrastive set and a
description."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, sha256, write_json
from gtransformer.lab.demo.contrastive import PHENOMENA, contrastive_set, variants
from gtransformer.lab.demo.document import Letter, write_document
from gtransformer.lab.demo.sentences import count_tokens
from gtransformer.lab.demo.shipped import ITEMS

PASSAGE = 3
"""Number of consecutive sentences in a passage; no passage is in two splits."""
VERSION = 2  # of the corpora; in 1, nine of ten test sentences were also in training
_TRIES = 50
SIDES = ("en", "de")


def passages(document: Letter) -> set[tuple[str, ...]]:
    """Return the document's runs of ``PASSAGE`` English sentences."""
    english = [line.en for line in document.lines]
    return {tuple(english[start : start + PASSAGE]) for start in range(len(english) - PASSAGE + 1)}


def write_letter(seed: int, split: str, number: int, attempt: int) -> Letter:
    """Write a letter of a split; splits other than ``train`` have sentences that training does not
    have."""
    return write_document(seed, split, number, attempt, unseen=split != "train")


def write_splits(
    sizes: Mapping[str, int],
    seed: int,
    write: Callable[[int, str, int, int], Letter] = write_letter,
    used: Set[tuple[str, ...]] = frozenset(),
) -> dict[str, list[Letter]]:
    """Write the given number of documents for each split, in order. Raises UserError if splits
    cannot be kept disjoint.

    A document depends only on seed, split and number, so a larger corpus begins with the smaller
    one. Exception: a document of a later split is rewritten while it shares a passage with an
    earlier split or with ``used``. ``write`` makes a document from seed, split, number and
    attempt.
    """
    corpus: dict[str, list[Letter]] = {}
    used = set(used)
    for split, size in sizes.items():
        documents = []
        for number in range(size):
            for attempt in range(_TRIES):
                document = write(seed, split, number, attempt)
                if used.isdisjoint(passages(document)):
                    break
            else:
                raise UserError(
                    f"the earlier splits are so large that no new document for '{split}' can be "
                    "disjoint from them; reduce the number of documents"
                )
            documents.append(document)
        for document in documents:
            used |= passages(document)
        corpus[split] = documents
    return corpus


def seen_in_training(splits: Mapping[str, Sequence[Letter]]) -> dict[str, float]:
    """Return for every other split the share of its English sentences that are also in
    ``train``."""
    trained = {line.en for document in splits["train"] for line in document.lines}
    shares = {}
    for split, documents in splits.items():
        if split != "train":
            sentences = [line.en for document in documents for line in document.lines]
            shares[split] = round(
                sum(sentence in trained for sentence in sentences) / len(sentences), 4
            )
    return shares


def _spread(values: Sequence[int]) -> dict[str, float]:
    return {"min": min(values), "mean": round(sum(values) / len(values), 1), "max": max(values)}


def describe(documents: Sequence[Letter]) -> dict[str, Any]:
    """Return counts of one split: sentences, word types, tokens and instance length of a document,
    phenomena."""
    result: dict[str, Any] = {
        "documents": len(documents),
        "sentences": sum(len(document.lines) for document in documents),
        "sentences_per_document": _spread([len(document.lines) for document in documents]),
        "instance_length": _spread([document.cost for document in documents]),
    }
    for side in SIDES:
        texts = [[getattr(line, side) for line in document.lines] for document in documents]
        words = {
            word for text in texts for sentence in text for word in re.findall(r"\w+", sentence)
        }
        result[f"tokens_per_document_{side}"] = _spread(
            [sum(map(count_tokens, text)) for text in texts]
        )
        result[f"word_types_{side}"] = len(words)
    details = {phenomenon: Counter[str]() for phenomenon in PHENOMENA}
    for document in documents:
        for line in document.lines:
            for phenomenon in line.cues:
                details[phenomenon][variants(line, phenomenon, document.register)[0]] += 1
    result["phenomena"] = {
        phenomenon: dict(sorted(count.items())) for phenomenon, count in details.items()
    }
    return result


def make_folder(output: Path) -> None:
    """Make a directory for a corpus and remove its ``corpus.json``. Raises UserError if it cannot
    be written."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "corpus.json").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{output}: cannot be used as output directory ({error.strerror}); choose another"
        ) from None


def write_text(output: Path, split: str, documents: Sequence[Letter]) -> list[Path]:
    """Write both sides of a split in the raw corpus format; return the files, source first."""
    written = []
    for side in SIDES:
        path = output / f"concatenated_en2de_{split}_{side}.txt"
        with atomic_write(path) as stream:
            for document in documents:
                stream.write("<d>\n")
                stream.writelines(f"{getattr(line, side)}\n" for line in document.lines)
        written.append(path)
    return written


def write_corpus(
    output: str | Path, sizes: Mapping[str, int], seed: int, contrastive_items: int
) -> dict[str, Any]:
    """Write the corpus into a directory, creating it if needed, and return the content of
    ``corpus.json``.

    ``corpus.json`` is removed first and written last, so it marks a complete corpus. Raises
    UserError if the directory cannot be written.
    """
    output = Path(output)
    make_folder(output)
    splits = write_splits(sizes, seed)
    written = [
        path for split, documents in splits.items() for path in write_text(output, split, documents)
    ]
    contrastive = contrastive_set(splits["test"], contrastive_items, seed)
    written.append(output / ITEMS)
    write_json(written[-1], contrastive)
    counts = Counter(item["phenomenon"] for item in contrastive["items"])
    summary = {
        "version": VERSION,
        "seed": seed,
        "options": {
            **{f"{split}_documents": size for split, size in sizes.items()},
            "contrastive_items": contrastive_items,
        },
        "splits": {split: describe(documents) for split, documents in splits.items()},
        "seen_in_training": seen_in_training(splits),
        "contrastive_items": {phenomenon: counts[phenomenon] for phenomenon in PHENOMENA},
        "sha256": {path.name: sha256(path) for path in written},
    }
    write_json(output / "corpus.json", summary)
    return summary
