"""Texts, options and outputs of translate."""

from __future__ import annotations

from tests.bad_input.row import Row

T = "translate --model {model} --cpu --quiet {text} -o {out}"


def text(content: bytes):
    return lambda place: (place / "text").write_bytes(content)


ROWS = [
    Row("no text", f"{T.replace('{text}', '{place}/none')}", "{place}/none: no such file"),
    Row("a byte that is not UTF-8", T, "{text}, line 3: byte 0xff at column 6 is not UTF-8; convert the file to UTF-8",
        text(b"The dog.\n\nThe h\xffuse.\n")),
    Row("UTF-16", T, "{text}, line 1: the file is UTF-16 text", text("The dog.\n".encode("utf-16"))),
    Row("output onto input", T.replace("{out}", "{text}"), "{text}: is read"),
    Row("a directory as output", T.replace("{out}", "{place}"), "{place}: is a directory"),
    Row("more translations than hypotheses", f"{T} --nbest 9", "--nbest 9 is more than --beam "),
    Row("an unknown option", f"{T} --beams 4", "unrecognized arguments: --beams"),
    Row("a strategy and no rule", f"{T} --strategy sequential --context-sentences 1 --sentence-rule off",
        "--sentence-rule off: --strategy sequential"),
]  # fmt: skip
