"""Mistakes that users are likely to make: one sentence that names the file or option, status 1, no
changed file.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from importlib import import_module

import pytest

from tests.commands import GENERATION, run
from tests.support import ROOT

pytestmark = pytest.mark.slow
PREPARE = "prepare {place}/raw {place}/out --workers 1 --vocabulary-size 400"
TRANSLATE = "translate --model {place}/model --cpu {place}/text -o {place}/out"
SCORE = "score {corpus} --output {place}/scores.json --hypotheses {place}/test.jsonl"
GOOD = ("<d>\nOne house.\nTwo.\n", "<d>\nEin Haus.\nZwei.\n")


def raw(en: str | bytes, de: str | bytes) -> dict[str, str | bytes]:
    """Two files of a raw corpus."""
    return {"raw/concatenated_en2de_train_en.txt": en, "raw/concatenated_en2de_train_de.txt": de}


# A command, the files that it finds, and what its message contains.
ROWS = [
    (PREPARE, {}, "{place}/raw"),
    (PREPARE, raw("<d>\na\n", "<d>\na\nb\n"), "line 2"),
    (PREPARE, raw("<d>\na\nb\n<d>\nc\n", "<d>\na\n<d>\nc\n"), "line 3"),
    (PREPARE, raw("a\n", "a\n"), "line 1"),
    (PREPARE, raw("<d>\na\nb\n", "<d>\na\nb </s>\n"), "line 3"),
    (PREPARE, raw("<d>\na\n", b"<d>\n\xfcber\n"), "UTF-8"),
    (PREPARE, raw("", ""), "empty"),
    (f"{PREPARE} -t fr", raw(*GOOD), "en-fr"),
    (f"{PREPARE} --overwrite", raw(*GOOD) | {"out/mine.txt": ""}, "{place}/out"),
    (f"{PREPARE} --bpe-codes {{place}}/codes --dictionary "
     f"{{place}}", raw(*GOOD) | {"codes": "a b\n"}, "dict.en.txt"),
    ("prepare {place}/raw {place}/out --workers 1 --vocabulary {place}", raw(*GOOD), "{place}"),
    (TRANSLATE.replace("/text", "/none"), {}, "{place}/none"),
    (TRANSLATE.replace("/model", "/none"), {}, "{place}/none"),
    (TRANSLATE, {"text": b"The dog.\nThe h\xffuse.\n"}, "line 2"),
    (TRANSLATE.replace("/out", "/text"), {}, "is read"),
    (TRANSLATE, {"model/manifest.json": "{"}, "manifest.json"),
    (TRANSLATE.replace("/text", "/a.srt"), {"a.srt": b"00:01 --> 00:02\n\xe9\n"}, "{place}/a.srt"),
    (TRANSLATE.replace("/text", "/a.srt"), {"a.srt": "One.\n"}, "{place}/a.srt"),
    (TRANSLATE.replace("/text", "/a.srt --format json"), {}, "--format json"),
    (TRANSLATE.replace("/text", "/a.vtt --nbest 2"), {}, "--nbest"),
    (f"{TRANSLATE} --beam 0", {}, "--beam 0"),
    (f"{TRANSLATE} --strategy sequential --sentence-rule off", {}, "--sentence-rule off"),
    (SCORE, {}, "{place}/test.jsonl"),
    (SCORE, {"test.jsonl": "{\n"}, "test.jsonl"),
    (SCORE, {"test.jsonl": ""}, "test.jsonl"),
    ("score --reference-file {place}/text --hypotheses {place}/text "
     "--comet", {"text": "a\n"}, "--source-file"),
    ("score {corpus} --reference release --hypotheses "
     "{place}/text", {"text": "a\n"}, "raw reference"),
    ("score --reference-file {place}/text --hypotheses {place}/text "
     "{place}/text", {"text": "a\n"}, "same name"),
    (SCORE.replace("{corpus}", "{place}"), {"test.jsonl": ""}, "{place}"),
    ("contrastive {corpus} --cpu --path {place}/none.pt --output {place}/out --items "
     "{place}/none.json", {}, "none"),
    ("generative --items {place}/items --output {place}/out --hypotheses {place}/text -t zh",
     {"items": '[{"expected": "er", "rule": "x"}]', "text": "a\n"}, "-t zh"),
    ("average {place} --last 2 -o {place}/out", {}, "{place}"),
    ("export {place}/none {place}/out", {}, "{place}/none"),
]  # fmt: skip


def everything(place) -> dict[str, bytes]:
    """All files with what they hold, but locks, which hold nothing."""
    return {
        str(path): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize(("line", "files", "said"), ROWS)
def test_bad_input(saved_model, tmp_path, capsys, monkeypatch, line, files, said):
    if line.startswith("translate"):
        shutil.copytree(saved_model, tmp_path / "model")
        (tmp_path / "text").write_text("The old dog sleeps.\n", encoding="utf-8")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before, paths = (
        everything(tmp_path),
        {"place": tmp_path, "corpus": ROOT / "tests" / "prepared" / "len48"},
    )
    command, *words = shlex.split(line.format(**paths))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    try:
        status = import_module(f"gtransformer.cli.{command}").main(words)
    except SystemExit as end:
        status = end.code
    assert status not in (0, None)
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"[\w./ -]*error: ", last) and said.format(**paths) in last
    assert everything(tmp_path) == before


def test_fairseqs_commands(saved_model):
    """Their last line is the sentence, without a traceback."""
    data = saved_model.parent / "prepared" / "bin"
    output = run("generate", data, *GENERATION, "--path", "none.pt", status=1)
    assert "none.pt" in output.splitlines()[-1] and "Traceback" not in output
