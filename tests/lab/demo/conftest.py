"""A small and a default-sized demonstration corpus for the tests of this folder."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gtransformer.files import read_json, read_lines
from gtransformer.lab.cli.demo_corpus import main


def read_documents(path) -> list[list[str]]:
    """The documents of a file in the raw corpus format, read independently of the product's
    reader."""
    documents: list[list[str]] = []
    for line in read_lines(path):
        if line == "<d>":
            documents.append([])
        else:
            documents[-1].append(line)
    return documents


def load(folder) -> SimpleNamespace:
    """Every split as ``texts[split][lang][document][sentence]``, the items and the description."""
    texts = {
        split: {
            lang: read_documents(folder / f"concatenated_en2de_{split}_{lang}.txt")
            for lang in ("en", "de")
        }
        for split in ("train", "dev", "test")
    }
    return SimpleNamespace(
        folder=folder,
        texts=texts,
        contrastive=read_json(folder / "contrastive.json"),
        summary=read_json(folder / "corpus.json"),
    )


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> SimpleNamespace:
    """120 training documents and the default development and test documents, written by the
    command."""
    folder = tmp_path_factory.mktemp("demo") / "corpus"
    assert main(["--output", str(folder), "--documents", "120"]) == 0
    return load(folder)
