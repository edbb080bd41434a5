"""Writing the set that shows reach, and a corpus to train on in which facts stand as far back as in the set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gtransformer.demo.contrastive import PHENOMENA, contrastive_file, variants
from gtransformer.demo.corpus import describe, make_folder, passages, write_splits, write_text
from gtransformer.demo.document import Letter, write_document
from gtransformer.demo.reach import DISTANCES, VERSIONS, write_group
from gtransformer.files import sha256, write_json

SET = "set"
"""Folder of the set within that of the corpus."""
ITEMS = "contrastive_reach.json"


def write_groups(items: int, seed: int) -> list[tuple[str, list[Letter]]]:
    """The groups of the set, each with its phenomenon: at least so many items for each row of distances."""
    return [
        (phenomenon, write_group(phenomenon, row, number, seed, SET))
        for phenomenon in PHENOMENA
        for row in DISTANCES
        for number in range(-(-items // VERSIONS[phenomenon]))
    ]


def reach_items(groups: Sequence[tuple[str, Sequence[Letter]]]) -> Iterator[dict[str, Any]]:
    """The items of the groups' documents, which are numbered through.

    ``distance_source`` counts the sentences back to the one whose source discloses the answer; ``distance_target`` to
    the nearest whose target does, which may be a sentence that needed the answer itself; ``distance`` to the nearer of
    both, which is the target's, as a translation of what discloses discloses. ``group`` numbers the groups.
    """
    places = [(group, letter) for group, (_, documents) in enumerate(groups) for letter in documents]
    for number, (group, letter) in enumerate(places):
        phenomenon = groups[group][0]
        disclosed = -1  # last sentence so far whose target discloses
        for index, line in enumerate(letter.lines):
            if phenomenon in line.cues:
                cue = line.cues[phenomenon]
                detail, wrong = variants(line, phenomenon, letter.register)
                target = index - max(disclosed, cue)
                disclosed = index
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
    """Letters of the demonstration corpus, and after each a document like the set's for each phenomenon."""
    letter, kind = divmod(number, 1 + len(PHENOMENA))
    if kind == 0:
        return write_document(seed, split, letter, attempt)
    turn, row = divmod(letter, len(DISTANCES))
    return write_group(PHENOMENA[kind - 1], DISTANCES[row], turn, seed, split, attempt)[0]


def write_reach_corpus(output: str | Path, sizes: Mapping[str, int], seed: int, items: int) -> dict[str, Any]:
    """Write corpus and set into a directory, making it if need be, and return what its ``corpus.json`` says.

    Args:
        sizes: letters of the demonstration corpus by split; to each come as many documents like the set's as there
            are phenomena. No split shares a passage with the set.
        items: at least so many for each phenomenon and row of distances, on either side.

    ``output`` has the splits, ``output / "set"`` the set's documents (split ``test``) and ``contrastive_reach.json``.
    ``corpus.json`` is removed first and written last. Raises UserError if the directory cannot be written.
    """
    output = Path(output)
    make_folder(output)
    make_folder(output / SET)
    groups = write_groups(items, seed)
    documents = [document for _, group in groups for document in group]
    found = contrastive_file(reach_items(groups))
    taken = {passage for document in documents for passage in passages(document)}
    every = {split: size * (1 + len(PHENOMENA)) for split, size in sizes.items()}
    splits = write_splits(every, seed, _mixed, taken)
    written = [path for split, texts in splits.items() for path in write_text(output, split, texts)]
    written += write_text(output / SET, "test", documents)
    written.append(output / SET / ITEMS)
    write_json(written[-1], found)
    summary = {
        "version": 1,
        "seed": seed,
        "options": {**{f"{split}_documents": size for split, size in sizes.items()}, "items": items},
        "splits": {split: describe(texts) for split, texts in {**splits, SET: documents}.items()},
        "items": {f"by_{side}": count_items(found["items"], side) for side in ("distance_source", "distance_target")},
        "sha256": {str(path.relative_to(output)): sha256(path) for path in written},
    }
    write_json(output / "corpus.json", summary)
    return summary


def count_items(items: Sequence[Mapping[str, Any]], side: str) -> dict[str, dict[str, int]]:
    """Items by phenomenon and row of distances; ``side`` is "distance_source" or "distance_target"."""
    names = {first: f"{first}-{last}" if last > first else str(first) for first, last in DISTANCES}
    names[DISTANCES[-1][0]] = f"{DISTANCES[-1][0]}+"
    counts = Counter((item["phenomenon"], max(first for first in names if first <= item[side])) for item in items)
    return {phenomenon: {name: counts[phenomenon, first] for first, name in names.items()} for phenomenon in PHENOMENA}
