"""Preparing files with both sides gives byte for byte what the same sentences give as plain text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from gtransformer.cli.prepare import main
from gtransformer.files import sha256
from gtransformer.preprocess.corpus import find_splits
from tests.raw_corpus import OPTIONS, documents, run

FOLDERS = ("text", "tok", "instances", "bin")


def tmx(pairs: list[list[tuple[str, str]]]) -> str:
    units = [
        f'<tu><prop type="x-document">d{number}</prop><tuv xml:lang="de-DE"><seg>{escape(de)}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>{escape(en)}</seg></tuv></tu>\n'
        for number, document in enumerate(pairs)
        for en, de in document
    ]
    return f'<tmx version="1.4"><header/><body>\n{"".join(units)}</body></tmx>\n'


def jsonl(pairs: list[list[tuple[str, str]]]) -> str:
    rows = [{"docid": n, "translation": {"de": de, "en": en}} for n, one in enumerate(pairs) for en, de in one]
    return "".join(json.dumps(row) + "\n" for row in rows)


def tsv(pairs: list[list[tuple[str, str]]]) -> str:
    return "ref\tdocid\tsrc\n" + "".join(f"{de}\t{n}\t{en}\n" for n, one in enumerate(pairs) for en, de in one)


@pytest.fixture(scope="module")
def formats(raw, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("formats") / "raw"
    folder.mkdir()
    for split, name, write in (("train", "train.tmx", tmx), ("dev", "dev.jsonl", jsonl), ("test", "test.tsv", tsv)):
        sides = (documents(raw / f"concatenated_en2de_{split}_{lang}.txt") for lang in ("en", "de"))
        pairs = [list(zip(*both, strict=True)) for both in zip(*sides, strict=True)]
        (folder / name).write_text(write(pairs), encoding="utf-8", newline="")
    return folder


def checksums(output: Path) -> dict[str, str]:
    files = [path for name in FOLDERS for path in sorted((output / name).iterdir())]
    return {str(path.relative_to(output)): sha256(path) for path in files if path.suffix != ".log"}


def test_same_as_plain_text(formats, prepared, tmp_path, capsys):
    run(formats, tmp_path / "out")
    assert checksums(tmp_path / "out") == checksums(prepared) and len(checksums(prepared)) > 15
    assert "test.tsv: 2 sentences without text (sentence " in capsys.readouterr().err
    run(formats, tmp_path / "out")
    assert capsys.readouterr().err.count("done before, kept") > 10


def test_the_other_direction_is_cleaned_again(formats, tmp_path, capsys):
    """Which column of a table is the source is a matter of the languages, though the file is the same."""
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "train.tsv").write_text("docid\tsrc\tref\n" + "a\tDas ist ein Hund .\tThis is a dog .\n" * 9)
    shutil.copy(raw / "train.tsv", raw / "test.tsv")
    options = [str(raw), str(tmp_path / "out"), "--bpe-merges=9", "--workers=1"]
    assert main(options) == 0 and main([*options, "-s=de", "-t=en", "--overwrite"]) == 0
    assert "Hund" in (tmp_path / "out" / "text" / "train.de").read_text()


def failure(capsys, *arguments: object) -> str:
    assert main([*map(str, arguments), *OPTIONS]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("train.tmx", lambda text: text.replace("</tu>", "", 1), "train.tmx, line "),
        ("dev.jsonl", lambda text: text.replace('"de"', '"fr"'), "dev.jsonl, line 1: document 0 has no reference (de)"),
        ("train.tmx", lambda text: text.replace("en", "fr"), "no unit has en and de; this one has de-DE, fr"),
        ("test.tsv", lambda text: text + "x\t0\tx\n", "test.tsv, line "),
        (
            "test.tsv",
            lambda text: text.replace("ref", "x_ref", 1),
            "test.tsv, line 2: document 0 has no reference (de); it has source",
        ),
        ("test.tsv", lambda text: text.replace("docid", "number", 1), "test.tsv, line 1: a column docid is needed"),
        (
            "dev.tsv",
            lambda text: "docid\tsrc\tref\na\tx\ty\n",
            "dev.tsv: dev.jsonl exists, too; keep one of them|dev.jsonl",
        ),
    ],
)
def test_what_users_run_into(formats, tmp_path, capsys, name, change, said):
    folder = tmp_path / "raw"
    folder.mkdir()
    for path in formats.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    path = folder / name
    path.write_text(change(path.read_bytes().decode() if path.exists() else ""), newline="")
    error = failure(capsys, folder, tmp_path / "out")
    assert any(one in error for one in said.split("|")), error
    assert not (tmp_path / "out").exists()


def test_found(formats, raw, tmp_path):
    found = find_splits(formats, "en", "de")
    assert {split: files[0].name for split, files in found.items()} == {
        "train": "train.tmx",
        "valid": "dev.jsonl",
        "test": "test.tsv",
    }
    assert all(one == other for one, other in found.values())
