"""Observed words in a prepared corpus: each sign is one token, and words are those of the target."""

from __future__ import annotations

from gtransformer.lab.augmentation.observed import GAP, SEPARATOR
from gtransformer.lab.cli.augment import main as augment
from tests import raw_corpus


def split_lines(path) -> list[list[str]]:
    """The words of each sentence of a file of instances."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [sentence.split()[:-1] for line in lines for sentence in line.split("<s>")[1:]]


def words_of(subwords: list[str]) -> list[str]:
    """Whole words; only the first one of a line is truecased."""
    return " ".join(subwords).replace("@@ ", "").lower().split()


def test_signs_are_tokens(tmp_path):
    raw = raw_corpus.make_raw(tmp_path / "raw", {"train": 60, "dev": 6, "test": 7})
    assert augment(["observe", str(raw), str(tmp_path / "observed")]) == 0
    raw_corpus.run(tmp_path / "observed", tmp_path / "prepared", "--max-sentence-tokens=4000", "--moses-rules")
    words = {
        line.split()[0] for line in (tmp_path / "prepared/bin/dict.en.txt").read_text(encoding="utf-8").splitlines()
    }
    assert {SEPARATOR, GAP} <= words
    text = [
        line for line in (tmp_path / "prepared/text/train.en").read_text(encoding="utf-8").splitlines() if line != "<d>"
    ]
    sides = [split_lines(tmp_path / f"prepared/instances/train.{lang}") for lang in ("en", "de")]
    assert len(text) == len(sides[0]) == len(sides[1]) > 100
    observed = found = 0
    for line, source, target in zip(text, *sides, strict=True):
        assert source.count(SEPARATOR) == 1 and source.count(GAP) == line.count(GAP)
        shown = [word for word in words_of(source[source.index(SEPARATOR) + 1 :]) if word != GAP]
        observed, found = observed + len(shown), found + sum(word in words_of(target) for word in shown)
    assert found > 0.95 * observed > 1000
