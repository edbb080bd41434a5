"""Marian's files from ``gtransformer model convert`` on: what is no model, text, training."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
import torch

from gtransformer.models.from_sentence_model.marian import read_vocabularies
from gtransformer.preprocess.chain import prepared_settings, text_of
from gtransformer.preprocess.manifest import Settings, with_vocabulary
from gtransformer.preprocess.tokenisers import SentencePieces
from gtransformer.translation.convert import convert
from tests.commands import only_error
from tests.core import marian_numpy as marian
from tests.core.models.from_sentence_model.marian_models import (
    SEARCH,
    TOKENS,
    Converted,
    save,
    train_vocab,
    words_of,
)
from tests.core.models.from_sentence_model.test_marian import largest_error
from tests.support import command

model_convert = command("model convert")

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
    train_vocab(path.parent / "vocab.ende.spm", 30, 1)


def no_vocabulary(path):
    (path.parent / "vocab.ende.spm").unlink()


def sides_by_language(path):
    for side, lang in (("src", "en"), ("trg", "de")):
        (path.parent / f"vocab.{side}.spm").rename(path.parent / f"vocab.{lang}.spm")


# What is wrong, in which form, and which file or word the message names.
WRONG = [
    (other_vocabulary, {}, "vocab.ende.spm: 30 words, but the model has 46"),
    (no_vocabulary, {}, "--vocab"),
    (sides_by_language, {"embeddings": "none"}, "Name both"),
    (changed(right_left=True), {}, "right-left"),
    (changed(transformer_decoder_autoreg="rnn"), {}, "rnn.*gru"),
    (changed(transformer_preprocess="d", transformer_postprocess="an"), {}, "preprocess"),
    (changed(dec_depth=1), {}, r"Unexpected.*decoder\.layers\.1\."),
    (changed({"decoder_l1_extra": np.zeros((2, 2))}), {}, r"Unexpected.*decoder\.layers\.0\.extra"),
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


def test_a_folder_of_marians_training(tmp_path, capsys):
    """The optimizer's file is no model; of several models one is to be named."""
    path = save(tmp_path / "given").path
    np.savez(f"{path}.optimizer.npz", adam=np.zeros(2))
    line = ["-s", "en", "-t", "de"]
    assert model_convert([str(path.parent), str(tmp_path / "one"), *line]) == 0
    shutil.copy(path, f"{path}.best-bleu.npz")
    assert model_convert([str(path.parent), str(tmp_path / "two"), *line]) == 1
    said = only_error(capsys.readouterr().err)
    assert said.endswith("give one of these in it: model.npz, model.npz.best-bleu.npz")


OTHERS = {
    "a checkpoint of fairseq": ("model.pt", lambda path: torch.save({"model": {}}, path)),
    "a legacy checkpoint": ("old.pt", lambda path: path.write_bytes(b"\x80\x02\x8a\n")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_files_of_others(tmp_path, capsys, other):
    name, write = OTHERS[other]
    write(tmp_path / name)
    line = [str(tmp_path / name), str(tmp_path / "out"), "-s", "en", "-t", "de"]
    assert model_convert(line) == 1
    assert "no model of Marian, which has a configuration" in only_error(capsys.readouterr().err)


@pytest.mark.parametrize("form", [".json", ".vocab"])
def test_vocabularies_in_other_forms(tmp_path, form):
    """JSON as of Nematus, or a word a line: the same model."""
    saved = save(tmp_path / "given", numbered=True, embeddings="none")
    folder, pair = saved.path.parent, ("en", "de")
    convert(saved.path, tmp_path / "yml", *pair, SEARCH, {})
    for side, words in (("src", saved.source), ("trg", saved.target)):
        (folder / f"{side}.vocab.yml").unlink()
        text = json.dumps({word: row for row, word in enumerate(words)})
        if form == ".vocab":
            text = "".join(f"{word}\n" for word in words)
        (folder / f"{side}.vocab").with_suffix(form).write_text(text, encoding="utf-8")
        if form == ".json":
            (folder / f"{side}.json").rename(folder / f"{side}.vocab.json")
    convert(saved.path, tmp_path / "other", *pair, SEARCH, {})
    for name in ("dict.en.txt", "dict.de.txt", "model.safetensors"):
        assert (tmp_path / "yml" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_signs_that_yaml_does_not_allow(tmp_path):
    """Marian writes them as they are, PyYAML refuses them or takes them for ends of lines."""
    words = ["</s>", "<unk>", "a\x92", "\x85", "b\u2028c", "\x7f", "\u2581é😀", "\ufeff"]
    lines = "".join(f'"{word}": {row}\n' for row, word in enumerate(words))
    (tmp_path / "vocab.yml").write_bytes(lines.encode())
    found = read_vocabularies(tmp_path / "model.npz", list, (), (len(words), len(words)), "de")
    assert [side.words for side in found] == [words, words]


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
    best = [reference.greedy([*one, marian.EOS], SEARCH["max_len_b"]) for one in rows]
    assert found == cut.join([" ".join(words[row] for row in one[:-1]) for one in best])
    other = [reference.greedy([*one[1:], marian.EOS], SEARCH["max_len_b"]) for one in rows]
    assert best != other
    assert model_convert([str(folder), str(tmp_path / "out"), "-s", "en", "-t", "fr"]) == 1
    assert "de, fr_BE" in only_error(capsys.readouterr().err) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("known", "kept"), [(('"', "„", "“"), "„da“ – –"), (('"',), '"da" - -')])
def test_punctuation_of_each_side(tmp_path, known, kept):
    """The source lacks quotes; those that the target knows stay, also when a corpus is prepared."""
    saved = save(tmp_path / "given", embeddings="none", symbols=('"', "-"))
    train_vocab(saved.path.parent / "vocab.trg.spm", 51, 52, (*known, "-"))
    convert(saved.path, tmp_path / "model", "en", "de", SEARCH, {})
    settings = with_vocabulary(Settings(vocabulary=str(tmp_path / "model")))
    for given in (prepared_settings(tmp_path / "model"), vars(settings)):
        source, target = (text_of(tmp_path / "model", given, lang) for lang in ("en", "de"))
        assert source.normalised("„da“ – –") == '"da" - -'
        assert target.normalised("„da“ – –") == kept
