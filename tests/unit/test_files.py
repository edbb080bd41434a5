"""Reading and writing files: errors name file and line, nothing half-written is left."""

import gzip
import hashlib
import json
import lzma

import pytest

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, open_text, read_json, read_lines, sha256, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".xz", lzma.open), (".gz", gzip.open)])
def test_lines_of_plain_and_compressed_files(tmp_path, suffix, opener):
    path = tmp_path / f"text.txt{suffix}"
    with opener(path, "wb") as stream:
        stream.write("eins\n\nzw\u00f6lf\u2028\u0085 \r drei\r\nohne Ende".encode())
    lines = ["eins", "", "zw\u00f6lf\u2028\u0085 \r drei\r", "ohne Ende"]
    assert list(read_lines(path)) == lines
    with open_text(path) as stream:
        assert stream.read().split("\n") == lines


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"gut\nsch\xf6n\n")
    with pytest.raises(UserError, match=r"latin1\.txt, line 2: byte 0xf6 at column 4 is not UTF-8; convert"):
        list(read_lines(path))


@pytest.mark.parametrize("read", [lambda p: list(read_lines(p)), open_text, read_json, sha256])
def test_missing_file(tmp_path, read):
    with pytest.raises(UserError, match=r"nothing\.txt: no such file"):
        read(tmp_path / "nothing.txt")


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_damaged_compressed_files(tmp_path, suffix, compress):
    data = compress("".join(f"Zeile {i}\n" for i in range(20000)).encode())
    for damaged in (data[: len(data) // 2], b"plain text, not compressed\n"):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"text{suffix}, after line \d+: compressed data is damaged .*fetch"):
            list(read_lines(path))


def test_atomic_write(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with atomic_write(path) as stream:
        stream.write("\u00e4\n")
        assert not path.exists()
    assert path.read_bytes() == b"\xc3\xa4\n"
    assert names(path.parent) == ["out.txt"]
    with atomic_write(path, "wb") as stream:
        stream.write(b"\xff")
    assert path.read_bytes() == b"\xff"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, UserError, SystemExit])
def test_after_an_error_the_old_file_stands_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as stream:
        stream.write("half")
        raise error("stop")
    assert path.read_text() == "old" and names(tmp_path) == ["out.txt"]
    path.unlink()
    with pytest.raises(error), atomic_write(path):
        raise error("stop")
    assert names(tmp_path) == []


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out.txt: cannot be written"), atomic_write(tmp_path / "file" / "out.txt"):
        pass


def test_json(tmp_path):
    value = {"\u00e4": [1, 2.5, None], "b": {"c": "\u2028"}}
    write_json(tmp_path / "v.json", value)
    assert read_json(tmp_path / "v.json") == value == json.loads((tmp_path / "v.json").read_text("utf-8"))
    (tmp_path / "bad.json").write_text('{\n "a": 1,\n oops\n}')
    with pytest.raises(UserError, match=r"bad\.json, line 3: not valid JSON"):
        read_json(tmp_path / "bad.json")
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xf6"}')
    with pytest.raises(UserError, match=r"latin\.json: not UTF-8"):
        read_json(tmp_path / "latin.json")


def test_sha256(tmp_path):
    data = bytes(range(256)) * 10000
    (tmp_path / "data").write_bytes(data)
    assert sha256(tmp_path / "data") == hashlib.sha256(data).hexdigest()
