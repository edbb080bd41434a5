"""Fetching one file: resumed after an interruption, complete or not there at all."""

from __future__ import annotations

import http.client
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from gtransformer.errors import UserError

BLOCK = 1 << 18
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 4
# What may go away by itself; anything else (not found, forbidden) will not.
PASSING_STATUS = (408, 429, 500, 502, 503, 504)


class NotFound(UserError):
    """The address answers that it has no such file."""


def fetch(url: str, target: Path, wait: Callable[[float], None] = time.sleep) -> Path:
    """Fetch ``url`` (http, https or file) to ``target``, by way of ``target.part``; returns ``target``.

    A ``.part`` that an earlier run left is continued if the server has still the same file (its ETag or date of change
    is remembered beside it), else begun anew. Passing troubles are tried ``ATTEMPTS`` times. Raises NotFound, or
    UserError for anything else, leaving the ``.part`` for the next time.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, part)
            break
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                raise NotFound(f"{url}: no such file there") from None
            if error.code == 416:  # the part is longer than the file has become
                _forget(part)
            elif error.code not in PASSING_STATUS:
                raise UserError(f"{url}: the server refuses ({error.code} {error.reason})") from None
            problem = f"{error.code} {error.reason}"
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if isinstance(getattr(error, "reason", error), FileNotFoundError | IsADirectoryError):
                raise NotFound(f"{url}: no such file there") from None
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        if attempt == ATTEMPTS:
            raise UserError(f"{url}: cannot be fetched ({problem}); run the command again, it goes on where it stopped")
        wait(2**attempt)
    os.replace(part, target)
    _forget(part)
    return target


def _transfer(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    remembered = _version_file(part)
    version = remembered.read_text(encoding="utf-8") if have and remembered.exists() else ""
    with closing(_open(url, have if version else 0, version)) as answer:
        total = answer.total
        if not answer.continues:
            have = 0
        if answer.version:
            remembered.write_text(answer.version, encoding="utf-8")
        with open(part, "ab" if have else "wb") as stream:
            while block := answer.stream.read(BLOCK):
                stream.write(block)
                have += len(block)
                _show(url, have, total)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if total is not None and have != total:
        raise ConnectionError(f"broke off after {have} of {total} bytes")


class _Answer:
    """An open source: its bytes, from where on, how many the whole file has, and which version of it this is."""

    def __init__(self, stream: BinaryIO, continues: bool, total: int | None, version: str):
        self.stream, self.continues, self.total, self.version = stream, continues, total, version

    def close(self) -> None:
        self.stream.close()


def _open(url: str, start: int, version: str) -> _Answer:
    if urllib.parse.urlsplit(url).scheme == "file":
        return _open_file(url, start, version)
    headers = {"Range": f"bytes={start}-", "If-Range": version} if start else {}
    answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    continues = answer.status == 206
    length = answer.headers.get("Content-Length")
    total = None if length is None else int(length) + (start if continues else 0)
    return _Answer(answer, continues, total, answer.headers.get("ETag") or answer.headers.get("Last-Modified") or "")


def _open_file(url: str, start: int, version: str) -> _Answer:
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
    try:
        stream = open(path, "rb")
    except OSError as error:
        raise urllib.error.URLError(error) from None
    status = path.stat()
    present = f"{status.st_size} {status.st_mtime_ns}"
    continues = bool(start) and version == present
    stream.seek(start if continues else 0)
    return _Answer(stream, continues, status.st_size, present)


def _show(url: str, have: int, total: int | None) -> None:
    if sys.stderr.isatty():
        of = f" of {total / 1e6:.1f}" if total else ""
        print(f"\r{url.rsplit('/', 1)[-1]}: {have / 1e6:.1f}{of} MB", end="", file=sys.stderr, flush=True)


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)
