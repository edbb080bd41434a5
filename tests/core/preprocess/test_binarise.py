"""The dictionary, and binaries read back with fairseq."""

from __future__ import annotations

import subprocess

import pytest
from fairseq.data import Dictionary, data_utils

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess import binarise as module
from gtransformer.preprocess.binarise import binarise, binary_names, build_dictionary, count_unknown, dictionary_words

LINES = {
    "en": ["<s> b a </s> <s> a c </s>", "<s> x@@ y </s>"],
    "de": ["<s> b d </s> <s> a </s>", "<s> x@@ é </s>"],
}


@pytest.fixture(autouse=True)
def new_programs(monkeypatch):
    """fairseq-preprocess as users run it."""
    monkeypatch.setattr(module, "subprocess", subprocess)


@pytest.fixture
def instances(tmp_path):
    folder = tmp_path / "instances"
    folder.mkdir()
    for split in ("train", "test"):
        for lang, lines in LINES.items():
            (folder / f"{split}.{lang}").write_text("".join(f"{line}\n" for line in lines))
        Sidecar(split, "en", "de", 2, [(0, 0, 2), (1, 0, 1)]).save(folder / f"{split}.en-de.instances.json")
    return folder


@pytest.fixture
def dictionary(instances, tmp_path):
    files = [instances / f"train.{lang}" for lang in LINES]
    assert build_dictionary(files, ["en", "de"], tmp_path / "dict.txt") == 4 + 8 + 2
    return tmp_path / "dict.txt"


def test_dictionary_file(dictionary):
    assert list(read_lines(dictionary)) == [
        *("a 3", "b 2", "x@@ 2", "c 1", "d 1", "y 1", "é 1"),
        *("[en] 1", "[de] 1", "<mask> 1"),
    ]


def test_order_is_that_of_fairseq(instances, dictionary, tmp_path):
    other = Dictionary()
    for lang in LINES:
        Dictionary.add_file_to_dictionary(str(instances / f"train.{lang}"), other, str.split, 1)
    other.finalize(padding_factor=1)
    ours = Dictionary.load(str(dictionary))
    # fairseq counts <s>, </s> and its own end of line as the symbols they are.
    assert ours.symbols[:-3] == other.symbols
    assert [ours.index(symbol) for symbol in ("<s>", "</s>")] == [0, 2]
    assert ours.symbols[-3:] == ["[en]", "[de]", "<mask>"]


def test_order_of_languages(instances, tmp_path):
    build_dictionary([instances / "train.en"], ["de", "fr", "en"], tmp_path / "dict.txt")
    assert dictionary_words(tmp_path / "dict.txt")[-4:] == ["[de]", "[fr]", "[en]", "<mask>"]


def test_reserved_symbol_in_the_text(write, tmp_path):
    with pytest.raises(UserError, match=r"the text holds \[de\], which is reserved"):
        build_dictionary([write("train", "<s> a [de] </s>\n")], ["en", "de"], tmp_path / "dict.txt")
    assert not (tmp_path / "dict.txt").exists()


def test_unknown_tokens(write, dictionary):
    assert count_unknown(write("x", "<s> a zz </s> <s> e </s>\n<s> [de] <unk> </s>\n"), dictionary, workers=2) == 2


def test_damaged_dictionary(write):
    with pytest.raises(UserError, match=r"dict, line 2: not a dictionary entry"):
        dictionary_words(write("dict", "a 1\nb\n"))
    with pytest.raises(UserError, match=r"dict, line 3: 'a' stands in line 1 already; keep one"):
        dictionary_words(write("dict", "a 1\nb 1\na 2\n"))


@pytest.mark.slow
def test_binaries_made_by_two_workers_with_the_user_dir(instances, dictionary, tmp_path):
    output = tmp_path / "bin"
    made = binarise(instances, ["train", "test"], ("en", "de"), dictionary, output, workers=2)
    names = sorted(binary_names(["train", "test"], ("en", "de")))
    assert sorted(path.name for path in output.iterdir()) == names == sorted(path.name for path in made)
    assert (output / "dict.en.txt").read_bytes() == (output / "dict.de.txt").read_bytes() == dictionary.read_bytes()
    loaded = Dictionary.load(str(output / "dict.en.txt"))
    for split in ("train", "test"):
        assert Sidecar.load(output / f"{split}.en-de.instances.json").instances == [(0, 0, 2), (1, 0, 1)]
        for lang, lines in LINES.items():
            dataset = data_utils.load_indexed_dataset(str(output / f"{split}.en-de.{lang}"), loaded)
            assert [[loaded.symbols[index] for index in row] for row in dataset] == [
                [*line.split(), "</s>"]
                for line in lines  # the last one is fairseq's, taken off by the task
            ]
    assert not list(tmp_path.glob("*.tmp"))


def test_missing_instances(instances, dictionary, tmp_path):
    with pytest.raises(UserError, match=r"valid.en: no such file"):
        binarise(instances, ["valid"], ("en", "de"), dictionary, tmp_path / "bin")


@pytest.mark.slow
def test_failure_of_fairseq_is_one_sentence(instances, tmp_path, write):
    with pytest.raises(UserError, match="fairseq-preprocess failed with status 1") as caught:
        binarise(instances, ["test"], ("en", "de"), write("dict", "a one\n"), tmp_path / "bin")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "bin").exists() and not list(tmp_path.glob("*.tmp"))
