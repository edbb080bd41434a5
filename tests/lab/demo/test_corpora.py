"""The generated corpora: their bytes never change, and their text alone shows what they claim."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gtransformer.files import read_json, read_lines
from gtransformer.lab.demo.shipped import unpack
from tests.support import command

pytestmark = pytest.mark.slow

demo_corpus, reach_corpus = command("lab demo-corpus"), command("lab reach-corpus")
COMMANDS = {
    "demo": (demo_corpus, ["--documents=120"]),
    "reach": (
        reach_corpus,
        "--documents=8 --dev-documents=2 --test-documents=2 --items=24".split(),
    ),
}
SMALL = ["--documents=6", "--dev-documents=2", "--test-documents=3"]


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.*"))
    }


def read_sides(folder: Path, split: str) -> list[list[list[str]]]:
    """Return the English and the German documents of a split."""
    sides = []
    for lang in ("en", "de"):
        documents: list[list[str]] = []
        for line in read_lines(folder / f"concatenated_en2de_{split}_{lang}.txt"):
            documents.append([]) if line == "<d>" else documents[-1].append(line)
        sides.append(documents)
    return sides


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Both corpora, written by their commands."""
    made = {}
    for name, (write, options) in COMMANDS.items():
        made[name] = tmp_path_factory.mktemp(name) / "corpus"
        assert write(["--output", str(made[name]), *options]) == 0
    return made


@pytest.mark.parametrize("name", COMMANDS)
def test_the_corpus_never_changes(folders, name):
    """Published results are about these files; Python's hash order differs from run to run."""
    found = digests(folders[name])
    summary = found.pop("corpus.json")
    assert read_json(folders[name] / "corpus.json")["sha256"] == found and summary
    assert found == read_json(Path(__file__).with_name("sha256.json"))[name]


def test_seeds_and_sizes(tmp_path):
    """A larger corpus begins with the smaller one; the shipped one is that of the command."""
    for name, more in (("a", SMALL), ("b", [*SMALL, "--seed=2"]), ("whole", [])):
        assert demo_corpus(["--output", str(tmp_path / name), *more]) == 0
    first, other = digests(tmp_path / "a"), digests(tmp_path / "b")
    assert first.keys() == other.keys() and not {*first.values()} & {*other.values()}
    unpack(tmp_path / "shipped")
    whole = digests(tmp_path / "whole")
    assert digests(tmp_path / "shipped").items() <= whole.items()
    unpack(tmp_path / "fewer", documents=6, test_documents=3)
    for split, count in (("train", 6), ("test", 3)):
        for folder in ("a", "fewer"):
            for few, all_documents in zip(
                read_sides(tmp_path / folder, split),
                read_sides(tmp_path / "whole", split),
                strict=True,
            ):
                assert few == all_documents[:count]
    items = read_json(tmp_path / "fewer" / "contrastive.json")["items"]
    assert items and all(item["document"] < 3 for item in items)


def test_an_interrupted_run_is_not_taken_for_a_whole_corpus(tmp_path, monkeypatch):
    line = ["--output", str(tmp_path), *SMALL]
    assert demo_corpus(line) == 0
    monkeypatch.setattr("gtransformer.lab.demo.corpus.contrastive_set", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        demo_corpus(line)
    assert not (tmp_path / "corpus.json").exists() and not list(tmp_path.glob("*.tmp"))
