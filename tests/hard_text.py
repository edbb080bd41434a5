"""Text files with everything that a user's file may hold."""

from __future__ import annotations

import random

from tests.saved_model import WORDS

STRANGE = (
    "Emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 and a flag \U0001f1e9\U0001f1ea.",
    "\u0627\u0644\u0628\u064a\u062a \u0627\u0644\u0642\u062f\u064a\u0645 \u0642\u0631\u064a\u0628.",
    "\u200f\u05e9\u05dc\u05d5\u05dd, the \u202bmixed\u202c direction.",
    "A bell \x07, an escape \x1b[31m, a form feed \x0c and a null \x00 inside.",
    "Next line \x85 line separator \u2028 paragraph separator \u2029 end.",
    "Tab\tseparated\tvalues\t.",
    "carriage return at the end\r",
    "return\rin the middle",
    "<s> the house </s> <mask> [de] <pad> <unk> @@ the@@ <d> here",
    "<d>not a mark",
    "@@",
    "\ufeffbyte order mark",
    "e\u0301 combining, \u1e9e, \u01c5, \u00ad soft hyphen",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
    "a" * 300,
    ". . . ! ? ...",
    "\"'`\u201e\u201c\u00ab\u00bb",
)
INVISIBLE = ("", "", "   ", "\u200b", "\x07\x08", "\u00a0\u2003", "\r")


def hard_lines(lines: int, longest: int, long_sentence: int) -> list[str]:
    """So many lines: documents of 1 to ``longest`` lines, marks and blank lines (also several)
    between them, strange lines among plain ones, and one sentence of ``long_sentence`` words.
    """
    draw = random.Random(1)

    def sentence() -> str:
        if draw.random() < 0.05:
            return draw.choice(STRANGE)
        return " ".join(draw.choices(WORDS["en"], k=draw.randint(1, 12)))

    documents = [
        [sentence() for _ in range(longest)],
        [" ".join(draw.choices(WORDS["en"], k=long_sentence))],
    ]
    documents += [[text] for text in STRANGE]
    result: list[str] = []
    while len(result) < lines:
        document = (
            documents.pop()
            if documents
            else [sentence() for _ in range(min(longest, draw.choice((1, 2, 3, 8, 30, 100))))]
        )
        result += document
        result += draw.choice((["<d>"], [draw.choice(INVISIBLE)], ["", "<d>", ""], [" <d> "]))
    return result[:lines]
