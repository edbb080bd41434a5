"""Write the contrastive set by distance, and a training corpus with the same distances of facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.files import sha256, write_json
from gtransformer.lab.demo.contrastive import PHENOMENA, contrastive_file, variants
from gtransformer.lab.demo.corpus import (
    VERSION,
    describe,
    make_folder,
    passages,
    seen_in_training,
    write_letter,
    write_splits,
    write_text,
)
from gtransformer.lab.demo.document import Letter
from gtransformer.lab.demo.reach import DISTANCES, VERSIONS, write_group

SET = "set"
"""Folder of the set in the corpus's folder."""
ITEMS = "contrastive_reach.json"


def write_groups(items: int, seed: int) -> list[tuple[str, list[Letter]]]:
    """Return the groups of the set, each with its phenomenon, with at least the given number of
    items per row of distances.
    """
    return [
        (phenomenon, write_group(phenomenon, row, number, seed, SET, unseen=True))
        for phenomenon in PHENOMENA
        for row in DISTANCES
        for number in range(-(-items // VERSIONS[phenomenon]))
    ]


def reach_items(groups: Sequence[tuple[str, Sequence[Letter]]]) -> Iterator[dict[str, Any]]:
    """Return the items of the groups' documents, which are numbered consecutively.

    ``distance_source`` is the number of sentences back to the one whose source discloses the
    answer. ``distance_target`` is that to the nearest whose target does, which may be a sentence
    that needed the answer itself. ``distance`` is the smaller of both, always the target's, as the
    translation of a disclosing sentence discloses, too. ``group`` numbers the groups.
    """
    number = -1
    for group, (phenomenon, documents) in enumerate(groups):
        for letter in documents:
            number += 1
            disclosed: dict[int, int] = {}  # fact -> last sentence so far whose target discloses it
            for index, line in enumerate(letter.lines):
                if phenomenon not in line.cues:
                    continue
                cue = line.cues[phenomenon]
                detail, wrong = variants(line, phenomenon, letter.register)
                target, disclosed[cue] = index - disclosed.get(cue, cue), index
                yield {
                    "phenomenon": phenomenon,
                    "detail": detail,
                    "group": group,
                    "document": number,
                    "sentence": index,
                    "distance": target,
                    "distance_source": index - cue,
                    "distance_target": target,
                    "correct": line.de,
                    "wrong": wrong,
                }


def _mixed(seed: int, split: str, number: int, attempt: int) -> Letter:
    """Return a document writer: letters of the demonstration corpus, each followed by a document
    like the set's for each phenomenon.
    """
    letter, kind = divmod(number, 1 + len(PHENOMENA))
    if kind == 0:
        return write_letter(seed, split, letter, attempt)
    turn, row = divmod(letter, len(DISTANCES))
    unseen = split != "train"
    return write_group(
        PHENOMENA[kind - 1], DISTANCES[row], turn, seed, split, attempt, unseen=unseen
    )[0]


def write_reach_corpus(
    output: str | Path, sizes: Mapping[str, int], seed: int, items: int
) -> dict[str, Any]:
    """Write corpus and set into a directory, creating it if needed, and return the content of its
    ``corpus.json``.

    Args:
        sizes: number of demonstration letters by split; each is followed by a document like the
            set's for each phenomenon. No split shares a passage with the set.
        items: least number for each phenomenon and row of distances, on each side.

    ``output`` has the splits, ``output / "set"`` the set's documents (split ``test``) and
    ``contrastive_reach.json``. ``corpus.json`` is removed first and written last. Raises UserError
    if the directory cannot be written.
    """
    output = Path(output)
    make_folder(output)
    make_folder(output / SET)
    groups, splits = _make(sizes, seed, items)
    documents = [document for _, group in groups for document in group]
    found = contrastive_file(reach_items(groups))
    written = [path for split, texts in splits.items() for path in write_text(output, split, texts)]
    written += write_text(output / SET, "test", documents)
    written.append(output / SET / ITEMS)
    write_json(written[-1], found)
    summary = {
        "version": VERSION,
        "seed": seed,
        "options": {
            **{f"{split}_documents": size for split, size in sizes.items()},
            "items": items,
        },
        "splits": {split: describe(texts) for split, texts in {**splits, SET: documents}.items()},
        "seen_in_training": seen_in_training({**splits, SET: documents}),
        "items": {
            f"by_{side}": count_items(found["items"], side)
            for side in ("distance_source", "distance_target")
        },
        "sha256": {str(path.relative_to(output)): sha256(path) for path in written},
    }
    write_json(output / "corpus.json", summary)
    return summary


def _make(
    sizes: Mapping[str, int], seed: int, items: int
) -> tuple[list[tuple[str, list[Letter]]], dict[str, list[Letter]]]:
    """Return the groups of the set, and the documents of the corpus by split."""
    groups = write_groups(items, seed)
    used = {passage for _, group in groups for document in group for passage in passages(document)}
    every = {split: size * (1 + len(PHENOMENA)) for split, size in sizes.items()}
    return groups, write_splits(every, seed, _mixed, used)


def count_items(items: Sequence[Mapping[str, Any]], side: str) -> dict[str, dict[str, int]]:
    """Return the number of items by phenomenon and row of distances; ``side`` is "distance_source"
    or "distance_target".
    """
    names = {first: f"{first}-{last}" if last > first else str(first) for first, last in DISTANCES}
    names[DISTANCES[-1][0]] = f"{DISTANCES[-1][0]}+"
    counts = Counter(
        (item["phenomenon"], max(first for first in names if first <= item[side])) for item in items
    )
    return {
        phenomenon: {name: counts[phenomenon, first] for first, name in names.items()}
        for phenomenon in PHENOMENA
    }
