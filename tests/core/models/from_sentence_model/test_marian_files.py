"""Marian's files from ``gtransformer model convert`` on: what is no model, text, training."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gtransformer.cli.model_convert import main as model_convert
from gtransformer.preprocess.tokenisers import SentencePieces
from tests.commands import only_error
from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import (
    SEARCH,
    TOKENS,
    Converted,
    save,
    train_pieces,
    words_of,
)
from tests.core.models.from_sentence_model.test_marian import largest_error

pytestmark = pytest.mark.slow


def changed(parameters=(), **switches):
    """Write the model again with other parameters (an array, or None: without) or switches of its
    configuration.
    """

    def change(path):
        values, config = marian.read_npz(path)
        values |= dict(parameters)
        config |= {name.replace("_", "-"): value for name, value in switches.items()}
        kept = {name: value for name, value in values.items() if value is not None}
        marian.write_npz(
            path, kept, {name: value for name, value in config.items() if value is not None}
        )

    return change


def other_vocabulary(path):
    train_pieces(path.parent / "vocab.ende.spm", 30, 1)


def no_vocabulary(path):
    (path.parent / "vocab.ende.spm").unlink()


def second_model(path):
    marian.write_binary(path.parent / "model2.bin", *marian.read_npz(path))


def sides_by_language(path):
    for side, lang in (("src", "en"), ("trg", "de")):
        (path.parent / f"vocab.{side}.spm").rename(path.parent / f"vocab.{lang}.spm")


# What is wrong, in which form, and which file or word the message names.
WRONG = [
    (other_vocabulary, {}, "vocab.ende.spm: 30 words, but the model has 46"),
    (no_vocabulary, {}, "--vocab"),
    (second_model, {}, "but 2"),
    (sides_by_language, {"embeddings": "none"}, "Name both"),
    (changed(right_left=True), {}, "right-left"),
    (changed(transformer_decoder_autoreg="rnn"), {}, "rnn.*gru"),
    (changed(transformer_preprocess="d", transformer_postprocess="an"), {}, "preprocess"),
    (changed(dec_depth=1), {}, "decoder_l2_"),
    (changed({"decoder_l1_extra": np.zeros((2, 2))}), {}, "decoder_l1_extra"),
    (
        lambda path: None,
        {"form": "int8", "embeddings": "none"},
        "model.bin.*decoder_ff_logit_out_W",
    ),
]


@pytest.mark.parametrize(("damage", "options", "words"), WRONG)
def test_one_sentence_and_nothing_left(tmp_path, capsys, damage, options, words):
    path = save(tmp_path / "given", **options).path
    damage(path)
    assert model_convert([str(path.parent), str(tmp_path / "out"), "-s", "en", "-t", "de"]) == 1
    message = only_error(capsys.readouterr().err)
    assert re.search(words, message), message
    assert [one.name for one in tmp_path.iterdir()] == ["given"]


def test_vocabularies_that_are_named(tmp_path):
    """In another folder, of both sides: the order says which is which; one too many is refused."""
    saved = save(tmp_path / "given", embeddings="none")
    files = [saved.path.parent / name for name in ("vocab.src.spm", "vocab.trg.spm")]
    moved = [file.rename(tmp_path / f"{number}.spm") for number, file in enumerate(files)]
    documents = [[([5, 6], [7, 8, 9])]]
    assert (
        largest_error(Converted(saved, vocabulary=moved).scores(documents), saved, documents) < 1e-8
    )


def test_a_language_token_in_front_of_every_sentence(tmp_path, capsys):
    """Of documents that are translated; a language that there is no token for is refused."""
    folder = tmp_path / "given"
    multilingual = Converted(save(folder, decoder="ssru", symbols=TOKENS, seed=17))
    reference = marian.MarianReference(*marian.read_npz(folder / "model.npz"))
    words = words_of(folder / "vocab.ende.spm")
    assert multilingual.manifest["settings"]["source_prefix"] == ">>de<<"
    cut = SentencePieces(folder / "vocab.ende.spm")
    sentences = ["abc def", "gg hah abc", "fed"]
    found = multilingual.translator.translate(sentences)
    rows = [
        [words.index(">>de<<"), *map(words.index, line.split())] for line in cut.split(sentences)
    ]
    best = [reference.beam_search([*one, marian.EOS], 1, SEARCH["max_len_b"])[0] for one in rows]
    assert found == cut.join([" ".join(words[row] for row in one[:-1]) for one in best])
    other = [
        reference.beam_search([*one[1:], marian.EOS], 1, SEARCH["max_len_b"])[0] for one in rows
    ]
    assert best != other
    assert model_convert([str(folder), str(tmp_path / "out"), "-s", "en", "-t", "fr"]) == 1
    assert "de, fr_BE" in only_error(capsys.readouterr().err) and not (tmp_path / "out").exists()
