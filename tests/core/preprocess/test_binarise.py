"""The dictionary, and binaries read back with fairseq."""

from __future__ import annotations

import shutil

import pytest
from fairseq.data import Dictionary

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.preprocess.instances import binarise, count_words, write_dictionary
from tests.commands import run
from tests.support import write_lines

LINES = {
    "en": ["<s> b a </s> <s> a c </s>", "<s> x@@ y </s>"],
    "de": ["<s> b d </s> <s> a </s>", "<s> x@@ é </s>"],
}


@pytest.fixture
def instances(tmp_path):
    folder = tmp_path / "instances"
    for split in ("train", "test"):
        for lang, lines in LINES.items():
            write_lines(folder / f"{split}.{lang}", lines)
        InstanceIndex(split, "en", "de", 2, [(0, 0, 2), (1, 0, 1)]).save(
            folder / f"{split}.en-de.instances.json"
        )
    return folder


@pytest.fixture
def dictionary(instances, tmp_path):
    counts = count_words([instances / f"train.{lang}" for lang in LINES])
    write_dictionary(counts, ["de", "fr", "en"], tmp_path / "dict.txt")
    return tmp_path / "dict.txt"


def test_order_is_that_of_fairseq(instances, dictionary, tmp_path):
    other = Dictionary()
    for lang in LINES:
        Dictionary.add_file_to_dictionary(str(instances / f"train.{lang}"), other, str.split, 1)
    other.finalize(padding_factor=1)
    ours = Dictionary.load(str(dictionary))
    # fairseq counts <s>, </s> and its own end of line as the symbols they are.
    assert ours.symbols[:-4] == other.symbols and ours.count[4:7] == [3, 2, 2]
    assert [ours.index(symbol) for symbol in ("<s>", "</s>")] == [0, 2]
    assert ours.symbols[-4:] == ["[de]", "[fr]", "[en]", "<mask>"]


def test_symbols_of_a_given_dictionary_move_to_the_end(tmp_path):
    words = ["\u2581Das", "[cs_CZ]", "\u2581Haus", "<mask>"]
    write_dictionary(dict.fromkeys(words, 1), ["ar_AR", "cs_CZ"], tmp_path / "dict.txt")
    assert dictionary_words(tmp_path / "dict.txt") == [
        "\u2581Das",
        "\u2581Haus",
        "[ar_AR]",
        "[cs_CZ]",
        "<mask>",
    ]


@pytest.mark.slow
def test_binaries_are_those_of_fairseq_preprocess(instances, dictionary, tmp_path):
    """File by file, with two dictionaries, and words that they lack."""
    (instances / "test.de").write_text("<s> b zz </s> <s> <unk> </s>\n<s> [de] e </s>\n")
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "dict.de.txt"
    other.write_text("b 7\na 3\n[de] 1\n")
    shutil.copy(dictionary, tmp_path / "bin" / "dict.en.txt")
    unknown = binarise(instances, ["train", "test"], ("en", "de"), tmp_path / "bin", workers=2)
    assert unknown == {"train": {"en": 0, "de": 3}, "test": {"en": 0, "de": 2}}
    run(
        "preprocess", "--task=translation_doc", "-s", "en", "-t", "de", "--destdir",
        tmp_path / "fairseq", "--srcdict",
        dictionary, "--tgtdict", other, "--trainpref", instances / "train", "--testpref",
        instances / "test",
    )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "bin").iterdir())
    assert len(names) == 2 + 2 * 5
    for name in names:
        if name.endswith(".json"):
            assert InstanceIndex.load(tmp_path / "bin" / name).instances == [(0, 0, 2), (1, 0, 1)]
        else:
            assert (tmp_path / "bin" / name).read_bytes() == (
                tmp_path / "fairseq" / name
            ).read_bytes(), name
