"""Models that transformers has saved, converted: they compute, and find, what transformers does."""

from __future__ import annotations

import math
import random
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from gtransformer.data.dictionaries import NEVER
from gtransformer.preprocess.corpus import raw_file
from gtransformer.translation.api import GTransformer
from gtransformer.translation.model_directory import ModelDirectory
from tests.commands import GENERATION, run
from tests.core.models.from_sentence_model.hf_folders import (
    TEXT,
    Folder,
    load,
    many_languages,
    marian,
)
from tests.raw_corpus import write_documents
from tests.saved_model import on_cpu
from tests.support import command

export = command("export")
prepare = command("prepare")

pytestmark = pytest.mark.slow

MAKERS = {
    "marian-swish": marian,
    "marian-relu-without-bias": partial(marian, activation_function="relu", bias=0.0),
    "marian-gelu-unscaled": partial(marian, activation_function="gelu", scale_embedding=False),
    "marian-two-vocabularies": partial(marian, two=True),
    "marian-three-tables": partial(marian, two=True, tied=False),
    "marian-languages": partial(marian, languages=["deu", "nld"]),
    "m2m-norms": partial(
        many_languages, kind="m2m", normalize_before=False, normalize_embedding=True
    ),
    "m2m": partial(many_languages, kind="m2m"),
    "m2m-bin": partial(
        many_languages, kind="m2m", scale_embedding=False, activation_function="gelu"
    ),
    "nllb": partial(many_languages, kind="nllb"),
    "mbart": partial(many_languages, kind="mbart"),
}


def sentences(folder: Folder, side: int, count: int, draw: random.Random) -> list[list[str]]:
    """Words at random."""
    return [draw.choices(folder.texts(side), k=draw.randint(1, 9)) for _ in range(count)]


def ours(
    folder: Folder, loaded: GTransformer, source: list[list[str]], target: list[list[str]]
) -> list[Tensor]:
    """(length, words) for each pair of sentences, in our order of the words; all are one
    document.
    """
    engine, rows = loaded.engine, []
    for dictionary, side, lines in ((engine.source, 0, source), (engine.target, 1, target)):
        texts = [
            [dictionary.index(word) for word in (*folder.given[side], *line)] for line in lines
        ]
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
    """Several sentences as one document cost what they do one by one; every word that transformers
    has is there.
    """
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


NO_TEXT = re.compile(
    r"<unused|</?s>|<pad>|<mask>|__[a-z]+__|[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2}|>>|<<"
)


@pytest.mark.parametrize("kind", ["marian-swish", "m2m", "mbart"])
def test_plain_text_is_cut_and_joined_as_by_transformers(kind: str, pieces: Path, tmp_path: Path):
    """Its tokeniser, ``generate`` and its tokeniser again, from text to text; greedy, without what
    is no text.
    """
    import transformers

    folder = MAKERS[kind](pieces, tmp_path / "folder")
    loaded, (source_lang, target_lang) = load(folder, tmp_path / "model"), folder.pair
    if kind == "mbart":
        made = transformers.MBart50Tokenizer.from_pretrained(
            folder.path, src_lang=source_lang, tgt_lang=target_lang
        )
    elif kind == "m2m":
        made = transformers.M2M100Tokenizer.from_pretrained(
            folder.path, src_lang=source_lang, tgt_lang=target_lang
        )
    else:
        made = transformers.MarianTokenizer.from_pretrained(folder.path)
    words = folder.words[1]
    spoken = {*folder.texts(1), "</s>"}  # <unk> is never written
    banned = [[row] for row, word in enumerate(words) if word not in spoken]
    begin = torch.tensor([[folder.start, *folder.rows(1, [])]])
    text = [*TEXT["en"], "Anna sees the garden.", "Is it old?"]
    for line in text:
        read = made(line, return_tensors="pt")
        limit = read.input_ids.shape[1] - 1
        found = folder.model.generate(
            **read, do_sample=False, num_beams=1, max_new_tokens=limit + 1, min_new_tokens=1,
            forced_eos_token_id=words.index("</s>"), bad_words_ids=banned, decoder_input_ids=begin,
        )  # fmt: skip
        wanted = made.decode(found[0], skip_special_tokens=True)
        assert loaded.translate([line], beam=1, max_len_a=1, max_len_b=0) == [wanted], line


COMMON = (
    "--optimizer adam --lr-scheduler fixed --cpu --no-progress-bar --num-workers 0 --seed 1 "
    "--source-lang en "
    "--target-lang de --langs=en,de --max-tokens 400 --no-epoch-checkpoints --task=translation_doc "
    "--arch=gtransformer --criterion=fused_label_smoothed_cross_entropy --label-smoothing=0.1"
).split()


def write_raw(folder: Path) -> dict[str, list[str]]:
    """A raw corpus of en and de; the sentences of the development set by language."""
    draw, dev = random.Random(4), {}
    for split, count in {"train": 6, "dev": 2, "test": 2}.items():
        for lang in TEXT:
            documents = [draw.choices(TEXT[lang], k=3) for _ in range(count)]
            write_documents(raw_file(folder, list(TEXT), split, lang), documents)
            if split == "dev":
                dev[lang] = sum(documents, [])
    return dev


def test_from_a_directory_to_a_document_model(pieces: Path, tmp_path: Path):
    """Preparing, training, generating, exporting: the language is given, and costs nothing
    anywhere.
    """
    folder = many_languages(pieces, tmp_path / "folder", "m2m", ends=3.0)
    loaded, raw, prepared = (
        load(folder, tmp_path / "converted"),
        tmp_path / "raw",
        tmp_path / "prepared",
    )
    dev = write_raw(raw)
    assert (
        prepare([str(raw), str(prepared), f"--vocabulary={tmp_path / 'converted'}", "--workers=1"])
        == 0
    )
    for lang, dictionary in zip(
        folder.pair, (loaded.engine.source, loaded.engine.target), strict=True
    ):
        assert (
            Dictionary.load(str(prepared / "bin" / f"dict.{lang}.txt")).symbols
            == dictionary.symbols
        )
        instances = (prepared / "instances" / f"train.{lang}").read_text(encoding="utf-8")
        assert instances.count(f"<s> __{lang}__ ") == instances.count("<s>") == 18

    last = tmp_path / "save" / "checkpoint_last.pt"
    line = [
        "train", prepared / "bin", *COMMON, f"--sentence-model={tmp_path / 'converted'}",
        f"--save-dir={last.parent}",
        "--encoder-ctxlayers=1", "--decoder-ctxlayers=2", "--cross-ctxlayers=1", "--dropout=0",
    ]  # fmt: skip
    output = run(*line, "--lr=1e-12", "--max-update=1")
    costs = []
    cut = SentencePieceProcessor(model_file=str(pieces / "both.model"))
    for source, target in zip(dev["en"], dev["de"], strict=True):
        source, target = (cut.encode(text, out_type=str) for text in (source, target))
        rows = [folder.words[1].index(word) for word in (*target, "</s>")]
        costs += (-folder.logits(source, target).log_softmax(dim=1)[1:])[
            range(len(rows)), rows
        ].tolist()
    (said,) = {
        float(one) for one in re.findall(r"valid on 'valid' subset.*? nll_loss ([\d.]+)", output)
    }
    assert said == pytest.approx(sum(costs) / len(costs) / math.log(2), abs=1e-3)
    output = run(
        "validate",
        prepared / "bin",
        "--cpu",
        "--max-tokens=400",
        f"--path={tmp_path / 'converted'}",
    )
    assert float(re.search(r" nll_loss ([\d.]+)", output)[1]) == said
    assert "@ 1 updates" in run(*line, "--lr=1e-3", "--max-update=3")

    output = run(
        "generate", prepared / "bin", *GENERATION, f"--path={last}",
        f"--gen-output={tmp_path / 'test'}",
        "--max-len-b=5", "--remove-bpe=sentencepiece",
    )  # fmt: skip
    hypotheses = [one for one in output.splitlines() if one[:2] in ("T-", "H-", "D-")]
    generated = (tmp_path / "test.jsonl").read_text(encoding="utf-8")
    assert hypotheses and not [
        one for one in (*hypotheses, generated) if "__" in one or "unused" in one
    ]
    exported = tmp_path / "exported"
    assert export([str(prepared), str(exported), f"--checkpoint={last}", "--beam=2"]) == 0
    assert ModelDirectory.open(exported).search.unkpen == NEVER  # as at conversion
    model = on_cpu(exported)
    text = [*TEXT["en"], "", "Anna"]
    (found,) = model.nbest([text], max_len_b=5)
    assert [bool(one) for one in found] == [bool(one) for one in text]
    assert not [one for line in found for one in line if NO_TEXT.search(one.text) or one.score > 0]
