"""Models that transformers has saved, converted: they compute, and find, what transformers does."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gtransformer.translation.api import GTransformer
from tests.core.models.from_sentence_model.hf_folders import (
    Folder,
    load,
    many_languages,
    marian,
    skip_without_transformers,
    train_pieces,
)

pytestmark = pytest.mark.slow

MAKERS = {
    "marian-swish": marian,
    "marian-relu-without-bias": partial(marian, form="bin", activation_function="relu", bias=0.0),
    "marian-gelu-unscaled": partial(marian, form="sharded", activation_function="gelu", scale_embedding=False),
    "marian-two-vocabularies": partial(marian, two=True),
    "marian-two-vocabularies-bin": partial(marian, two=True, form="bin"),
    "marian-three-tables": partial(marian, two=True, tied=False, form="sharded"),
    "marian-languages": partial(marian, languages=["deu", "nld"]),
    "m2m": partial(many_languages, kind="m2m"),
    "m2m-bin": partial(many_languages, kind="m2m", form="bin", scale_embedding=False, activation_function="gelu"),
    "m2m-version-5": partial(many_languages, kind="m2m5"),
    "nllb": partial(many_languages, kind="nllb", form="sharded"),
    "mbart": partial(many_languages, kind="mbart"),
    "mbart-bin": partial(many_languages, kind="mbart", form="bin"),
    "mbart-sharded": partial(many_languages, kind="mbart", form="sharded"),
}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory) -> Path:
    skip_without_transformers()
    return train_pieces(tmp_path_factory.mktemp("pieces"))


def sentences(folder: Folder, side: int, count: int, draw: random.Random, most: int = 9) -> list[list[str]]:
    """Words at random."""
    return [draw.choices(folder.texts(side), k=draw.randint(1, most)) for _ in range(count)]


def ours(folder: Folder, loaded: GTransformer, source: list[list[str]], target: list[list[str]]) -> list[Tensor]:
    """(length, words) for each pair of sentences, in our order of the words; all are one document."""
    engine, rows = loaded.engine, []
    for dictionary, side, lines in ((engine.source, 0, source), (engine.target, 1, target)):
        texts = [[dictionary.index(word) for word in (*folder.given[side], *line)] for line in lines]
        assert dictionary.unk() not in sum(texts, [])
        rows.append([[dictionary.bos(), *text, dictionary.eos()] for text in texts])
    read = torch.tensor([sum(rows[0], [])])
    with torch.no_grad():
        encoded = engine.model.encoder(read, src_lengths=torch.tensor([read.shape[1]]))
        logits = engine.model.decoder(torch.tensor([sum(rows[1], [])]), encoder_out=encoded)[0][0]
    return [part[:-1] for part in logits.split([len(row) for row in rows[1]])]


def places(folder: Folder, loaded: GTransformer) -> tuple[list[int], list[int]]:
    """Where a word is in our dictionary, and transformers' row of it."""
    found, engine = {}, loaded.engine
    for number, word in enumerate(engine.target.symbols[: engine.model.decoder.predictable[1]]):
        unused = re.fullmatch("<unused:(\\d+)>", word)
        if unused or word in folder.words[1]:
            found[number] = int(unused[1]) if unused else folder.words[1].index(word)
    return list(found), list(found.values())


@pytest.mark.parametrize("kind", MAKERS)
def test_logits(kind: str, pieces: Path, tmp_path: Path):
    """Several sentences as one document cost what they do one by one; every word that transformers has is there."""
    folder = MAKERS[kind](pieces, tmp_path / "folder")
    loaded, draw = load(folder, tmp_path / "model"), random.Random(1)
    here, there = places(folder, loaded)
    assert sorted(there) == list(range(len(folder.words[1])))
    for count in (1, 4):
        lines = [sentences(folder, side, count, draw) for side in (0, 1)]
        for mine, source, target in zip(ours(folder, loaded, *lines), *lines, strict=True):
            theirs = folder.logits(source, target)
            assert theirs.std() > 0.3
            assert (mine[:, here] - theirs[:, there]).abs().max() < 1e-5
            rest = sorted({*range(mine.shape[1])} - {*here})
            assert mine[:, rest].eq(-torch.inf).all()
