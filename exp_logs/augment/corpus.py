"""Make what the miniature reads: corpus.py LIBREOFFICE STUDENT OUT COUNT.

LIBREOFFICE is of gtransformer lab libreoffice -t pt, STUDENT of gtransformer model convert. OUT/real is a raw
corpus whose training set has COUNT of LibreOffice's documents, drawn; OUT/mono.pt has the Portuguese side of twice as
many others. OUT/signs is the student with the signs of observed words in place of two rare pieces of its vocabulary.
"""

import json
import random
import shutil
import sys
from pathlib import Path

from gtransformer.files import sha256
from gtransformer.lab.augmentation.observed import GAP, SEPARATOR
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.formats import write_split
from gtransformer.preprocess.plain_text import write_documents

RARE = {"▁kbd": f"▁{SEPARATOR}", "▁ibn": f"▁{GAP}"}  # as many bytes: the vocabulary's file stays as it is around them
DEV = 2

libreoffice, student, out, count = *map(Path, sys.argv[1:4]), int(sys.argv[4])
sets = {}
for split in ("train", "dev", "test"):
    sets[split] = list(
        read_documents(*(libreoffice / f"concatenated_en2pt_{split}_{lang}.txt" for lang in ("en", "pt")))
    )
random.Random(1).shuffle(sets["train"])
others = sets["train"][count : 3 * count]
shutil.rmtree(out / "signs", ignore_errors=True)
(out / "real").mkdir(parents=True, exist_ok=True)
for split, documents in (sets | {"train": sets["train"][:count], "dev": sets["dev"][:DEV]}).items():
    write_split(out / "real", split, ("en", "pt"), documents)
signs = shutil.copytree(student, out / "signs")
manifest = json.loads((signs / "manifest.json").read_text())
for path in signs.glob("*.*"):
    before, after = {"dict": (b"\n", b" "), "sentencepiece": (b"\n\6", b"")}.get(
        path.name.partition(".")[0], (b"", b"")
    )
    if before:
        content = path.read_bytes()
        for piece, sign in RARE.items():
            assert content.count(before + piece.encode() + after) == 1
            content = content.replace(before + piece.encode() + after, before + sign.encode() + after)
        path.write_bytes(content)
        manifest["files"][path.name] = sha256(path)
(signs / "manifest.json").write_text(json.dumps(manifest))
write_documents(out / "mono.pt", ([target for _, target in document] for document in others))
