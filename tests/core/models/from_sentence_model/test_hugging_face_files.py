"""Folders of Hugging Face's form: which files are read, which are refused, and what is made of
them.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.translation.convert import convert
from tests.bert import skip_without_transformers
from tests.core.models.from_sentence_model.hf_folders import (
    Folder,
    lines_of,
    load,
    many_languages,
    marian,
)
from tests.support import command, train_pieces

model_convert = command("model convert")

pytestmark = pytest.mark.slow


def changed(folder: Path, **values) -> None:
    write_json(folder / "config.json", read_json(folder / "config.json") | values)


def retokenised(folder: Path, **values) -> None:
    """Change the tokeniser's configuration."""
    path = folder / "tokenizer_config.json"
    write_json(path, (read_json(path) if path.is_file() else {}) | values)


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


FAULTS = {
    "adapter": ("m2m", lambda f: write_json(f / "adapter_config.json", {}), "an adapter"),
    "activation": ("m2m", lambda f: changed(f, activation_function="tanh"), "activation tanh"),
    "more words": ("m2m", lambda f: (f / "vocab.json").unlink(), "words, 163 embeddings"),
    "8 bits": (
        "m2m",
        lambda f: changed(f, quantization_config={"load_in_8bit": True}),
        "quantised",
    ),
    "a pointer": (
        "m2m",
        lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec/"),
        "git lfs pull",
    ),
    "no parameters": (
        "m2m",
        lambda f: (f / "model.safetensors").rename(f / "tf_model.h5"),
        "cannot be read (Error no file named model.safetensors",
    ),
    "no tokeniser": (
        "marian",
        lambda f: (f / "source.spm").unlink(),
        "all files of the tokeniser",
    ),
    "no pieces": ("nllb", lambda f: (f / "sentencepiece.bpe.model").unlink(), "no such file"),
    "added words": (
        "m2m",
        lambda f: write_json(f / "added_tokens.json", {"<tag>": 163}),
        "words were added to its tokeniser (<tag>)",
    ),
    "another target": (
        "m2m",
        lambda f: changed(f, forced_bos_token_id=64),
        "made for another target language (forced_bos_token_id 64)",
    ),
    "no word of the target": (
        "m2m",
        lambda f: changed(f, forced_bos_token_id=100_000),
        "made for another target language (forced_bos_token_id 100000)",
    ),
    "a Trainer's folder": (
        "m2m",
        lambda f: shutil.move(shutil.copytree(f, f.parent / "copy"), emptied(f) / "checkpoint-5"),
        "a Trainer saves it in checkpoint-",
    ),
    "name of the hub": (
        "m2m",
        shutil.rmtree,
        "no such file or folder; fetch a model of Hugging Face with hf download",
    ),
    "another kind": ("m2m", lambda f: changed(f, model_type="t5"), "a model of type 't5'"),
    "another start": (
        "m2m",
        lambda f: changed(f, decoder_start_token_id=0),
        "its decoder begins with token 0",
    ),
    "more layers": (
        "m2m",
        lambda f: changed(f, encoder_layers=3),
        "parameters are not those of its config.json",
    ),
    "another tokeniser": (
        "m2m",
        lambda f: retokenised(f, tokenizer_class="SMALL100Tokenizer"),
        "is SMALL100Tokenizer",
    ),
    "language last": ("nllb", lambda f: retokenised(f, legacy_behaviour=True), "legacy_behaviour"),
    "other direction": (
        "marian",
        lambda f: retokenised(f, source_lang="deu", target_lang="en"),
        "deu to en; swap",
    ),
}
WHOLE = {
    "m2m": partial(many_languages, kind="m2m"),
    "nllb": partial(many_languages, kind="nllb"),
    "marian": partial(marian, languages=["deu", "nld"]),
}


@pytest.fixture(scope="module")
def whole(pieces: Path, tmp_path_factory) -> dict[str, Folder]:
    folder = tmp_path_factory.mktemp("whole")
    return {name: make(pieces, folder / name) for name, make in WHOLE.items()}


def refused(path: Path, output: Path, pair: tuple[str, str], capsys, *options: str) -> str:
    """The one sentence with which the command ends."""
    before = {*output.parent.iterdir()}
    assert model_convert([str(path), str(output), "-s", pair[0], "-t", pair[1], *options]) == 1
    assert {*output.parent.iterdir()} == before
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: "), said
    return said


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_converted(fault: str, whole, tmp_path: Path, capsys):
    """One sentence, and nothing is left."""
    kind, damage, message = FAULTS[fault]
    shutil.copytree(whole[kind].path, tmp_path / "folder")
    damage(tmp_path / "folder")
    capsys.readouterr()
    assert message in refused(tmp_path / "folder", tmp_path / "model", whole[kind].pair, capsys)


@pytest.mark.parametrize(
    ("kind", "pair", "message"),
    [
        ("m2m", ("en", "xx"), "--target-lang xx: "),
        ("nllb", ("en", "deu_Latn"), "does not know it; give one of eng_Latn, ace_Arab"),
        ("marian", ("en", "fra"), "does not translate into 'fra'; give one of deu, nld"),
    ],
)
def test_languages_that_it_does_not_know(
    kind: str, pair, message: str, whole, tmp_path: Path, capsys
):
    assert message in refused(whole[kind].path, tmp_path / "model", pair, capsys)


def test_a_piece_that_looks_like_a_language_is_text(tmp_path: Path):
    skip_without_transformers()
    text, symbols = lines_of("en", "de"), ["ab_Cd", "__x"]
    train_pieces(tmp_path / "both.model", text, 60, user_defined_symbols=symbols)
    for kind in ("m2m", "nllb"):
        folder = many_languages(tmp_path, tmp_path / kind, kind)
        model = load(folder, tmp_path / f"{kind}-model")
        assert model.engine.source.unk() not in [*map(model.engine.source.index, ("ab_Cd", "__x"))]
        with pytest.raises(UserError, match="--source-lang"):
            convert(folder.path, tmp_path / "other", "ab_Cd", folder.pair[1], {}, {})
