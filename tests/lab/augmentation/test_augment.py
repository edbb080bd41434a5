"""gtransformer lab augment: aligned sentence by sentence, equal to the Python interface."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtransformer.lab.augmentation.observed import (
    GAP,
    SEPARATOR,
    is_plain,
    random_numbers,
    with_observed,
)
from gtransformer.preprocess.corpus import raw_file, read_documents
from tests import saved_model as saved
from tests.raw_corpus import write_documents
from tests.saved_model import on_cpu
from tests.support import command

main = command("lab augment")

pytestmark = pytest.mark.slow


def lines(lang: str, seed: int) -> Iterator[str]:
    """Sentences of words that the saved model knows."""
    draw = random.Random(f"{lang}{seed}")
    while True:
        yield " ".join(draw.choices(saved.WORDS[lang][:16], k=draw.randint(5, 9))).capitalize()


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A raw corpus."""
    draw = random.Random(1)
    for seed, (split, count) in enumerate((("train", 9), ("dev", 2), ("test", 2))):
        lengths = [draw.randint(1, 6) for _ in range(count)]
        for lang in ("en", "de"):
            some = lines(lang, seed)
            documents = [[next(some) for _ in range(length)] for length in lengths]
            write_documents(raw_file(tmp_path / "corpus", ("en", "de"), split, lang), documents)
    return tmp_path / "corpus"


@pytest.fixture(scope="module")
def augmentation_model(tmp_path_factory) -> Path:
    """A model directory whose vocabulary has the signs of observed words."""
    english = saved.WORDS["en"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(saved.WORDS, "en", [*english, *[SEPARATOR, GAP] * 3, *saved.WORDS["de"]])
        return saved.make_model(tmp_path_factory.mktemp("augmentation"))


def augment(kind: str, *words, status: int = 0) -> None:
    more = [] if kind == "observe" else ["--cpu"]
    assert main([kind, *map(str, words), *more]) == status


def written(
    folder: Path, pair: tuple[str, str] = ("en", "de"), split: str = "train"
) -> list[list[tuple[str, str]]]:
    """Documents of pairs; reading them refuses sides that are not aligned."""
    return list(read_documents(*(raw_file(folder, pair, split, lang) for lang in pair)))


def paired(sources: list[list[str]], targets: list[list[str]]) -> list[list[tuple[str, str]]]:
    return [list(zip(*sides, strict=True)) for sides in zip(sources, targets, strict=True)]


def observed(corpus: Path, seed: int, copies: int, unseen: bool = False) -> list[list[str]]:
    """The source sentences of the training set with observed words."""
    draws = [
        (document, random_numbers(seed, copy, number, unseen))
        for number, document in enumerate(written(corpus))
        for copy in range(copies)
    ]
    return [
        [with_observed(source, target, draw) for source, target in document]
        for document, draw in draws
    ]


@pytest.fixture(scope="module")
def translator(saved_model):
    return on_cpu(saved_model)


def test_forward(saved_model, translator, corpus, tmp_path):
    """Each sentence with the translation that Python gives, but never <unk>, and the tag behind
    it."""
    english = [[source for source, _ in document] for document in written(corpus)]
    text = raw_file(corpus, ("en", "de"), "train", "en")
    augment(
        "forward",
        text,
        tmp_path / "out",
        "--model",
        saved_model,
        "--held-out",
        corpus,
        "--tag",
        "BT",
    )
    translations = translator.translate(english, unkpen=1000.0)
    tagged = [[f"{sentence} BT" for sentence in document] for document in english]
    assert written(tmp_path / "out") == paired(tagged, translations)
    assert "<unk>" in str(translator.translate(english)) and "<unk>" not in str(translations)


def test_back_translation_by_sampling(saved_model, translator, corpus, tmp_path, capsys):
    """A model en-de makes the source of a corpus de-en; it is not taken for the other direction."""
    english = [[source for source, _ in document] for document in written(corpus)]
    text = raw_file(corpus, ("en", "de"), "train", "en")
    options = ["--model", saved_model, "--held-out", corpus, "--sampling-topk", 5, "--seed", 2]
    augment("back", text, tmp_path / "out", *options, "-s", "de", "-t", "en")
    drawn = translator.translate(english, sampling_topk=5, seed=2)
    assert written(tmp_path / "out", ("de", "en")) == paired(drawn, english)
    augment("back", text, tmp_path / "out", *options, status=1)
    assert "en-de" in capsys.readouterr().err


def test_observe(corpus, tmp_path):
    """Training and dev set, each sentence with words of its own target; each copy is drawn
    again."""
    augment("observe", corpus, tmp_path / "out", "--copies", 2, "--seed", 3)
    documents = [document for document in written(corpus) for _ in range(2)]
    targets = [[target for _, target in document] for document in documents]
    assert written(tmp_path / "out") == paired(observed(corpus, 3, 2), targets)
    dev = written(tmp_path / "out", split="dev")
    sources = [
        [(source.rpartition(f" {SEPARATOR} ")[0], target) for source, target in one] for one in dev
    ]
    assert sources == written(corpus, split="dev")
    assert not list((tmp_path / "out").glob("*test*"))


def test_target_side_augmentation(augmentation_model, saved_model, corpus, tmp_path, capsys):
    """Other words are observed than those of training, and the signs are never written."""
    augment(
        "target",
        corpus,
        tmp_path / "out",
        "--model",
        augmentation_model,
        "--copies",
        3,
        "--seed",
        4,
    )
    sources = [[source for source, _ in document] for document in written(corpus) for _ in range(3)]
    read = observed(corpus, 4, 3, unseen=True)
    assert not {*map(str, read)} & {*map(str, observed(corpus, 4, 3))}
    model = on_cpu(augmentation_model)
    assert not is_plain(str(model.translate(read, sampling_topk=10, seed=4)))
    model = on_cpu(augmentation_model)
    model.engine.never = [
        index for index, word in enumerate(model.engine.target.symbols) if not is_plain(word)
    ]
    drawn = model.translate(read, sampling_topk=10, seed=4)
    assert written(tmp_path / "out") == paired(sources, drawn) and is_plain(str(drawn))
    augment("target", corpus, tmp_path / "out", "--model", saved_model, status=1)
    assert "‖" in capsys.readouterr().err


def test_held_out_documents_are_refused_or_left_out(saved_model, corpus, tmp_path, capsys):
    test = [source.upper() for source, _ in written(corpus, split="test")[1]]
    text = write_documents(tmp_path / "text.en", [["The old dog."], test])
    options = ["--model", saved_model, "--held-out", corpus]
    augment("forward", text, tmp_path / "out", *options, status=1)
    assert "document 2" in capsys.readouterr().err and not (tmp_path / "out").exists()
    augment("forward", text, tmp_path / "out", *options, "--skip-held-out")
    assert [source for ((source, _),) in written(tmp_path / "out")] == ["The old dog."]
