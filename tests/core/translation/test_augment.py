"""gtransformer augment: aligned line by line, equal after an interruption, equal to the Python interface; mistakes."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtransformer.cli.augment import main
from gtransformer.preprocess.corpus import raw_file, read_documents
from gtransformer.preprocess.observed import GAP, SEPARATOR, random_numbers, with_observed, without_observed
from gtransformer.translation.api import GTransformer
from tests import saved_model as saved
from tests.raw_corpus import write_documents


def lines(lang: str, seed: int) -> Iterator[str]:
    """Sentences of words that the saved model knows."""
    draw = random.Random(f"{lang}{seed}")
    while True:
        yield " ".join(draw.choices(saved.WORDS[lang][:16], k=draw.randint(5, 9))).capitalize()


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A raw corpus."""
    draw = random.Random(1)
    for seed, (split, count) in enumerate((("train", 14), ("dev", 2), ("test", 2))):
        lengths = [draw.randint(1, 6) for _ in range(count)]
        for lang in ("en", "de"):
            some = lines(lang, seed)
            documents = [[next(some) for _ in range(length)] for length in lengths]
            write_documents(raw_file(tmp_path / "corpus", ("en", "de"), split, lang), documents)
    return tmp_path / "corpus"


@pytest.fixture(scope="module")
def augmentation_model(tmp_path_factory) -> Path:
    """A model directory whose vocabulary has what stands behind source sentences."""
    english = saved.WORDS["en"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(saved.WORDS, "en", [*english, *[SEPARATOR, GAP] * 3, *saved.WORDS["de"]])
        return saved.make_model(tmp_path_factory.mktemp("augmentation"))


def without_signs(model: Path) -> GTransformer:
    """A model that does not write the signs of observed words, which are in its joined vocabulary."""
    found = GTransformer.from_pretrained(model, device="cpu")
    found.engine.never = [index for index, word in enumerate(found.engine.target.symbols) if {*word} & {SEPARATOR, GAP}]
    return found


def augment(kind: str, *words, status: int = 0) -> None:
    more = [] if kind == "observe" else ["--cpu", "--quiet"]
    assert main([kind, *map(str, words), *more]) == status


def written(folder: Path, pair: tuple[str, str] = ("en", "de"), split: str = "train") -> list[list[tuple[str, str]]]:
    """Documents of pairs; reading them refuses sides that are not aligned."""
    return list(read_documents(*(folder / f"concatenated_{pair[0]}2{pair[1]}_{split}_{lang}.txt" for lang in pair)))


def training(corpus: Path, lang: str) -> Path:
    return corpus / f"concatenated_en2de_train_{lang}.txt"


def made(folder: Path) -> dict[str, bytes]:
    """All files but the one with the date, and the empty one that is locked."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("made.json", "lock"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def translator(saved_model):
    return GTransformer.from_pretrained(saved_model, device="cpu")


def test_forward(saved_model, translator, corpus, tmp_path, capsys):
    """Each sentence with the translation that Python gives, but never <unk>; the same without the tag."""
    english = [[source for source, _ in document] for document in written(corpus)]
    options = ["--model", saved_model, "--held-out", corpus]
    augment("forward", training(corpus, "en"), tmp_path / "out", *options)
    drawn = translator.translate(english, unkpen=1000.0)
    expected = [list(zip(*sides, strict=True)) for sides in zip(english, drawn, strict=True)]
    assert written(tmp_path / "out") == expected
    assert "<unk>" in str(translator.translate(english)) and "<unk>" not in str(expected)
    assert f"{len(english)} documents, {sum(map(len, english))} sentences" in capsys.readouterr().out
    augment("forward", training(corpus, "en"), tmp_path / "out", *options, "--tag", "BT")
    assert written(tmp_path / "out") == [[(f"{source} BT", target) for source, target in one] for one in expected]
    noted = json.loads((tmp_path / "out" / "augment" / "made.json").read_text())
    assert "--tag BT" in noted["command"] and noted["selected"]["documents"] == len(english)


def test_back_translation_by_sampling(saved_model, translator, corpus, tmp_path):
    """A model en-de makes the source of a corpus de-en; another seed draws another one."""
    english = [[source for source, _ in document] for document in written(corpus)]
    options = ["--model", saved_model, "--held-out", corpus, "-s", "de", "-t", "en", "--sampling-topk", "5"]
    found = {}
    for seed in (1, 2):
        out = tmp_path / f"out{seed}"
        augment("back", training(corpus, "en"), out, *options, "--seed", seed, "--tag", "(back)")
        found[seed] = written(out, ("de", "en"))
        drawn = translator.translate(english, sampling_topk=5, seed=seed)
        assert found[seed] == [
            [(f"{source} (back)", target) for source, target in zip(*sides, strict=True)]
            for sides in zip(drawn, english, strict=True)
        ]
    assert found[1] != found[2] and drawn != [translator.translate(document) for document in english]


def test_a_shard_may_begin_with_what_no_text_begins_with(saved_model, corpus, tmp_path):
    """Technical text quotes markup; it is refused at the beginning of a text, which a shard's beginning is not."""
    text = write_documents(tmp_path / "text", [["The old dog."], ['<?xml version="1.0"?> is the first line.']])
    options = ["--model", saved_model, "--held-out", corpus, "--shard", "1/2"]
    augment("forward", text, tmp_path / "out", *options)
    found = training(tmp_path / "out", "en").read_text(encoding="utf-8")
    assert found == '<d>\n<?xml version="1.0"?> is the first line.\n'


def test_observe(corpus, tmp_path, capsys):
    """Training and dev set, each sentence with words of its own target; each copy is drawn again."""
    augment("observe", corpus, tmp_path / "out", "--copies", 2, "--seed", 3)
    expected = [
        [(with_observed(source, target, draw), target) for source, target in document]
        for number, document in enumerate(written(corpus))
        for draw in (random_numbers(3, copy, number) for copy in range(2))
    ]
    found = written(tmp_path / "out")
    assert found == expected and found[0] != found[1]
    for split, copies in (("train", 2), ("dev", 1)):
        originals = [document for document in written(corpus, split=split) for _ in range(copies)]
        for document, original in zip(written(tmp_path / "out", split=split), originals, strict=True):
            assert [(without_observed(source), target) for source, target in document] == original
    assert not list((tmp_path / "out").glob("*test*"))
    augment("target", corpus, tmp_path / "out", "--model", tmp_path, status=1)
    assert "out: was made by gtransformer augment observe; name another" in capsys.readouterr().err


@pytest.mark.parametrize(("search", "expected"), [({"sampling_topk": 0, "seed": 7}, {}), ({}, {"sampling_topk": 10})])
def test_a_models_own_sampling(augmentation_model, corpus, tmp_path, search, expected):
    """Of the model directory, as every default; without it the ten most probable words are drawn from."""
    model = shutil.copytree(augmentation_model, tmp_path / "model")
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["search"] |= {"beam": 1, "nbest": 1} | search
    (model / "manifest.json").write_text(json.dumps(manifest))
    augment("target", corpus, tmp_path / "out", "--model", model, "--copies", 1)
    draws = [random_numbers(search.get("seed", 1), 0, number, unseen=True) for number in range(len(written(corpus)))]
    read = [
        [with_observed(source, target, draw) for source, target in document]
        for document, draw in zip(written(corpus), draws, strict=True)
    ]
    drawn = without_signs(model).translate(read, **expected)
    assert [[target for _, target in document] for document in written(tmp_path / "out")] == drawn


def test_held_out_documents_are_refused_before_anything_is_written(saved_model, corpus, tmp_path, capsys):
    """A test document among monolingual text, and among the training set of the corpus itself."""
    test = written(corpus, split="test")[1]
    english = [[source for source, _ in document] for document in written(corpus)]
    text = write_documents(tmp_path / "text.en", [*english, [source.upper() for source, _ in test]])
    options = ["--model", saved_model, "--held-out", corpus]
    augment("forward", text, tmp_path / "out", *options, status=1)
    message = f"error: {text}: document 15, which begins '{test[0][0].upper()[:40]}', is held out: it is document 2 of"
    assert capsys.readouterr().err.startswith(message)
    assert not made(tmp_path / "out")
    augment("forward", text, tmp_path / "out", *options, "--skip-held-out")
    assert "1 documents were left out" in capsys.readouterr().out
    assert [[source for source, _ in document] for document in written(tmp_path / "out")] == english
    both = [*written(corpus), test]
    for lang, side in (("en", 0), ("de", 1)):
        write_documents(training(corpus, lang), [[pair[side] for pair in document] for document in both])
    augment("observe", corpus, tmp_path / "observed", status=1)
    assert "is held out: it is document 2 of the test set" in capsys.readouterr().err
    assert not made(tmp_path / "observed")


MISTAKES = [
    ("back {en} {out} --model {model} --held-out {corpus}", "translates en-de, but back for en-de needs a model de-en"),
    ("forward {en} {out} --model {model} --held-out {corpus} -t fr", "{corpus}: no files for the language pair en-fr"),
    ("forward {en} {out} --model {model} --held-out {corpus} --shard 3/3", "--shard 3/3: give I/N"),
    ("forward {en} {out} --model {model} --held-out {corpus} --sentence-rule off", "--sentence-rule off: lines would"),
    ("forward {en} {out} --model {model} --held-out {corpus} --sampling-topk 3 --beam 2", "but --beam is 2; leave"),
    ("forward {en} {out} --model {model} --held-out {corpus} --unkpen 0", "--unkpen 0.0: <unk> is never written"),
    ("forward {en} {out} --model {model} --held-out {corpus} --tag ' '", "--tag ' ': give a word"),
    ("forward {en} {out} --model {model} --held-out {corpus} --tag '<d>'", "<d> inside a sentence is reserved"),
    ("forward {en} {out} --model {model} --held-out {out}", "{out}: no such directory"),
    ("forward {corpus} {out} --model {model} --held-out {corpus}", "{corpus}: is a directory; give a text"),
    ("forward {en} {corpus} --model {model} --held-out {corpus}", "{corpus}: has a corpus already"),
    ("forward {none} {out} --model {model} --held-out {corpus}", "{none}: no such file"),
    ("target {corpus} {out} --model {model}", "its vocabulary lacks ‖ or ␣; train one"),
    ("forward {pipe} {out} --model {model} --held-out {corpus}", "{pipe}: is a pipe, which can be read once only"),
    ("forward {en} {tmx} --model {model} --held-out {corpus}", "{tmx}: has a corpus already"),
    ("target {corpus} {out} --model {model} --beam 4", "--beam 4: target draws words instead of searching; leave"),
    ("target {corpus} {out} --model {model} --strategy parallel", "--strategy parallel: target draws words"),
    ("target {corpus} {out} --model {model} --copies 0", "--copies 0: give 1 or more"),
    ("target {corpus} {out} --model {model} --seed -1", "--seed -1: must not be negative"),
    ("observe {en} {out}", "{en}: no such directory; give that of a raw corpus"),
    ("observe {corpus} {en}", "{en}: is no directory"),
    ("observe {corpus} {corpus}", "{corpus}: has a corpus already"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES)
def test_mistakes_get_one_sentence_and_leave_nothing(saved_model, corpus, tmp_path, capsys, line, message):
    paths = {
        "en": training(corpus, "en"), "out": tmp_path / "out", "corpus": corpus, "model": saved_model,
        "none": tmp_path / "none", "pipe": tmp_path / "pipe", "tmx": tmp_path / "other",
    }  # fmt: skip
    paths["tmx"].mkdir()
    (paths["tmx"] / "train.tmx.xz").write_bytes(b"")
    os.mkfifo(paths["pipe"])
    before = made(tmp_path)
    words = [word.format(**paths) for word in shlex.split(line)]
    augment(*words, status=1)
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and message.format(**paths) in error[0]
    assert made(tmp_path) == before
