"""Corpora that experiments generate, and parts of a corpus."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from gtransformer.lab.demo.reach_corpus import ITEMS as REACH_ITEMS
from gtransformer.lab.demo.reach_corpus import SET, write_reach_corpus
from gtransformer.lab.demo.shipped import ITEMS as DEMO_ITEMS
from gtransformer.lab.demo.shipped import unpack
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.formats import write_split

DEMO, REACH = "demo", "reach"
ITEMS = {DEMO: DEMO_ITEMS, REACH: f"{SET}/{REACH_ITEMS}"}  # contrastive items, in the corpus
RANDOM = {"documents": 64, "tokens": 512, "sentence": 30, "words": 10000}


def make_corpus(kind: str, folder: Path, sizes: Mapping[str, int]) -> None:
    """Write a generated corpus.

    Args:
        kind: ``demo``, the demonstration's letters; ``reach``, letters with facts up to 36
            sentences back, and items by distance; ``random``, sentences of random words, for
            measurements of speed.
        sizes: numbers of documents of train, dev and test (``documents``, ``dev_documents``,
            ``test_documents``) and, for ``reach``, ``items``; for ``random`` the keys of
            ``RANDOM``.
    """
    if kind == DEMO:
        unpack(folder, **sizes)
    elif kind == REACH:
        splits = {split: sizes.get(f"{split}_documents", 7) for split in ("dev", "test")}
        write_reach_corpus(
            folder, {"train": sizes.get("documents", 300), **splits}, 1, sizes.get("items", 400)
        )
    else:
        write_random(folder, **RANDOM | dict(sizes))


def write_random(folder: Path, documents: int, tokens: int, sentence: int, words: int) -> None:
    """Write documents of random words, each of ``tokens`` tokens with ``<s>`` and ``</s>``: train,
    dev and test."""
    dice = random.Random(1)  # the same corpus for everything that is compared

    def line() -> str:
        return " ".join(f"w{dice.randrange(words)}" for _ in range(sentence - 2))

    for split, count in (("train", documents), ("dev", 2), ("test", max(2, documents // 16))):
        made = [[(line(), line()) for _ in range(tokens // sentence)] for _ in range(count)]
        write_split(folder, split, ("en", "de"), made)


def with_first_documents(raw: Path, folder: Path, count: int) -> None:
    """Write a copy of a corpus (English to German) whose training set has its first documents
    only."""
    for split in ("train", "dev", "test"):
        sides = [raw / f"concatenated_en2de_{split}_{lang}.txt" for lang in ("en", "de")]
        documents = islice(read_documents(*sides), count if split == "train" else None)
        write_split(folder, split, ("en", "de"), documents)
