"""Spans that come back as they are: which are found, which placeholder is chosen, what happens if
one is lost.
"""

from __future__ import annotations

import re

import pytest

from gtransformer.translation.api import GTransformer
from gtransformer.translation.engine import Engine, Hypothesis
from gtransformer.translation.keep import PLACEHOLDERS, USUAL, Keep
from gtransformer.translation.lines import LIST_MARK
from tests.support import command, write_lines

main = command("translate")


KEPT = {
    "See https://example.org/a_b?c=d, or www.example.org/x.": [
        "https://example.org/a_b?c=d",
        "www.example.org/x",
    ],
    "(see http://example.org/)": ["http://example.org/"],
    "Type `ls -l | less` twice.": ["`ls -l | less`"],
    "Type ``ls -l`` twice.": ["``ls -l``"],
    "Write to jane.doe+x@mail.example.org.": ["jane.doe+x@mail.example.org"],
    r"Open C:\Program Files\App\a.exe and \\server\share\b.": [
        r"C:\Program Files\App\a.exe",
        r"\\server\share\b",
    ],
    "At 10:30 he said: no / yes": [],
}


@pytest.mark.parametrize("text", KEPT)
def test_usual_spans(text):
    keep = Keep(USUAL, lambda probe: True)
    replaced, spans = keep.replace(text)
    assert spans == KEPT[text] and keep.restore(replaced, spans) == (text, False)
    assert not any(span in replaced for span in spans) and keep.has_words(text)


def test_the_first_placeholder_that_survives():
    for number, candidate in enumerate(PLACEHOLDERS):
        begin = candidate[0]
        keep = Keep(["%s"], lambda probe, begin=begin: probe[0] == begin)
        assert (
            keep.replace("a %s b %s")[0] == f"a {candidate.format(10)} b {candidate.format(11)}"
        ), number
    asked = []
    keep = Keep(["%s"], lambda probe: asked.append(probe))
    assert keep.replace("a %s b") == keep.replace("a %s b") == ("a b", ["%s"])
    assert keep.restore("x y", ["%s"]) == ("x y %s", True), "nothing stands for it, nothing is lost"
    assert len(asked) == len(PLACEHOLDERS), "it is chosen once"


def test_what_is_lost_is_at_the_end():
    keep = Keep(["%[a-z]"], lambda probe: True)
    text, spans = keep.replace("x %a %b")
    assert keep.restore(text, spans) == ("x %a %b", False)
    assert keep.restore("XQ11Z, XQ10Z", spans) == ("%b, %a", False)
    assert keep.restore("XQ10Z XQ12Z.", spans) == ("%a . %b", True), "one that the model made up"
    assert keep.replace("XQ10Z %a") == ("XQ10Z %a", []), "a text that has placeholders of its own"
    many = " ".join(["%a"] * 200)
    assert keep.restore(*keep.replace(many)) == (many, False)
    for survives in (True, False):
        keep = Keep(["q*"], lambda probe, survives=survives: survives)
        assert keep.replace("abc d") == ("abc d", [])
    assert keep.replace("abc qq d") == ("abc d", ["qq"])


MANUAL = [
    "# The old house", "", "Mary finds her `red book` under two trees.", "- the dog sleeps near https://example.org/a_b",
    "  1) the river and `a = b[1]` and www.example.org/c near the "
    "house", "|---|---|", "", "> the dog",
    "    `run --all`",
    "the old dog sleeps near a.b@example.org and the river", r"C:\Program "
                                                             r"Files\App\a.exe", "3,5", "🙂",
    "- ", "jane@example.org, joe@example.org", "    the old house "
                                                          "(http://example.org/?q=1).",
                                                          "## 1. Mary",
    "```sh", "ls  -l # the dog", "```",
]  # fmt: skip
SPAN = re.compile("|".join(USUAL))


def copying(instances, options, positions=None) -> list[list[Hypothesis]]:
    """What a model would find that copies its source."""
    texts = [[" ".join(sentence) for sentence in instance] for instance in instances]
    return [[Hypothesis(text, [0.0] * len(text), 0.0, [False] * len(text))] for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("placeholders", ["restored", "lost"])
def test_a_manual(saved_model, tmp_path, capfd, monkeypatch, placeholders):
    """200 lines in, 200 out; URLs, code, addresses, paths, list marks and lines without words are
    unchanged.
    """
    if placeholders == "restored":
        monkeypatch.setattr(Engine, "translate", lambda self, *arguments: copying(*arguments))
    monkeypatch.setattr(GTransformer, "survives", lambda self, text: True)
    lines = 10 * MANUAL
    write_lines(tmp_path / "in.md", lines)
    line = ["--model", str(saved_model), "--cpu", "--one-document", str(tmp_path / "in.md")]
    assert main([*line, "-o", str(tmp_path / "out.md")]) == 0
    out = (tmp_path / "out.md").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(out) == len(lines) == 200
    for before, after in zip(lines, out, strict=True):
        assert sorted(SPAN.findall(after)) == sorted(SPAN.findall(before))
        assert LIST_MARK.match(after)[0] == LIST_MARK.match(before)[0]
        code = before in MANUAL[-3:]
        words = not code and any(map(str.isalpha, SPAN.sub("", before)))
        assert before == after if not words else before != after or placeholders == "restored"
        assert not re.search(r"XQ|\ue000", after)
    errors = capfd.readouterr().err
    assert ("are written at the end" in errors) == (placeholders == "lost")
