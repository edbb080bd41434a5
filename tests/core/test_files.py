"""Reading and writing files: errors name file and line, nothing half-written is left."""

import gzip
import hashlib
import json
import lzma

import pytest

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json, read_lines, sha256, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".xz", lzma.open), (".gz", gzip.open)])
def test_lines_of_plain_and_compressed_files(tmp_path, suffix, opener):
    path = tmp_path / f"text.txt{suffix}"
    with opener(path, "wb") as stream:
        stream.write("eins\n\nzw\u00f6lf\u2028\u0085 \r drei\r\nohne Ende".encode())
    assert list(read_lines(path)) == ["eins", "", "zw\u00f6lf\u2028\u0085 \r drei", "ohne Ende"]
    with opener(path, "wb") as stream:  # as editors of Windows write it
        stream.write("\ufeff\u00e4 b\r\n\r\nc\ufeff\r".encode())
    assert list(read_lines(path)) == ["\u00e4 b", "", "c\ufeff"]


def test_sha256(tmp_path):
    (tmp_path / "data").write_bytes(bytes(range(256)) * 10000)
    assert sha256(tmp_path / "data") == hashlib.sha256(bytes(range(256)) * 10000).hexdigest()


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


def test_of_a_symbolic_link_the_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "out.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    for text in ("eins", "zwei"):  # at first the target is not there yet
        with atomic_write(link) as stream:
            stream.write(text)
        assert link.is_symlink() and target.read_text() == text
    assert names(tmp_path / "there") == ["out.txt"] and names(tmp_path) == ["link.txt", "there"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_the_old_file_stands_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_write(path) as stream:
        stream.write("half")
        raise error("stop")
    assert path.read_text() == "old" and names(tmp_path) == ["out.txt"]
    with (
        pytest.raises(UserError, match="out.txt"),
        atomic_write(path / "out.txt"),
    ):
        pass


def test_json(tmp_path):
    value = {"\u00e4": [1, 2.5, None], "b": {"c": "\u2028"}}
    write_json(tmp_path / "v.json", value)
    assert (
        read_json(tmp_path / "v.json")
        == value
        == json.loads((tmp_path / "v.json").read_text("utf-8"))
    )
