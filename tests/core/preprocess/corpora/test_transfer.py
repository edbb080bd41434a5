"""Transfers over http that are broken off go on, of the same file only."""

from __future__ import annotations

import gzip
import http.server
import random
import threading
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess.corpora.transfer import NotFound, fetch


class Interrupting(http.server.BaseHTTPRequestHandler):
    """Serves one file with ranges; breaks off after ``limit`` bytes of each answer."""

    body = bytes(range(256)) * 4000
    limit = 300_000
    version = '"1"'
    encoding = ""
    seen: list[str | None] = []

    def do_GET(self):
        if self.path != "/file":
            return self.send_error(404)
        wanted = self.headers.get("Range")
        self.seen.append(wanted)
        start = 0
        if wanted and self.headers.get("If-Range") == self.version:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start > len(self.body):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("ETag", self.version)
        if self.encoding:
            self.send_header("Content-Encoding", self.encoding)
        self.send_header("Content-Length", str(len(self.body) - start))
        self.end_headers()
        self.wfile.write(self.body[start : start + self.limit])

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds that pooch would have waited between attempts."""
    waited: list[float] = []
    monkeypatch.setattr("pooch.core.time.sleep", waited.append)
    return waited


@pytest.fixture
def server():
    handler = type("Handler", (Interrupting,), {"seen": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as instance:
        thread = threading.Thread(target=instance.serve_forever, daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{instance.server_port}"
        instance.shutdown()
        thread.join()


def test_interrupted_transfer_goes_on(server, waits, tmp_path: Path):
    handler, address = server
    assert fetch(f"{address}/file", tmp_path / "file").read_bytes() == handler.body
    assert handler.seen == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert waits == [1, 2, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_packed_file_stays_packed(server, waits, tmp_path: Path):
    """Servers say of what is packed on their disk that it is packed for the way; broken off, it goes on."""
    handler, address = server
    handler.body = gzip.compress(random.Random(1).randbytes(400_000))
    handler.encoding = "x-gzip"
    assert fetch(f"{address}/file", tmp_path / "file.gz").read_bytes() == handler.body
    assert handler.seen == [None, "bytes=300000-"]


def test_interrupted_transfer_of_an_earlier_run(server, waits, tmp_path: Path):
    handler, address = server
    handler.limit = 100_000
    with pytest.raises(UserError, match="broke off.*run the command again"):
        fetch(f"{address}/file", tmp_path / "file")
    assert (tmp_path / "file.part").stat().st_size == 400_000 and not (tmp_path / "file").exists()
    handler.limit = 10**9
    assert fetch(f"{address}/file", tmp_path / "file").read_bytes() == handler.body
    assert handler.seen[-1] == "bytes=400000-"


def test_file_that_changed_in_between_is_begun_anew(server, waits, tmp_path: Path):
    handler, address = server
    handler.limit = 100_000
    with pytest.raises(UserError):
        fetch(f"{address}/file", tmp_path / "file")
    handler.limit, handler.version, handler.body = 10**9, '"2"', handler.body[::-1]
    assert fetch(f"{address}/file", tmp_path / "file").read_bytes() == handler.body


def test_interrupted_copy_from_a_file_mirror(tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(Interrupting.body)
    status = source.stat()
    (tmp_path / "target.part").write_bytes(Interrupting.body[:1000])
    (tmp_path / "target.part.version").write_text(f"{status.st_size} {status.st_mtime_ns}")
    assert fetch(source.as_uri(), target).read_bytes() == Interrupting.body
    assert not list(tmp_path.glob("*.part*"))


def test_unreachable_server(waits, tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot be fetched \(Connection refused\); run the command again"):
        fetch("http://127.0.0.1:9/file", tmp_path / "file")
    assert len(waits) == 3


def test_what_is_refused_is_not_tried_again(server, waits, tmp_path: Path):
    handler, address = server
    with pytest.raises(NotFound, match="/other: no such file there"):
        fetch(f"{address}/other", tmp_path / "file")
    handler.send_error = lambda self, status: http.server.BaseHTTPRequestHandler.send_error(self, 403)
    with pytest.raises(UserError, match=r"the server refuses \(403 Forbidden\)"):
        fetch(f"{address}/other", tmp_path / "file")
    assert not waits


def test_part_that_is_longer_than_the_file_has_become(server, waits, tmp_path: Path):
    handler, address = server
    handler.limit = 100_000
    with pytest.raises(UserError):
        fetch(f"{address}/file", tmp_path / "file")
    handler.limit, handler.body = 10**9, handler.body[:1000]
    assert fetch(f"{address}/file", tmp_path / "file").read_bytes() == handler.body
    assert handler.seen[-2:] == ["bytes=400000-", None]


@pytest.mark.parametrize("address", ["/data/mirror/file", "gopher://x/file"])
def test_what_is_no_address(tmp_path: Path, address: str):
    with pytest.raises(UserError, match="no address to fetch from; it must begin with"):
        fetch(address, tmp_path / "file")
