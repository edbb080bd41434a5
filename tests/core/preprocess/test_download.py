"""gtransformer corpus get against mirrors on this machine, over file://, and transfers that break off."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import lzma
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.preprocess import download as module
from gtransformer.preprocess.download import NotFound, download, fetch, file_names
from tests.processes import run_group

pytestmark = pytest.mark.slow


def content(name: str) -> bytes:
    """A tiny corpus: documents of two and one sentences, different in every file."""
    return f"<d>\n{name} one\n{name} two\n<d>\n{name} three\n".encode()


def sums_of(directory: Path) -> str:
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(directory.iterdir())
    )


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror" / "news"
    folder.mkdir(parents=True)
    for name in file_names():
        (folder / name).write_bytes(content(name))
    return folder.parent


@pytest.fixture
def no_pins(monkeypatch):
    """For made-up files under the names of pinned ones."""
    monkeypatch.setattr(module, "pins", lambda corpus: Path("none"))


def command(corpus: str, data: Path, mirror: str) -> subprocess.CompletedProcess:
    return run_group(
        [sys.executable, "-m", "gtransformer.cli.download", corpus],
        120,
        env=os.environ | {"DATA": str(data), "GTRANSFORMER_MIRROR": mirror},
        stderr=subprocess.PIPE,
    )


def assert_complete(target: Path) -> None:
    assert {path.name for path in target.iterdir()} == set(file_names())
    assert all((target / name).read_bytes() == content(name) for name in file_names())


def test_command_fetches_and_records_then_verifies(mirror: Path, tmp_path: Path):
    data = tmp_path / "data"
    first = command("news", data, mirror.as_uri())
    assert first.returncode == 0, first.stderr
    assert_complete(data / "news")
    assert "train: 2 documents, 3 sentences" in first.stdout
    assert "6 files, so they are not verified" in first.stdout
    assert "concatenated_en2de_train_en.txt" in (data / "news.sha256").read_text()
    assert not (data / ".news.download").exists()

    second = command("news", data, "file:///nowhere")  # nothing is fetched
    assert second.returncode == 0 and "exists, 6 of 6 checksums known and right" in second.stdout

    (data / "news" / file_names()[0]).write_text("changed\n")
    third = command("news", data, mirror.as_uri())
    assert third.returncode == 1
    assert third.stderr.splitlines()[-1].startswith("error: ") and "Traceback" not in third.stderr


def test_compressed_files_with_a_list_of_checksums(mirror: Path, tmp_path: Path, capsys):
    for number, name in enumerate(file_names()):
        ending, compress = ((".xz", lzma.compress), (".gz", gzip.compress))[number % 2]
        (mirror / "news" / f"{name}{ending}").write_bytes(compress(content(name)))
        (mirror / "news" / name).unlink()
    (mirror / "news" / "SHA256SUMS").write_text(sums_of(mirror / "news"))
    assert_complete(download("news", tmp_path / "data", mirror.as_uri()))
    assert "unverified" not in capsys.readouterr().out
    assert_complete(download("news", tmp_path / "again", os.path.relpath(mirror)))


def test_wrong_checksum_at_the_source_leaves_nothing(mirror: Path, tmp_path: Path):
    (mirror / "news" / "SHA256SUMS").write_text(sums_of(mirror / "news"))
    victim = file_names()[3]
    (mirror / "news" / victim).write_bytes(content(victim).replace(b"one", b"eno"))
    data = tmp_path / "data"
    with pytest.raises(UserError, match=f"{victim}: wrong checksum"):
        download("news", data, mirror.as_uri())
    assert not (data / "news").exists() and not list(data.rglob(f"files/{victim}"))
    (mirror / "news" / victim).write_bytes(content(victim))  # put right, the next run succeeds
    assert_complete(download("news", data, mirror.as_uri()))


def test_list_of_the_whole_mirror(mirror: Path, tmp_path: Path):
    lines = sums_of(mirror / "news").replace("  ", "  news/")
    (mirror / "SHA256SUMS").write_text(lines.replace(lines[:8], "00000000"))
    with pytest.raises(UserError, match="wrong checksum"):
        download("news", tmp_path / "data", mirror.as_uri())


def test_wrong_pinned_checksum_unless_accepted(mirror: Path, tmp_path: Path, capsys):
    (mirror / "news").rename(mirror / "ted")  # TED's dev and test sets are pinned
    assert set(module.read_sums(module.pins("ted"))) == {name for name in file_names() if "train" not in name}
    data = tmp_path / "data"
    with pytest.raises(UserError, match=r"_dev_en.txt: wrong checksum.*configs/checksums/ted.sha256.*--accept-changed"):
        download("ted", data, mirror.as_uri())
    assert not (data / "ted").exists() and not (data / ".ted.download").exists()
    assert_complete(download("ted", data, mirror.as_uri(), accept_changed=True))
    assert "wrong checksum" in capsys.readouterr().err


def test_changed_since_the_first_download(mirror: Path, tmp_path: Path):
    data = tmp_path / "data"
    target = download("news", data, mirror.as_uri())
    for path in target.iterdir():
        path.unlink()
    target.rmdir()
    victim = mirror / "news" / file_names()[1]
    victim.write_bytes(victim.read_bytes().replace(b"three", b"thrice"))
    with pytest.raises(UserError, match=f"{victim.name}: wrong checksum"):
        download("news", data, mirror.as_uri())


def test_missing_file_and_missing_corpus(mirror: Path, tmp_path: Path):
    (mirror / "news" / "concatenated_en2de_test_de.txt").unlink()
    with pytest.raises(UserError, match="lacks concatenated_en2de_test_de.txt"):
        download("news", tmp_path / "data", mirror.as_uri())
    with pytest.raises(UserError, match="neither a folder ted"):
        download("ted", tmp_path / "data", mirror.as_uri())
    assert not (tmp_path / "data" / "news").exists() and not (tmp_path / "data" / "ted").exists()


def test_sides_of_unequal_length(mirror: Path, tmp_path: Path):
    path = mirror / "news" / "concatenated_en2de_dev_de.txt"
    path.write_bytes(path.read_bytes() + b"one more\n")
    with pytest.raises(UserError, match="dev_en.txt, line 5: "):
        download("news", tmp_path / "data", mirror.as_uri())


def test_damaged_compression(mirror: Path, tmp_path: Path):
    name = file_names()[0]
    (mirror / "news" / f"{name}.xz").write_bytes(lzma.compress(content(name))[:-9])
    (mirror / "news" / name).unlink()
    with pytest.raises(UserError, match=f"{name}.xz: is damaged"):
        download("news", tmp_path / "data", mirror.as_uri())
    assert not list((tmp_path / "data").rglob(name))


def zip_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("news/concatenated_en2de_train_fr.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return buffer.getvalue()


@pytest.mark.usefixtures("no_pins")
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archive_with_hostile_names_stays_inside(tmp_path: Path, kind: str):
    files = {f"../../news/../{name}": content(name) for name in file_names()}
    place = tmp_path / "mirror"
    place.mkdir()
    (place / f"news.{kind}").write_bytes((zip_of if kind == "zip" else tar_of)(files))
    before = set(tmp_path.rglob("*"))
    target = download("news", tmp_path / "deep" / "er" / "data", place.as_uri())
    assert_complete(target)
    new = set(tmp_path.rglob("*")) - before
    assert all(path.is_relative_to(tmp_path / "deep") for path in new)


@pytest.mark.usefixtures("no_pins")
def test_archive_of_a_repository_with_inner_archives(tmp_path: Path):
    ted = zip_of({name: content(name) for name in file_names()})
    other = zip_of({name: b"<d>\nnot this one\n" for name in file_names()})
    news = {f"repo-master/data/news/{name}.gz": gzip.compress(content(name)) for name in file_names()}
    source = tmp_path / "master.zip"
    source.write_bytes(
        zip_of({"repo-master/README": b"united", "repo-master/data/ted.zip": ted, "repo-master/eu.zip": other} | news)
    )
    for corpus in ("ted", "news"):
        assert_complete(download(corpus, tmp_path / "data", source.as_uri()))
    with pytest.raises(UserError, match="lacks concatenated_en2de_train_en.txt"):
        download("europarl", tmp_path / "data", source.as_uri())


def test_damaged_archive_is_fetched_anew(mirror: Path, tmp_path: Path):
    whole = zip_of({name: content(name) for name in file_names()})
    source = tmp_path / "news.zip"
    source.write_bytes(whole[:-40])
    with pytest.raises(UserError, match="damaged or no archive"):
        download("news", tmp_path / "data", source.as_uri())
    source.write_bytes(whole)
    assert_complete(download("news", tmp_path / "data", source.as_uri()))


def test_files_of_another_source_are_fetched_anew(mirror: Path, tmp_path: Path):
    incomplete = tmp_path / "incomplete"
    shutil.copytree(mirror, incomplete)
    first, *_, last = file_names()
    (incomplete / "news" / first).write_text("<d>\nother\n")
    (incomplete / "news" / last).unlink()
    with pytest.raises(UserError, match=f"lacks {last}"):
        download("news", tmp_path / "data", incomplete.as_uri())
    assert_complete(download("news", tmp_path / "data", mirror.as_uri()))


class Interrupting(http.server.BaseHTTPRequestHandler):
    """Serves one file, of which each answer has ``limits.pop(0)`` bytes at most, and says that it is packed."""

    body = gzip.compress(random.Random(1).randbytes(400_000))
    limits: list[int] = []
    refusal = 404

    def do_GET(self):
        if self.path != "/file.gz":
            return self.send_error(self.refusal)
        self.send_response(200)
        self.send_header("Content-Encoding", "x-gzip")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body[: self.limits.pop(0)])

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds that would have been waited between attempts."""
    waited: list[float] = []
    monkeypatch.setattr("gtransformer.preprocess.download.time.sleep", waited.append)
    return waited


@pytest.fixture
def server():
    handler = type("Handler", (Interrupting,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as instance:
        thread = threading.Thread(target=instance.serve_forever, args=[0.01], daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{instance.server_port}"
        instance.shutdown()
        thread.join()


def test_a_transfer_that_broke_off_is_tried_again(server, waits, tmp_path: Path):
    """What is packed on the server's disk stays packed, though it says that it is packed for the way."""
    handler, address = server
    handler.limits = [1000, 300_000, 10**9]
    assert fetch(f"{address}/file.gz", tmp_path / "file").read_bytes() == handler.body
    assert waits == [1, 2]
    handler.limits = [1000] * 4
    with pytest.raises(UserError, match="/file.gz: cannot be fetched"):
        fetch(f"{address}/file.gz", tmp_path / "other")


def test_unreachable_server(waits, tmp_path: Path):
    with pytest.raises(UserError, match="Connection refused"):
        fetch("http://127.0.0.1:9/file", tmp_path / "file")
    assert len(waits) == 3


def test_what_is_refused_is_not_tried_again(server, waits, tmp_path: Path):
    handler, address = server
    with pytest.raises(NotFound, match="/other"):
        fetch(f"{address}/other", tmp_path / "file")
    handler.refusal = 403
    with pytest.raises(UserError, match="403"):
        fetch(f"{address}/other", tmp_path / "file")
    assert not waits


@pytest.mark.parametrize("address", ["/data/mirror/file", "gopher://x/file"])
def test_what_is_no_address(tmp_path: Path, address: str):
    with pytest.raises(UserError, match="https://"):
        fetch(address, tmp_path / "file")
