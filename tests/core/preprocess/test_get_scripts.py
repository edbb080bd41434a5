"""The scripts that download benchmark corpora, with a curl that copies files of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gtransformer.preprocess.corpus import find_splits, read_documents

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
TEXT = "<d>\n{0} one.  \n{0} two. \n<d>\n{0} three.\n"


@pytest.fixture
def get(tmp_path):
    """Runs a script on made-up files at the published places; returns it when it has ended."""
    published = tmp_path / "published"
    for folder in ("IWSLT2017", "NC-2016", "Europarl7"):
        (published / folder).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            for lang in ("en", "de"):
                path = published / folder / f"concatenated_en2de_{split}_{lang}.txt"
                path.write_text(TEXT.format(f"{split} {lang}"))
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    curl.write_text(f'#!/bin/sh\nfor url; do :; done\ncp "{published}/${{url#*/data/}}" "$6"\n')
    curl.chmod(0o755)

    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{curl.parent}:{os.environ['PATH']}",
        "DATA": str(tmp_path / "data"),
        "GTRANSFORMER_VENV": str(tmp_path / "venv"),
    }
    stamp = f"source {SCRIPTS / 'common.sh'}; setup_fingerprint >$VENV/setup.stamp"
    subprocess.run(["bash", "-c", stamp], env=environment, check=True)

    def run(corpus: str, *arguments: str) -> subprocess.CompletedProcess:
        command = ["bash", str(SCRIPTS / f"get_{corpus}.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    return run


def test_news(get, tmp_path):
    done = get("news")
    assert done.returncode == 0, done.stderr
    splits = find_splits(tmp_path / "data" / "news", "en", "de")
    for name, split in (("train", "train"), ("valid", "dev"), ("test", "test")):
        texts = [[f"{split} {lang} {number}." for number in ("one", "two", "three")] for lang in ("en", "de")]
        pairs = list(zip(*texts, strict=True))
        assert list(read_documents(*splits[name])) == [pairs[:2], pairs[2:]]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["news"]


@pytest.mark.parametrize(("corpus", "arguments"), [("ted", []), ("europarl", ["en", "de"])])
def test_wrong_checksums(get, tmp_path, corpus, arguments):
    done = get(corpus, *arguments)
    assert done.returncode != 0 and "concatenated_en2de_dev_en.txt: FAILED" in done.stdout
    assert not (tmp_path / "data" / corpus).exists()
