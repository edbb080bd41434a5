"""Fetching one file by pooch: resumed after an interruption, complete or not there at all."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import BinaryIO

import pooch
from requests import Response
from requests.exceptions import ChunkedEncodingError, HTTPError, InvalidURL, RequestException

from gtransformer.errors import UserError

BLOCK = 10_000  # bytes; of what came before a break, the last block may be lost
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 4
# What may go away by itself, or by beginning anew (416); anything else (forbidden) will not.
PASSING_STATUS = (408, 416, 429, 500, 502, 503, 504)


class NotFound(UserError):
    """The address answers that it has no such file."""


def fetch(url: str, target: Path) -> Path:
    """Fetch ``url`` (http, https or file) to ``target``; returns ``target``.

    What came over http before a transfer broke off stays as ``target.part``, for the next attempt or the next run.
    Passing troubles are tried ``ATTEMPTS`` times. Raises NotFound, or UserError for anything else.
    """
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise UserError(f"{url}: no address to fetch from; it must begin with https://, http:// or file://")
    target.unlink(missing_ok=True)
    pooch.get_logger().setLevel("WARNING")  # what is fetched, and that it is tried again
    logging.getLogger("urllib3").setLevel("WARNING")  # fairseq leaves the root logger at DEBUG
    files = pooch.create(target.parent, "", registry={target.name: None}, retry_if_failed=ATTEMPTS - 1)
    files.urls[target.name] = url
    transfer = _Resuming(target.with_name(f"{target.name}.part"))
    try:
        files.fetch(target.name, downloader=_copy if scheme == "file" else transfer)
    except InvalidURL as error:
        raise UserError(f"{url}: no address to fetch from ({_problem(error)})") from None
    except RequestException as error:
        raise UserError(
            f"{url}: cannot be fetched ({_problem(error)}); run the command again, it goes on where it stopped"
        ) from None
    transfer.forget()
    return target


def _copy(url: str, target: str, files: pooch.Pooch) -> None:
    try:
        shutil.copyfile(urllib.request.url2pathname(urllib.parse.urlsplit(url).path), target)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise NotFound(f"{url}: no such file there") from None


class _Resuming(pooch.HTTPDownloader):
    """Goes on with a part if the server has still the same file: its ETag or date of change is kept beside the part."""

    def __init__(self, part: Path):
        self.part, self.version = part, part.with_name(f"{part.name}.version")
        super().__init__(sys.stderr.isatty(), BLOCK, timeout=TIMEOUT)

    def __call__(self, url: str, target: str, files: pooch.Pooch) -> None:
        with open(self.part, "ab") as stream:
            version = self.version.read_text(encoding="utf-8") if stream.tell() and self.version.is_file() else ""
            going_on = {"Range": f"bytes={stream.tell()}-", "If-Range": version} if version else {}
            self.kwargs |= {
                "headers": {"Accept-Encoding": "identity", **going_on},
                "hooks": {"response": lambda answer, **_: self._begin(url, answer, stream)},
            }
            super().__call__(url, stream, files)
        os.replace(self.part, target)

    def _begin(self, url: str, answer: Response, stream: BinaryIO) -> None:
        """Called when an answer begins: empties the part unless what comes continues it."""
        if answer.is_redirect:
            return
        if answer.status_code in (404, 410):
            raise NotFound(f"{url}: no such file there")
        if not answer.ok and answer.status_code not in PASSING_STATUS:
            raise UserError(f"{url}: the server refuses ({answer.status_code} {answer.reason})")
        if answer.status_code in (200, 416):  # the whole file; or the part is longer than the file has become
            stream.truncate(0)
        if answer.ok:
            answer.raw.headers.pop("Content-Encoding", None)  # of a packed file servers say it is; it stays packed
            found = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            self.version.write_text(found, encoding="utf-8")

    def forget(self) -> None:
        """Remove part and version; also those that an interrupted transfer of before left."""
        self.part.unlink(missing_ok=True)
        self.version.unlink(missing_ok=True)


def _problem(error: RequestException) -> str:
    """What went wrong, without what urllib3 and requests wrap around it."""
    if isinstance(error, HTTPError):
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, ChunkedEncodingError):
        return "broke off"
    root: BaseException = error
    while root.__context__ is not None:
        root = root.__context__
    return getattr(root, "strerror", None) or str(root) or type(root).__name__
