"""Models that three versions of transformers have saved: converted, they have their library's
pieces and log probabilities.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.models.from_sentence_model.sentence_model import ModelVocabulary
from gtransformer.preprocess.corpus import raw_file
from gtransformer.preprocess.tokenisers import SentencePieces
from gtransformer.translation.api import GTransformer
from gtransformer.translation.convert import convert, unknown_signs
from tests.bert import skip_without_transformers
from tests.raw_corpus import write_documents
from tests.saved_by_transformers.make import NAMES, NEW, make, train_pieces
from tests.saved_model import on_cpu
from tests.support import ROOT, command

model_convert = command("model convert")
prepare = command("prepare")

pytestmark = pytest.mark.slow

VERSIONS = "4.33", "4.46", "installed"


@pytest.fixture(scope="module", params=VERSIONS)
def folders(request, tmp_path_factory) -> Path:
    """What a version has saved."""
    skip_without_transformers()
    folder = tmp_path_factory.mktemp("saved")
    if request.param == "installed":
        make(folder)
    else:
        extract(request.param, folder)
    return folder


def extract(version: str, folder: Path) -> None:
    with tarfile.open(ROOT / f"tests/saved_by_transformers/{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")


def pieces_of(model: GTransformer, side: int, line: str) -> list[str]:
    """The words that the model reads of a line."""
    text = (model.source_text, model.target_text)[side]
    known = (model.engine.source, model.engine.target)[side]
    prefix = (model.directory.source_prefix, model.directory.target_prefix)[side]
    words = [word if word in known.indices else "<unk>" for word in text.encode([line])[0].split()]
    return [*([prefix] if prefix else []), *words, "</s>"]


@torch.no_grad()
def scores_of(model: GTransformer, source: list[str], target: list[str]) -> torch.Tensor:
    """(length,) log probabilities of the target's words."""
    engine = model.engine
    read = [
        [words.bos(), *map(words.index, line)]
        for words, line in ((engine.source, source), (engine.target, target))
    ]
    tokens = torch.tensor(read[:1])
    encoded = engine.model.encoder(tokens, src_lengths=torch.tensor([tokens.shape[1]]))
    logits = engine.model.decoder(torch.tensor([read[1][:-1]]), encoder_out=encoded)[0][0]
    return logits.log_softmax(dim=1)[range(len(target)), read[1][1:]]


@pytest.mark.parametrize("name", NAMES)
def test_pieces_and_log_probabilities(folders: Path, name: str, tmp_path: Path):
    content = read_json(folders / f"{name}.json")
    convert(folders / name, tmp_path / "model", *content["pair"], {}, {}, normalise=False)
    model = on_cpu(tmp_path / "model")
    for pair in content["pairs"]:
        source, target = pieces_of(model, 0, pair["source"]), pieces_of(model, 1, pair["target"])
        assert (source, target) == (pair["source_pieces"], pair["target_pieces"])
        scores = scores_of(model, source, target)
        assert (scores - torch.tensor(pair["scores"])).abs().max() < 1e-5


def converted(folders: Path, name: str, output: Path, capsys, *options: str) -> str:
    """Convert a folder by the command, and return what it says."""
    pair = read_json(folders / f"{name}.json")["pair"]
    line = [str(folders / name), str(output), "-s", pair[0], "-t", pair[1], *options]
    assert model_convert(line) == 0
    return capsys.readouterr().out


def test_punctuation_that_the_model_does_not_know(folders: Path, tmp_path: Path, capsys):
    """Moses' rules make it known, unless the user does not want them."""
    said = converted(folders, "opus", tmp_path / "yes", capsys)
    assert "‘ ’ ‚ “ ” „ « » – — …" in said and "punctuation is normalised" in said
    text = ["“Anna’s” house – green…", "»We« saw"]
    plain = ['"Anna\'s" house - green...', '"We" saw']
    model = on_cpu(tmp_path / "yes")
    assert model.encode(text) == model.encode(plain)
    said = converted(folders, "opus", tmp_path / "no", capsys, "--normalise-punctuation", "no")
    assert "punctuation is not normalised" in said
    model = on_cpu(tmp_path / "no")
    assert "“" in "".join(model.encode(text)[0])


def test_punctuation_that_the_model_knows(folders: Path):
    """Moses' rules stay off; what they do not make known is none of their business."""
    pieces = folders / "opus" / "source.spm"
    words = [*SentencePieces(pieces).words(), *"‘’‚“”„‹›«»–—…"]
    assert unknown_signs(ModelVocabulary(words, {}, pieces), "en") == ""
    fewer = [word for word in words if not set(word) & set("'‘’‚")]
    assert unknown_signs(ModelVocabulary(fewer, {}, pieces), "en") == ""


def test_a_typed_target_language(folders: Path, tmp_path: Path, capsys):
    """``>>deu<<`` is what the model reads anyway, and no text; any other is refused."""
    converted(folders, "opus_many", tmp_path / "model", capsys)
    model = on_cpu(tmp_path / "model")
    text = ["Anna saw it", "We saw a house"]
    assert model.translate([f">>deu<<{text[0]}", f">>deu<<  {text[1]}"]) == model.translate(text)
    assert model.translate([">>deu<<", text[0]]) == ["", model.translate(text)[0]]
    assert model.encode(["a >>nld<< house"])[0].count("nl") == 0
    with pytest.raises(UserError, match="asks for >>nld<<.*converted for >>deu<<"):
        model.translate(["Anna saw it", ">>nld<< Anna saw it"])


def test_a_language_without_a_row(tmp_path: Path):
    """Users of 4.33 gave a new language the row of <mask>, which went behind it, and no file says
    so.
    """
    skip_without_transformers()
    extract("4.33", tmp_path)
    folder, pair = tmp_path / "nllb_new", ("eng_Latn", NEW)
    before = read_json(folder / "added_tokens.json")[NEW]
    (folder / "added_tokens.json").unlink()
    listed = read_json(folder / "special_tokens_map.json")
    listed["additional_special_tokens"] = [NEW]
    write_json(folder / "special_tokens_map.json", listed)
    convert(folder, tmp_path / "model", *pair, {}, {})
    target = on_cpu(tmp_path / "model").engine.target
    assert target.index(NEW) == before - 1


def test_tokenizer_json_beside_an_old_sentencepiece_model(folders: Path, tmp_path: Path, capsys):
    """A tokeniser whose vocabulary was changed leaves the old model there; if it has the same
    pieces, it splits.
    """
    shutil.copytree(folders / "nllb_fast", tmp_path / "nllb_fast")
    shutil.copy(folders / "nllb_fast.json", tmp_path)
    pieces = tmp_path / "nllb_fast" / "sentencepiece.bpe.model"
    for kind, name in (("bpe", "sentencepiece.model"), ("unigram", "tokenizer.json")):
        train_pieces(pieces, "en de", kind)
        converted(tmp_path, "nllb_fast", tmp_path / kind, capsys)
        found = {path.name for path in (tmp_path / kind).iterdir()}
        assert found & {"sentencepiece.model", "tokenizer.json"} == {name}


def test_a_corpus_and_text_by_tokenizer_json(folders: Path, tmp_path: Path, capsys, monkeypatch):
    """Prepared as the model reads it; translating imports no transformers."""
    converted(folders, "nllb_fast", tmp_path / "model", capsys)
    assert not [*tmp_path.glob("model/sentencepiece*")]
    model = on_cpu(tmp_path / "model")
    text = {"eng_Latn": ["Anna saw a house", "It is <mask> ☃"], "deu_Latn": ["Das Haus", "Es"]}
    for lang, lines in text.items():
        for split in ("train", "dev", "test"):
            write_documents(raw_file(tmp_path / "raw", list(text), split, lang), [lines])
    prepared = tmp_path / "prepared"
    line = [str(tmp_path / "raw"), str(prepared), f"--vocabulary={tmp_path / 'model'}"]
    assert prepare([*line, "-s", "eng_Latn", "-t", "deu_Latn", "--workers=1"]) == 0
    for lang, side in (("eng_Latn", model.source_text), ("deu_Latn", model.target_text)):
        sentences = [f"<s> {lang} {line} </s>" for line in side.encode(text[lang])]
        instances = (prepared / "instances" / f"train.{lang}").read_text(encoding="utf-8")
        assert instances.split() == " ".join(sentences).split()
    expected = model.translate(["Anna saw a house"])
    monkeypatch.setitem(sys.modules, "transformers", None)  # an import of it fails
    again = on_cpu(tmp_path / "model")
    assert again.translate(["Anna saw a house"]) == expected
