"""LibreOffice's help: packages made here, of a few pages, as a raw corpus."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from gtransformer.cli.download import main
from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import SPLITS, find_splits, raw_file, read_documents, read_pairs
from gtransformer.preprocess.libreoffice import ids_file, pair_pages, read_page, split_documents

EN, PT = ("en", "en-US"), ("pt", "pt-BR")
NEWS = "The same long paragraph that stands in many pages"


def package(path: Path, folder: str, pages: dict[str, str], compression: str = "xz") -> Path:
    """A Debian package of pages: an archive of the format ar with the archive of the files as its last member."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{compression}") as archive:
        for name, html in pages.items():
            member = tarfile.TarInfo(f"./usr/share/libreoffice/help/{folder}/text/{name}.html")
            member.size = len(html.encode())
            archive.addfile(member, io.BytesIO(html.encode()))
    content = b"!<arch>\n"
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"odd", f"data.tar.{compression}": data.getvalue()}
    for name, part in members.items():
        content += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n".encode() + part + b"\n" * (len(part) % 2)
        )
    path.write_bytes(content)
    return path


def page(lang: str, number: int, more: str = "") -> str:
    """Six paragraphs; every third page has one that stands in others, too."""
    texts = [f"{lang} page {number} says in its line {line} something" for line in range(5)]
    texts.append(f"{lang} {NEWS}" if number % 3 == 0 else "See also")
    return "<body>" + "".join(f'<p id="par_{at}" class="x">{text}</p>\n' for at, text in enumerate(texts)) + more


@pytest.fixture
def packages(tmp_path) -> list[Path]:
    made = []
    for lang, folder in (EN, PT):
        pages = {f"swriter/01/{number:02}": page(lang, number) for number in range(18)}
        pages["swriter/01/only_" + lang] = page(lang, 99)
        made.append(package(tmp_path / f"libreoffice-help-{folder.lower()}_1_all.deb", folder, pages))
    return made


def run(data: Path, packages: list[Path], *more: str) -> int:
    return main(["libreoffice", "--data", str(data), *more, "--packages", *map(str, packages)])


def test_corpus(tmp_path, packages, capsys):
    """Documents are pages of both languages; held-out ones share no long paragraph; a second call verifies."""
    assert run(tmp_path / "data", packages) == 0
    said = capsys.readouterr().out
    assert "in all: 18 documents, 108 pairs" in said and "held out from 12 documents" in said
    folder = tmp_path / "data" / "libreoffice-en-pt"
    splits = {split: list(read_documents(*sides)) for split, sides in find_splits(folder, "en", "pt").items()}
    assert {split: len(documents) for split, documents in splits.items()} == {"train": 9, "valid": 3, "test": 6}
    texts = {split: {pair for document in documents for pair in document} for split, documents in splits.items()}
    for held_out in ("valid", "test"):
        assert not [en for en, _ in texts[held_out] & texts["train"] if len(en.split()) > 5]
        assert ("See also", "See also") in texts[held_out]
    for document in splits["train"]:
        assert len(document) == 6 and document[0][1] == document[0][0].replace("en", "pt", 1)
    lock = (tmp_path / "data" / "libreoffice-en-pt.sha256").read_text()
    assert "# libreoffice-help-pt-br_1_all.deb" in lock and "ids_test.txt" in lock
    assert run(tmp_path / "data", packages) == 0 and "9 of 9 checksums" in capsys.readouterr().out
    assert run(tmp_path / "again", packages[::-1]) == 0  # the same, whatever the order
    assert all(
        one.read_bytes() == (tmp_path / "again" / folder.name / one.name).read_bytes() for one in folder.iterdir()
    )
    (folder / "ids_test.txt").write_text("<d>\n")
    assert run(tmp_path / "data", packages) == 1 and "ids_test.txt: wrong checksum" in capsys.readouterr().err


def test_paragraphs_by_id(tmp_path, packages):
    assert run(tmp_path / "data", packages) == 0
    folder = tmp_path / "data" / "libreoffice-en-pt"
    found = {}
    for split in SPLITS:
        pairs = read_pairs(*(raw_file(folder, ("en", "pt"), split, lang) for lang in ("en", "pt")))
        found.update(zip(read_lines(ids_file(folder, split)), pairs, strict=True))
    targets = [found[f"swriter/01/{number:02}#par_3"][1] for number in range(18)]
    assert targets == [f"pt page {number} says in its line 3 something" for number in range(18)]


def test_text_of_a_page():
    """Markup goes, entities and blanks are resolved, one alternative stays, the first paragraph of an id counts."""
    keys = (
        '<span class="switchinline"><span hidden="true" id="MACx_1" class="MAC"><span class="k">Command</span></span>'
    )
    keys += '<span hidden="true" id="defaultx_1"><span class="k">Ctrl\n </span></span></span>'
    apps = '<span class="switchinline"><span hidden="true" id="CALCx">sheet</span><span hidden="true" id="DRAWx">page'
    found = read_page(
        f"""<title>Page</title><p>no id</p><h1 id="hd_1"><a name="x"></a>A&nbsp;&amp; <b>B</b></h1>
        <p id="par_1">Press {keys}+ <span class="k">A</span>
          twice.<br>Done</p> between <p id="par_2"><img alt="x"></p><p id="par_1">again</p>
        <p id="par_3">A {apps}</span></span>, is <span class="e">it</span> not<p id="par_4">open"""
    )
    expected = {"hd_1": "A & B", "par_1": "Press Ctrl + A twice. Done", "par_2": "", "par_3": "A sheet, is it not"}
    assert found == {**expected, "par_4": "open"}
    other = {"x": {"par_3": "dois", "par_1": "um", "par_2": "zero", "hd_1": "", "new": "y"}}
    document = pair_pages({"x": found, "y": found}, other)
    assert [*document] == ["x"] and [*document["x"].items()] == [
        ("par_1", (expected["par_1"], "um")), ("par_3", (expected["par_3"], "dois")),
    ]  # fmt: skip


def test_a_paragraph_shared_on_the_target_side_keeps_a_document_in_training():
    documents = {
        str(number): {str(line): (f"{number} a b c d e {line}", f"{number} x y z u v {line}") for line in range(5)}
        for number in range(8)
    }
    documents["0"]["0"] = (documents["0"]["0"][0], documents["1"]["1"][1].upper())
    split, candidates = split_documents(documents)
    assert candidates == 6 and {"0", "1"} < set(split["train"])


def test_what_users_run_into(tmp_path, packages, monkeypatch, capsys):
    english, portuguese = packages
    whole = english.read_bytes()
    cut, foreign, zipped, few = (tmp_path / name for name in ("cut.deb", "foreign.deb", "zst.deb", "few.deb"))
    cut.write_bytes(whole[:-100])
    foreign.write_bytes(b"PK\x03\x04")
    zipped.write_bytes(whole.replace(b"data.tar.xz ", b"data.tar.zst"))
    broken = tmp_path / "broken.deb"
    broken.write_bytes(whole[:-60] + bytes(60))
    few = [package(tmp_path / f"{lang}.deb", folder, {"a": page(lang, 1)}, "gz") for lang, folder in (EN, PT)]
    monkeypatch.setenv("PATH", str(tmp_path))
    for given, more, said in (
        ([english], [], "no pages of help in pt-BR; add the package libreoffice-help-pt-br"),
        ([english, portuguese], ["-t", "de"], "no pages of help in de"),
        ([cut, portuguese], [], "cut.deb: the package is damaged"),
        ([broken, portuguese], [], "broken.deb: the package is damaged"),
        ([foreign, portuguese], [], "foreign.deb: is no Debian package"),
        ([zipped, portuguese], [], "zst.deb: is packed with zstd"),
        ([tmp_path / "none.deb", portuguese], [], "none.deb: no such file"),
        (few, [], "only 1 of 1 documents could be held out"),
    ):
        assert run(tmp_path / "data", given, *more) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
        assert not list((tmp_path / "data").iterdir())
    assert main(["libreoffice", "--data", str(tmp_path / "data")]) == 1
    assert "apt-get: is not on this machine; fetch libreoffice-help-en-us" in capsys.readouterr().err
    assert main(["ted", "-t", "de", "--data", str(tmp_path / "data")]) == 1
    assert "are for libreoffice only" in capsys.readouterr().err


def test_packages_are_fetched_with_apt_get(tmp_path, packages, monkeypatch, capsys):
    """A stand-in for apt-get copies them into the working directory; or fails, as without lists of packages."""
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nshift; for name; do cp "{tmp_path}/$name"_*.deb . || exit 100; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert main(["libreoffice", "--data", str(tmp_path / "data")]) == 0
    assert (tmp_path / "data" / "libreoffice-en-pt" / "ids_train.txt").is_file()
    program.write_text('#!/bin/sh\necho "E: Unable to locate package" >&2; exit 100\n')
    assert main(["libreoffice", "--data", str(tmp_path / "data"), "-t", "de"]) == 1
    assert "failed (E: Unable to locate package); run apt-get update" in capsys.readouterr().err
