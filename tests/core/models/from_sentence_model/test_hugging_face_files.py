"""Folders of Hugging Face's form: which files are read, which are refused, and what is made of them."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceTrainer

from gtransformer.cli.model_convert import main as model_convert
from gtransformer.errors import UserError
from gtransformer.models.common.pretrained import from_transformer
from gtransformer.models.from_sentence_model import read_sentence_model
from gtransformer.models.from_sentence_model.hugging_face import TABLES
from gtransformer.preprocess.pieces import SentencePieces
from gtransformer.tasks.checkpoints import read_state
from gtransformer.translation.api import GTransformer
from gtransformer.translation.convert import convert
from tests.core.models.from_sentence_model.hf_folders import (
    Folder,
    load,
    many_languages,
    marian,
    write_json,
)

pytestmark = pytest.mark.slow


def pieces_of(file: Path) -> list[str]:
    return SentencePieces(file).words()


def cut_short(folder: Path, name: str, share: float = 0.5) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * share)])


def changed(folder: Path, **values) -> None:
    write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | values)


def retokenised(folder: Path, **values) -> None:
    """Change the tokeniser's configuration."""
    path = folder / "tokenizer_config.json"
    write_json(path, (json.loads(path.read_text()) if path.is_file() else {}) | values)


def resized_bias(folder: Path, size: int) -> None:
    state = torch.load(folder / "pytorch_model.bin")
    torch.save(state | {BIAS: torch.randn(1, size)}, folder / "pytorch_model.bin")


def more_words(folder: Path) -> None:
    words = json.loads((folder / "vocab.json").read_text())
    write_json(folder / "vocab.json", words | {f"more{number}": len(words) + number for number in range(200)})


WEIGHTS, BIAS = "model.safetensors", "final_logits_bias"
FAULTS = {
    "no tokeniser": ("m2m", lambda f: (f / "sentencepiece.bpe.model").unlink(), "sentencepiece.bpe.model: no such"),
    "no pieces": ("marian", lambda f: (f / "target.spm").unlink(), "target.spm: no such file"),
    "no vocabulary": ("marian", lambda f: (f / "vocab.json").unlink(), "vocab.json: no such file"),
    "no weights": ("m2m", lambda f: (f / WEIGHTS).unlink(), "holds neither model.safetensors nor pytorch_model.bin"),
    "another kind": ("m2m", lambda f: changed(f, model_type="t5"), "a model of type 't5'"),
    "another start": ("m2m", lambda f: changed(f, decoder_start_token_id=0), "its decoder begins with token 0"),
    "no such start": ("marian", lambda f: changed(f, decoder_start_token_id=999), "decoder_start_token_id 999"),
    "activation": ("marian", lambda f: changed(f, activation_function="mish"), "activation mish"),
    "activation, a list": ("marian", lambda f: changed(f, activation_function=[1]), "activation [1]"),
    "dropout": ("m2m", lambda f: changed(f, dropout="0.1"), "dropout 0.1 is no probability"),
    "size, a switch": ("marian", lambda f: changed(f, encoder_ffn_dim=True), "encoder_ffn_dim is no size"),
    "no size": ("marian", lambda f: changed(f, d_model=None), "d_model is no size"),
    "another size": ("marian", lambda f: changed(f, d_model=24), "embeddings of another size"),
    "another inner size": ("marian", lambda f: changed(f, encoder_ffn_dim=8), "of another size"),
    "more layers": ("m2m", lambda f: changed(f, encoder_layers=3), "of another structure"),
    "fewer layers": ("m2m", lambda f: changed(f, decoder_layers=1), "of another structure"),
    "cut off": ("m2m", lambda f: cut_short(f, WEIGHTS), "model.safetensors: damaged"),
    "header alone": ("marian", lambda f: cut_short(f, WEIGHTS, 0.001), "model.safetensors: damaged"),
    "bin": ("bin", lambda f: cut_short(f, "pytorch_model.bin"), "pytorch_model.bin: damaged"),
    "no parameters": ("bin", lambda f: torch.save([1, 2], f / "pytorch_model.bin"), "pytorch_model.bin"),
    "lacking shard": ("sharded", lambda f: sorted(f.glob("model-*"))[1].unlink(), "no such file"),
    "index": ("sharded", lambda f: cut_short(f, f"{WEIGHTS}.index.json"), "index.json: holds no JSON object"),
    "index of no use": ("sharded", lambda f: write_json(f / f"{WEIGHTS}.index.json", {"weight_map": []}), "index.json"),
    "vocabulary": ("marian", more_words, "embeddings"),
    "larger vocabulary": ("m2m", more_words, "embeddings"),
    "words": ("marian", lambda f: write_json(f / "vocab.json", {"</s>": 0, "<unk>": 7}), "numbers are not those"),
    "no numbers": ("marian", lambda f: write_json(f / "vocab.json", {"</s>": [0], "<unk>": "x"}), "vocab.json"),
    "config": ("m2m", lambda f: cut_short(f, "config.json"), "config.json: holds no JSON object"),
    "config, a list": ("m2m", lambda f: write_json(f / "config.json", [1]), "config.json: holds no JSON object"),
    "vocab.json": ("marian", lambda f: cut_short(f, "vocab.json"), "vocab.json: holds no JSON object"),
    "special": ("m2m", lambda f: cut_short(f, "special_tokens_map.json"), "special_tokens_map.json: holds no JSON"),
    "special, of another form": (
        "m2m",
        lambda f: write_json(f / "special_tokens_map.json", {"additional_special_tokens": [3]}),
        "special_tokens_map.json",
    ),
    "another tokeniser": ("m2m", lambda f: retokenised(f, tokenizer_class="SMALL100Tokenizer"), "is SMALL100Tokenizer"),
    "language last": ("nllb", lambda f: retokenised(f, legacy_behaviour=True), "legacy_behaviour"),
    "no languages": ("nllb", lambda f: (f / "special_tokens_map.json").unlink(), "no symbols of languages"),
    "other direction": (
        "marian",
        lambda f: retokenised(f, source_lang="deu", target_lang="en"),
        "deu to en; swap",
    ),
    "heads": (
        "marian",
        lambda f: changed(f, encoder_attention_heads=3),
        "encoder_attention_heads does not divide",
    ),
    "short bias": ("bin", lambda f: resized_bias(f, 9), "differ in size"),
    "long bias": ("bin", lambda f: resized_bias(f, 999), "differ in size"),
    "pieces": ("nllb", lambda f: (f / "sentencepiece.bpe.model").write_text("no"), "not a SentencePiece model"),
    "pieces of M2M-100": ("m2m", lambda f: (f / "sentencepiece.bpe.model").write_text("no"), "not a SentencePiece"),
    "pieces of Marian": ("marian", lambda f: (f / "source.spm").write_text("no"), "not a SentencePiece model"),
}
WHOLE = {
    "m2m": partial(many_languages, kind="m2m"),
    "nllb": partial(many_languages, kind="nllb"),
    "marian": partial(marian, languages=["deu", "nld"]),
    "bin": partial(marian, form="bin"),
    "sharded": partial(many_languages, kind="m2m", form="sharded"),
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
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("[transformers]")]
    assert len(said) == 1 and said[0].startswith("error: "), said
    return said[0]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_converted(fault: str, whole, tmp_path: Path, capsys):
    """One sentence, and nothing is left."""
    kind, damage, message = FAULTS[fault]
    shutil.copytree(whole[kind].path, tmp_path / "folder")
    damage(tmp_path / "folder")
    capsys.readouterr()
    assert message in refused(tmp_path / "folder", tmp_path / "model", whole[kind].pair, capsys)


@pytest.mark.parametrize("kept", ["lm_head.weight", "model.encoder.embed_tokens.weight", "model.shared.weight"])
def test_a_shared_table_under_any_of_its_names(kept: str, whole, tmp_path: Path):
    """As transformers reads it."""
    shutil.copytree(whole["bin"].path, tmp_path / "folder")
    file = tmp_path / "folder" / "pytorch_model.bin"
    state = torch.load(file)
    names = ("model.shared.weight", *TABLES, "lm_head.weight")
    table = next(state[name] for name in names if name in state)
    torch.save({name: value for name, value in state.items() if name not in names} | {kept: table}, file)
    read = [read_sentence_model(path, "en", "de", pieces_of) for path in (tmp_path / "folder", whole["bin"].path)]
    found, wanted = (one.state() for one in read)
    assert found.keys() == wanted.keys()
    assert all(found[name].equal(value) for name, value in wanted.items())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_one_file_of_a_folder(name: str, whole, tmp_path: Path, capsys):
    path = whole["marian"].path / name
    assert "give its folder" in refused(path, tmp_path / "model", ("en", "deu"), capsys)


@pytest.mark.parametrize(
    ("kind", "pair", "message"),
    [
        ("m2m", ("en", "xx"), "--target-lang xx: "),
        ("m2m", ("eng_Latn", "de"), "--source-lang eng_Latn: "),
        ("nllb", ("en", "deu_Latn"), "--source-lang en: "),
        ("marian", ("en", "fra"), "does not translate into 'fra'; give one of deu, nld"),
    ],
)
def test_languages_that_it_does_not_know(kind: str, pair, message: str, whole, tmp_path: Path, capsys):
    assert message in refused(whole[kind].path, tmp_path / "model", pair, capsys)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--strategy=sequential", "--strategy sequential: the model was trained on single sentences"),
        ("--strategy=parallel", "--strategy parallel: the model was trained on single sentences"),
    ],
)
def test_a_search_that_it_cannot_do(option: str, message: str, whole, tmp_path: Path, capsys):
    """Every translation with the directory would fail."""
    assert message in refused(whole["m2m"].path, tmp_path / "model", whole["m2m"].pair, capsys, option)


def test_a_piece_that_looks_like_a_language_is_text(pieces: Path, tmp_path: Path):
    SentencePieceTrainer.train(
        input=str(pieces / "both.txt"), model_prefix=str(tmp_path / "both"), vocab_size=60, minloglevel=2,
        hard_vocab_limit=False, user_defined_symbols=["ab_Cd", "__x"],
    )  # fmt: skip
    for kind in ("m2m", "nllb"):
        folder = many_languages(tmp_path, tmp_path / kind, kind)
        model = load(folder, tmp_path / f"{kind}-model")
        assert model.engine.source.unk() not in [*map(model.engine.source.index, ("ab_Cd", "__x"))]
        with pytest.raises(UserError, match="--source-lang"):
            convert(folder.path, tmp_path / "other", "ab_Cd", folder.pair[1], {}, {})


def test_sentences_of_a_line_are_joined_as_the_language_is_written(whole, tmp_path: Path):
    """Those of zho_Hans without blanks."""
    text = "Anna sees the garden."
    convert(whole["nllb"].path, tmp_path / "model", "eng_Latn", "zho_Hans", {"max_len_a": 0, "max_len_b": 4}, {})
    model = GTransformer.from_pretrained(tmp_path / "model", device="cpu")
    (alone,) = model.translate([text])
    ((joined,),) = model.translate_lines([f"{text}|{text}"], split=lambda line: line.split("|"))
    assert alone and joined.translations[0].text == alone * 2


def test_converting_twice_is_the_same(whole, tmp_path: Path):
    """The rows of symbols that no file has are not drawn anew."""
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        convert(whole["m2m"].path, tmp_path / str(seed), "en", "de", {}, {})
        states.append(read_state(tmp_path / str(seed) / "model.pt")["model"])
        assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(seed))  # and draws nothing
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_a_shared_table_is_in_memory_once(whole, tmp_path: Path):
    """Of NLLB-200 it has a gigabyte."""
    read = read_sentence_model(whole["m2m"].path, "en", "de", lambda file: SentencePieces(file).words())
    model = load(whole["m2m"], tmp_path / "model").engine.model
    for state in (read.state(), from_transformer(read.state(), model)):
        tables = [
            value for name, value in state.items() if "embed_tokens" in name or name.endswith("projection.weight")
        ]
        assert len(tables) == 3 and len({table.data_ptr() for table in tables}) == 1
