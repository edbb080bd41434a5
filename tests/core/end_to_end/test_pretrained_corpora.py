"""mBART25 and BERT from plain text to scores: corpora cut by a pretrained model's own pieces,
training, translation.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from sentencepiece import SentencePieceTrainer

from gtransformer.cli.export import main as export
from gtransformer.cli.prepare import main as prepare
from gtransformer.cli.score import main as score
from gtransformer.cli.translate import main as translate
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import load_recipe
from tests.bert import save_bert, skip_without_transformers
from tests.commands import run
from tests.core.models import fairseq_models

pytestmark = pytest.mark.slow

WORDS = {
    "en": "the old house is green and Anna sees it",
    "de": "das alte Haus ist grün und Anna sieht es",
}
MBART = {
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "layernorm_embedding": True,
}
SIZES = {key.replace("_", "-"): value for key, value in fairseq_models.SIZES.items()}
SHORT = {
    "max-update": 1,
    "num-workers": 0,
    "tensorboard-logdir": None,
    "cpu": True,
    "no-progress-bar": True,
}


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    """Documents of three sentences, such as "Anna sees the house ." """
    folder = tmp_path_factory.mktemp("raw")
    draw = random.Random(1)
    for split, documents in {"train": 30, "dev": 4, "test": 3}.items():
        for lang, words in WORDS.items():
            lines = []
            for _ in range(documents):
                lines += [
                    "<d>",
                    *(
                        " ".join(draw.choices(words.split(), k=5)).capitalize() + "."
                        for _ in range(3)
                    ),
                ]
            (folder / f"concatenated_en2de_{split}_{lang}.txt").write_text("\n".join(lines) + "\n")
    return folder


def arguments(name: str, sections: tuple[str, ...], **changes) -> list[str]:
    """A recipe's options, on the CPU, with some of them changed; None takes one away."""
    options = load_recipe(name).options(*sections) | {"fp16": False}
    options |= {key.replace("_", "-"): value for key, value in changes.items()}
    return to_arguments(options)


def translate_and_score(
    name: str, prepared: Path, raw: Path, folder: Path, files: set[str]
) -> None:
    """With fairseq-generate and the score command; an exported model, alone, gives the same
    translation.
    """
    best, model = folder / "save" / "checkpoint_best.pt", folder / "model"
    options = {"path": best, "gen-output": folder / "test", "cpu": True, "beam": 1}
    run("generate", prepared / "bin", *arguments(name, ("task", "generate"), **options))
    assert (
        score([str(prepared), "--hypotheses", str(folder / "test.jsonl"), "--reference", "both"])
        == 0
    )
    assert export([str(prepared), str(model), f"--checkpoint={best}", "--beam=1"]) == 0
    assert {path.name for path in model.iterdir()} == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        *files,
    }
    shutil.rmtree(prepared)
    best.unlink()
    text = folder / "translated.txt"
    line = [
        "--model",
        str(model),
        str(raw / "concatenated_en2de_test_en.txt"),
        "-o",
        str(text),
        "--cpu",
        "--quiet",
    ]
    assert translate(line) == 0
    found, expected = (
        path.read_text(encoding="utf-8").splitlines() for path in (text, folder / "test.txt")
    )
    assert found == [" ".join(line.split()) for line in expected]
    assert len(found) == 12 and found.count("<d>") == 3


def test_mbart_from_text_to_scores(raw, tmp_path):
    """With recipe ``mbart``, a small mBART of fairseq's own class, and its SentencePiece model and
    dictionary.
    """
    SentencePieceTrainer.train(
        input=str(raw / "concatenated_en2de_train_de.txt"), model_prefix=str(tmp_path / "spm"),
        vocab_size=40,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    pieces = [line.split("\t")[0] for line in (tmp_path / "spm.vocab").read_text().splitlines()][3:]
    (tmp_path / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    given = {"sentencepiece": tmp_path / "spm.model", "dictionary": tmp_path / "dict.txt"}
    languages = arguments("mbart", ("task",), task=None, doc_mode=None, decoder_start=None)
    prepared = tmp_path / "prepared"
    line = [
        str(raw),
        str(prepared),
        *arguments("mbart", ("prepare",), **given),
        *languages,
        "--workers=1",
    ]
    assert prepare(line) == 0
    dictionary = Dictionary.load(str(prepared / "bin" / "dict.en_XX.txt"))
    symbols = [f"[{lang}]" for lang in load_recipe("mbart").options("task")["langs"].split(",")]
    assert dictionary.symbols[-26:] == [*symbols, "<mask>"]
    assert dictionary.symbols[4:-26] == pieces
    teacher = fairseq_models.build(dictionary, "mbart_large", **MBART)
    args = fairseq_models.settings("mbart_large", **MBART)
    torch.save(fairseq_models.checkpoint(teacher, args), tmp_path / "model.pt")
    save = {"save-dir": tmp_path / "save", "finetune-from-model": tmp_path / "model.pt"}
    output = run(
        "train", prepared / "bin", *arguments("mbart", ("task", "train"), **SIZES, **SHORT, **save)
    )
    assert "initialised from a Transformer: 60 new parameters" in output

    (tmp_path / "spm.model").unlink()
    files = {"dict.en_XX.txt", "dict.de_DE.txt", "sentencepiece.model"}
    translate_and_score("mbart", prepared, raw, tmp_path, files)


def test_bert_from_text_to_a_checkpoint(raw, tmp_path):
    """With recipe ``bert``: wordpieces and a dictionary of their own on the source side, BPE on the
    target side.
    """
    skip_without_transformers()
    words = [*WORDS["en"].lower().split(), "."]
    save_bert(tmp_path / "bert", words)
    languages = arguments(
        "bert", ("task",), task=None, doc_mode=None, decoder_start=None, max_source_positions=None
    )
    prepared = tmp_path / "prepared"
    chosen = arguments("bert", ("prepare",), bert=tmp_path / "bert", vocabulary_size=20)
    assert prepare([str(raw), str(prepared), *chosen, *languages, "--workers=1"]) == 0
    source, target = (
        Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt")) for lang in ("en", "de")
    )
    assert source.symbols[4:] == [*words, "[en]", "[de]", "<mask>"] and "haus" in target.symbols
    sizes = {**SIZES, "encoder-layers": 2, "max-source-positions": 64}
    save = {"save-dir": tmp_path / "save", "bert-checkpoint": tmp_path / "bert"}
    output = run(
        "train", prepared / "bin", *arguments("bert", ("task", "train"), **sizes, **SHORT, **save)
    )
    assert f"encoder initialised from {tmp_path / 'bert'}" in output
    shutil.rmtree(tmp_path / "bert")  # a trained model is whole without it
    files = {"dict.en.txt", "dict.de.txt", "wordpieces.json", "bpe.codes", "truecase.de"}
    translate_and_score("bert", prepared, raw, tmp_path, files)
