"""Texts, options and outputs of translate."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.bad_input.row import Row

T = "translate --model {model} --cpu --quiet {text} -o {out}"
UNFINISHED = {"key": {}, "bytes": 0, "input_sha256": "0", "place": {"lines": 0, "documents": 0, "sentences": 0}}


def text(content: bytes):
    return lambda place: (place / "text").write_bytes(content)


def unfinished(place: Path, **state: object) -> None:
    (place / "out.part").write_bytes(b"")
    (place / "out.part.json").write_text(json.dumps(UNFINISHED | state), encoding="utf-8")


def other_text(place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "text").write_text("A book.\n", encoding="utf-8")


ROWS = [
    Row("no text", f"{T.replace('{text}', '{place}/none')}", "{place}/none: no such file"),
    Row("a directory as text", T.replace("{text}", "{place}"), "{place}: cannot be read (Is a directory)"),
    Row("a byte that is not UTF-8", T, "{text}, line 3: byte 0xff at column 6 is not UTF-8; convert the file to UTF-8",
        text(b"The dog.\n\nThe h\xffuse.\n")),
    Row("UTF-16", T, "{text}, line 1: the file is UTF-16 text", text("The dog.\n".encode("utf-16"))),
    Row("a cut gzip file", T.replace("{text}", "{place}/text.gz"), "text.gz, after line 0: compressed data is damaged",
        lambda place: (place / "text.gz").write_bytes(gzip.compress(b"The dog.\n" * 999)[:30])),
    Row("output onto input", T.replace("{out}", "{text}"), "input and output are the same file"),
    Row("a new start of nothing", "translate --model {model} {text} --restart", "name it with -o"),
    Row("the directory of the text as output", T.replace("{out}", "{place}"), "text: its translation would take the"),
    Row("output through a file", T.replace("{out}", "{text}/out"), "{text}/out: cannot be written"),
    Row("two texts, one output", f"{T} {{place}}/other/text", "2 files: their translations need a directory; give",
        lambda place: (other_text(place), (place / "out").write_text(""))),
    Row("two texts of a name", f"{T} {{place}}/other/text", "another of the files is called text, too", other_text),
    Row("a text and a pipe", f"{T} -", "2 files: neither standard input nor"),
    Row("a text and none", f"{T} {{place}}/none", "{place}/none: no such file"),
    Row("no beam", f"{T} --beam 0", "--beam 0: must be at least 1"),
    Row("a beam that is no number", f"{T} --beam five", "argument --beam: invalid int value: 'five'"),
    Row("more translations than hypotheses", f"{T} --nbest 9", "--nbest 9 is more than --beam "),
    Row("no tokens in a batch", f"{T} --max-tokens 0", "--max-tokens 0: must be at least 1"),
    Row("negative length", f"{T} --max-len-a=-1", "--max-len-a -1.0: must not be negative"),
    Row("no room for a word", f"{T} --max-len-a 0 --max-len-b 0", "leaves no word"),
    *(
        Row(f"{option} {value}", f"{T} --{option} {value}", f"--{option} {value}: give a number")
        for option in ("lenpen", "unkpen", "max-len-a", "max-len-b")
        for value in ("nan", "inf")
    ),
    Row("an unknown precision", f"{T} --precision float8", "argument --precision: invalid choice: 'float8'"),
    Row("an unknown format", f"{T} --format xml", "argument --format: invalid choice: 'xml'"),
    Row("an unknown option", f"{T} --beams 4", "unrecognized arguments: --beams"),
    Row("a strategy and no rule", f"{T} --strategy sequential --context-sentences 1 --sentence-rule off",
        "--sentence-rule off: --strategy sequential"),
    Row("a strategy without context", f"{T} --strategy sequential --context-sentences 0",
        "--context-sentences 0: --strategy sequential"),
    Row("no first pass", f"{T} --first-pass /none", "/none: no such file"),
    Row("begun by another model", T, "out.part: begun by an interrupted run with another model or other options; run",
        unfinished),
    Row("a note of an interruption, damaged", T, "out.part.json, line 1: not valid JSON",
        lambda place: (place / "out.part.json").write_text("{")),
]  # fmt: skip
