"""LibreOffice's help: packages made here, of a few pages, as a raw corpus."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gtransformer.files import read_lines
from gtransformer.lab.cli.libreoffice import ids_file, pair_pages, read_page, split_documents
from gtransformer.preprocess.corpus import SPLITS, find_splits, raw_file, read_documents
from tests.support import command

main = command("lab libreoffice")

EN, PT = ("en", "en-US"), ("pt", "pt-BR")
NEWS = "The same long paragraph that stands in many pages"


def package(path: Path, folder: str, pages: dict[str, str]) -> Path:
    """Make a Debian package of pages."""
    root = path.with_suffix("")
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        f"Package: {path.stem.lower()}\nVersion: 1\nArchitecture: all\nMaintainer: a "
        "<a@b.c>\nDescription: pages\n"
    )
    for name, html in pages.items():
        page = root / f"usr/share/libreoffice/help/{folder}/text/{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(html)
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(path)], check=True)
    return path


def page(lang: str, number: int) -> str:
    """Six paragraphs; every third page has one that stands in others, too."""
    texts = [f"{lang} page {number} says in its line {line} something" for line in range(5)]
    texts.append(f"{lang} {NEWS}" if number % 3 == 0 else "See also")
    return "<body>" + "".join(
        f'<p id="par_{at}" class="x">{text}</p>\n' for at, text in enumerate(texts)
    )


@pytest.fixture
def packages(tmp_path) -> list[Path]:
    if not shutil.which("dpkg-deb"):
        pytest.skip("needs a system like Debian")
    made = []
    for lang, folder in (EN, PT):
        pages = {f"swriter/01/{number:02}": page(lang, number) for number in range(18)}
        pages["swriter/01/only_" + lang] = page(lang, 99)
        made.append(package(tmp_path / f"libreoffice-help-{folder.lower()}.deb", folder, pages))
    return made


def run(data: Path, packages: list[Path], *more: str) -> int:
    return main(["--data", str(data), *more, "--packages", *map(str, packages)])


def test_corpus(tmp_path, packages, capsys):
    """Documents are pages of both languages; held-out ones share no long paragraph; the packages
    may have any order."""
    assert run(tmp_path / "data", packages) == 0
    assert "12 of 18 documents share no long paragraph" in capsys.readouterr().out
    folder = tmp_path / "data" / "libreoffice-en-pt"
    splits = {
        split: list(read_documents(*sides))
        for split, sides in find_splits(folder, "en", "pt").items()
    }
    assert [len(splits[split]) for split in ("train", "valid", "test")] == [9, 3, 6]
    texts = {
        split: {pair for document in documents for pair in document}
        for split, documents in splits.items()
    }
    for held_out in ("valid", "test"):
        assert not [en for en, _ in texts[held_out] & texts["train"] if len(en.split()) > 5]
        assert ("See also", "See also") in texts[held_out]
    for document in splits["train"]:
        assert len(document) == 6 and document[0][1] == document[0][0].replace("en", "pt", 1)
    found = {}  # by page and id of the paragraph
    for split in SPLITS:
        documents = read_documents(
            *(raw_file(folder, ("en", "pt"), split, lang) for lang in ("en", "pt"))
        )
        pairs = [pair for document in documents for pair in [("<d>", "<d>"), *document]]
        found.update(zip(read_lines(ids_file(folder, split)), pairs, strict=True))
    targets = [found[f"swriter/01/{number:02}#par_3"][1] for number in range(18)]
    assert targets == [f"pt page {number} says in its line 3 something" for number in range(18)]
    assert run(tmp_path / "again", packages[::-1]) == 0
    again = tmp_path / "again" / folder.name
    assert all(path.read_bytes() == (again / path.name).read_bytes() for path in folder.iterdir())
    assert run(tmp_path / "again", packages[:1]) == 1
    assert "pt-BR" in capsys.readouterr().err


def test_text_of_a_page():
    """Markup goes, entities and blanks are resolved, one alternative stays, the first paragraph of
    an id counts."""
    keys = '<span class="switchinline"><span hidden="true" id="MACx_1" class="MAC">'
    keys += '<span class="k">Command</span></span>'
    keys += '<span hidden="true" id="defaultx_1"><span class="k">Ctrl\n </span></span></span>'
    apps = '<span class="switchinline"><span hidden="true" id="CALCx">sheet</span>'
    apps += '<span hidden="true" id="DRAWx">page'
    found = read_page(
        f"""<title>Page</title><p>no id</p><h1 id="hd_1"><a name="x"></a>A&nbsp;&amp; <b>B</b></h1>
        <p id="par_1">Press {keys}+ <span class="k">A</span>
          twice.<br>Done</p> between <p id="par_2"><img alt="x"></p><p id="par_1">again</p>
        <p id="par_3">A {apps}</span></span>, is <span class="e">it</span> not<p id="par_4">open"""
    )
    expected = {
        "hd_1": "A & B",
        "par_1": "Press Ctrl + A twice. Done",
        "par_2": "",
        "par_3": "A sheet, is it not",
    }
    assert found == {**expected, "par_4": "open"}
    other = {"x": {"par_3": "dois", "par_1": "um", "par_2": "zero", "hd_1": "", "new": "y"}}
    document = pair_pages({"x": found, "y": found}, other)
    assert [*document] == ["x"] and [*document["x"].items()] == [
        ("par_1", (expected["par_1"], "um")), ("par_3", (expected["par_3"], "dois")),
    ]  # fmt: skip


def test_a_paragraph_shared_on_the_target_side_keeps_a_document_in_training():
    documents = {
        str(number): {
            str(line): (f"{number} a b c d e {line}", f"{number} x y z u v {line}")
            for line in range(5)
        }
        for number in range(8)
    }
    documents["0"]["0"] = (documents["0"]["0"][0], documents["1"]["1"][1].upper())
    assert {"0", "1"} < set(split_documents(documents)["train"])
