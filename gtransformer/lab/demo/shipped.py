"""The demonstration's corpus as it is shipped: ``corpus.tar.xz``, written by ``gtransformer lab
demo-corpus``."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from gtransformer.files import atomic_write, write_json

ARCHIVE = Path(__file__).with_name("corpus.tar.xz")
DOCUMENTS, DEV_DOCUMENTS, TEST_DOCUMENTS = 500, 16, 24  # of the splits
ITEMS = "contrastive.json"  # of the test split


def unpack(output: Path, documents: int = DOCUMENTS, test_documents: int = TEST_DOCUMENTS) -> None:
    """Write the raw corpus and its contrastive items into a directory.

    Args:
        documents, test_documents: so many of the first ones, at most.
    """
    output.mkdir(parents=True, exist_ok=True)
    counts = {"train": documents, "dev": DEV_DOCUMENTS, "test": test_documents}
    with tarfile.open(ARCHIVE) as archive:
        for name in archive.getnames():
            text = archive.extractfile(name).read().decode("utf-8")
            if name == ITEMS:
                content = json.loads(text)
                items = [item for item in content["items"] if item["document"] < test_documents]
                write_json(output / name, content | {"items": items})
                continue
            split = name.split("_")[2]
            with atomic_write(output / name) as stream:
                stream.write("<d>\n".join(text.split("<d>\n")[: counts[split] + 1]))
