"""Make the training corpora: corpus.py ELLIPSIS FORMALITY LIBREOFFICE OUTPUT.

The first two are raw corpora that gtransformer convert ctxpro wrote with --context-translations,
the third is of gtransformer lab libreoffice. OUTPUT/help has LibreOffice's documents, OUTPUT/half
and OUTPUT/some half and a fourteenth of them, drawn, and OUTPUT/items the last three sentences of
each item. The items of 80 films and 12 documents are the validation set.
"""

import json
import random
import sys
from pathlib import Path

from gtransformer.preprocess.corpus import read_documents, write_pairs

KEPT, FILMS, VALID = 3, 80, 12


def files(folder, split):
    return [folder / f"concatenated_en2pt_{split}_{lang}.txt" for lang in ("en", "pt")]


def documents(folder, split):
    return list(read_documents(*files(folder, split)))


ellipsis, formality, libreoffice, output = map(Path, sys.argv[1:])
entries = json.loads((ellipsis / "ctxpro_train.json").read_text(encoding="utf-8"))
films = sorted({entry["document id"] for entry in entries})
random.Random(1).shuffle(films)
held_out, items, valid = set(films[:FILMS]), [], []
for document, entry in zip(documents(ellipsis, "train"), entries, strict=True):
    (valid if entry["document id"] in held_out else items).append(document[-KEPT:])
items += [document[-KEPT:] for document in documents(formality, "train")]
random.Random(3).shuffle(items)
pages = documents(libreoffice, "train")
random.Random(2).shuffle(pages)
for name, train in (
    ("help", pages),
    ("half", pages[: len(pages) // 2]),
    ("some", pages[: len(pages) // 14]),
    ("items", items),
):
    (output / name).mkdir(parents=True)
    for split, chosen in (
        ("train", train),
        ("dev", valid + documents(libreoffice, "dev")[:VALID]),
        ("test", documents(libreoffice, "test")),
    ):
        for _ in write_pairs(files(output / name, split), chosen):
            pass
