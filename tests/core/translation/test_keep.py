"""Spans that come back as they are: which are found, which placeholder is chosen, what happens if one is lost."""

from __future__ import annotations

import re

import pytest

from gtransformer.cli.translate import main
from gtransformer.errors import UserError
from gtransformer.translation.api import GTransformer, Translation, join
from gtransformer.translation.engine import Engine, Hypothesis
from gtransformer.translation.keep import USUAL, Keep
from gtransformer.translation.lines import LIST_MARK, read_text

KEPT = {
    "See https://example.org/a_b?c=d, or www.example.org/x.": ["https://example.org/a_b?c=d", "www.example.org/x"],
    "(see http://example.org/)": ["http://example.org/"],
    "Type `ls -l | less` twice.": ["`ls -l | less`"],
    "Write to jane.doe+x@mail.example.org.": ["jane.doe+x@mail.example.org"],
    r"Open C:\Program Files\App\a.exe and \\server\share\b.": [r"C:\Program Files\App\a.exe", r"\\server\share\b"],
    "At 10:30 he said: no / yes": [],
}


@pytest.mark.parametrize("text", KEPT)
def test_usual_spans(text):
    keep = Keep(USUAL, lambda probe: True)
    replaced, spans = keep.replace(text)
    assert spans == KEPT[text] and keep.restore(replaced, spans) == text
    assert not any(span in replaced for span in spans) and keep.has_words(text)


def test_in_pieces():
    """What stands between the spans is translated; blanks, numbers and signs stay."""
    split = lambda line: line.split("; ")  # noqa: E731
    keep = Keep(USUAL, lambda probe: False)
    source = "  - See `a`, `b` (3) or www.x.org/c; then `d`."
    (line,) = read_text([source], lambda sentences: [one.split() for one in sentences], split, keep=keep)
    assert line.sentences == ["See", "3) or", "then"]
    assert line.frame == ["  - ", " `a`, `b` (", " www.x.org/c\0", " `d`."]
    assert line.pieces
    translations = [[Translation(f"{sentence.upper()}.", -1.0)] for sentence in line.sentences]
    joined = Translation("  - SEE `a`, `b` (3) OR www.x.org/c|THEN `d`.", -3.0)
    assert join(translations, line.frame, "|", ".") == [joined]


def test_what_is_lost_or_doubled_is_not_restored():
    keep = Keep(["%[a-z]"], lambda probe: True)
    text, spans = keep.replace("x %a %b")
    assert keep.restore("XQ11Z, XQ10Z", spans) == "%b, %a"
    for wrong in ("XQ10Z", text + " XQ10Z", "XQ10Z XQ12Z", ""):
        assert keep.restore(wrong, spans) is None
    assert keep.replace("XQ10Z %a") == ("XQ10Z %a", []), "a text that has placeholders of its own"
    many = " ".join(["%a"] * 200)
    assert keep.restore(*keep.replace(many)) == many
    assert Keep(["q*"], lambda probe: True).replace("abc") == ("abc", [])
    with pytest.raises(UserError, match="--keep"):
        Keep(["("], lambda probe: True)


MANUAL = [
    "# The old house", "", "Mary finds her `red book` under two trees.", "- the dog sleeps near https://example.org/a_b",
    "  1) the river and `a = b[1]` and www.example.org/c near the house", "|---|---|", "", "> the dog",
    "    `run --all`",
    "the old dog sleeps near a.b@example.org and the river", r"C:\Program Files\App\a.exe", "3,5", "🙂",
    "- ", "the dog", "jane@example.org, joe@example.org", "    the old house (http://example.org/?q=1).", "## 1. Mary",
    "* the red book; see `x`", "+ two trees",
]  # fmt: skip
SPAN = re.compile("|".join(USUAL))


def copying(instances, options, positions=None) -> list[list[Hypothesis]]:
    """What a model would find that copies its source."""
    texts = [[" ".join(sentence) for sentence in instance] for instance in instances]
    return [[Hypothesis(text, [0.0] * len(text), 0.0, [False] * len(text))] for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("placeholders", ["restored", "lost", "none pass"])
def test_a_manual(saved_model, tmp_path, capfd, monkeypatch, placeholders):
    """200 lines in, 200 out; URLs, code, addresses, paths, list marks and lines without words are unchanged."""
    if placeholders == "restored":
        monkeypatch.setattr(Engine, "translate", lambda self, *arguments: copying(*arguments))
    if placeholders != "none pass":
        monkeypatch.setattr(GTransformer, "survives", lambda self, text: True)
    lines = 10 * MANUAL
    (tmp_path / "in.md").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    line = ["--model", str(saved_model), "--cpu", "--one-document", str(tmp_path / "in.md")]
    assert main([*line, "-o", str(tmp_path / "out.md")]) == 0
    out = (tmp_path / "out.md").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(out) == len(lines) == 200
    for before, after in zip(lines, out, strict=True):
        assert SPAN.findall(after) == SPAN.findall(before) and LIST_MARK.match(after)[0] == LIST_MARK.match(before)[0]
        assert before != after or placeholders == "restored" or not any(map(str.isalpha, SPAN.sub("", before)))
        assert not re.search(r"XQ|\ue000", after)
    errors = capfd.readouterr().err
    assert ("in pieces between them: line" in errors) == (placeholders == "lost")
