"""Reading the raw corpus format: what is read and what is refused, with file and line."""

from __future__ import annotations

import lzma

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import find_splits, read_documents

GOOD = "<d>\nOne.\nTwo.\n<d>\nThree.\n"


def test_documents(write):
    source, target = write("en", GOOD), write("de", "<d>\nEins.\nZwei.\n<d>\nDrei.\n")
    assert list(read_documents(source, target)) == [[("One.", "Eins."), ("Two.", "Zwei.")], [("Three.", "Drei.")]]


def test_last_line_may_lack_its_newline_and_files_may_be_compressed(write):
    source, target = write("en.xz", lzma.compress(GOOD.encode())), write("de", GOOD.rstrip("\n"))
    assert [len(document) for document in read_documents(source, target)] == [2, 1]


def test_windows_files_with_byte_order_mark(write):
    text = "\ufeff" + GOOD.replace("\n", "\r\n")
    assert [len(document) for document in read_documents(write("en", text), write("de", GOOD))] == [2, 1]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r"])
def test_only_newlines_end_lines(write, sign):
    source = write("en", f"<d>\nOne{sign}two.\nThree.\n")
    assert [len(document) for document in read_documents(source, write("de", "<d>\na\nb\n"))] == [2]


def test_symbols_of_other_kinds_are_let_through(write):
    text = "<d>\nA <mask> and [de] and < d > and <S> and <b>bold</b>.\n"
    assert list(read_documents(write("en", text), write("de", text)))[0][0][0].startswith("A <mask> and [de]")


def test_sentence_pairs_without_documents(write):
    """Each is a document; a file that opens with <d> has documents all the same."""
    plain, marked = (write("en", "a\nb\n"), write("de", "A\nB\n")), (write("x", GOOD), write("y", GOOD))
    assert list(read_documents(*plain, sentence_pairs=True)) == [[("a", "A")], [("b", "B")]]
    assert list(read_documents(*marked, sentence_pairs=True)) == list(read_documents(*marked))
    for text, words in (("a\n<d>\nb\n", "line 2: <d>, but none opens the file"), ("", "the file is empty")):
        with pytest.raises(UserError, match=words):
            list(read_documents(write("en", text), write("de", text), sentence_pairs=True))
    with pytest.raises(UserError, match="en, line 1: a document must open the file"):
        list(read_documents(write("en", "a\nb\n"), write("de", "<d>\nb\n"), sentence_pairs=True))


def test_missing_file(write, tmp_path):
    with pytest.raises(UserError, match="nothing: no such file"):
        list(read_documents(write("en", GOOD), tmp_path / "nothing"))


def test_damaged_compression(write):
    data = lzma.compress(GOOD.encode() * 1000)[:-30]
    with pytest.raises(UserError, match="compressed data is damaged"):
        list(read_documents(write("en.xz", data), write("de", GOOD * 1000)))


def names(*splits, pair=("en", "de"), end=""):
    stem = f"concatenated_{pair[0]}2{pair[1]}"
    return [f"{stem}_{split}_{lang}.txt{end}" for split in splits for lang in pair]


def test_find_splits(write, tmp_path):
    for name in [*names("train", "dev"), *names("test", end=".xz")]:
        write(name, "")
    found = find_splits(tmp_path, "en", "de")
    assert list(found) == ["train", "valid", "test"]
    assert found["valid"][1].name == "concatenated_en2de_dev_de.txt"
    assert found["test"][0].name == "concatenated_en2de_test_en.txt.xz"


def test_opposite_direction(write, tmp_path):
    for name in names("train"):
        write(name, "")
    assert [path.name[-6:] for path in find_splits(tmp_path, "de", "en")["train"]] == ["de.txt", "en.txt"]


def test_unknown_pair_names_the_pairs_there_are(write, tmp_path):
    for name in [*names("train"), *names("test", pair=("fr", "zh"))]:
        write(name, "")
    with pytest.raises(UserError, match=r"no files for the language pair en-ru .*it has en-de, fr-zh"):
        find_splits(tmp_path, "en", "ru")


def test_one_side_missing(write, tmp_path):
    for name in names("train", "dev")[:-1]:
        write(name, "")
    with pytest.raises(UserError, match=r"concatenated_en2de_dev_de.txt: no such file, though its other side"):
        find_splits(tmp_path, "en", "de")


def test_no_directory_and_no_files(tmp_path):
    with pytest.raises(UserError, match="no such directory"):
        find_splits(tmp_path / "nothing", "en", "de")
    with pytest.raises(UserError, match="no corpus files at all"):
        find_splits(tmp_path, "en", "de")
