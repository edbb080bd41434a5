"""A generated raw corpus, and the command that prepares it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from gtransformer.files import write_json
from gtransformer.preprocess.corpus import document_lines
from tests.support import command, write_lines

main = command("prepare")


WORDS = {
    "en": (
        "the a house houses garden it is was very old new and Berlin Anna saw sees green light "
        "lights red of"
    ).split(),
    "de": (
        "das der ein Haus Häuser Garten es ist war sehr alt neu und Berlin Anna sah sieht grünes "
        "Licht rotes"
    ).split(),
}


def sentence(lang: str, draw: random.Random) -> str:
    words = [draw.choice(WORDS[lang]) for _ in range(draw.randint(2, 14))]
    end = draw.choice([".", "!", "?", ", [de].", " (so)."])
    return f"{words[0][0].upper()}{' '.join(words)[1:]}{end}"


def write_moses_files(folder: Path) -> None:
    """Write what splits text by Moses' rules: a manifest, truecasers and BPE codes that hardly
    change anything.
    """
    settings = {"source_lang": "en", "target_lang": "de"}
    write_json(folder / "manifest.json", {"settings": settings})
    (folder / "bpe.codes").write_text("#version: 0.2\nq q</w>\n", encoding="utf-8")
    for lang in ("en", "de"):
        (folder / f"truecase.{lang}").write_text("zzz (1/1)\n", encoding="utf-8")


def write_documents(path: Path, documents: Iterable[Iterable[str]]) -> Path:
    """Write one side of documents, and its folder; returns the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(document_lines(documents)), encoding="utf-8")
    return path


def make_raw(folder: Path, documents: dict[str, int]) -> Path:
    """Write a raw corpus with empty sides, carriage returns and over-long sentences here and
    there.
    """
    draw = random.Random(1)
    for split, number in documents.items():
        lines: dict[str, list[str]] = {"en": [], "de": []}
        for document in range(number):
            for lang in lines:
                lines[lang].append("<d>")
            for position in range(draw.randint(3, 40)):
                pair = {lang: sentence(lang, draw) for lang in lines}
                if (document, position) == (1, 1):
                    pair["de"] = ""
                if (document, position) in ((1, 2), (0, 2)):
                    pair |= {"en": "\u200b"} if document else {"en": "", "de": " "}
                if (document, position) == (2, 2):
                    pair = {
                        lang: " ".join(sentence(lang, draw) for _ in range(50)) for lang in lines
                    }
                if (document, position) == (3, 1):
                    pair["en"] = pair["en"].replace(" ", "\r", 1) + "\r"
                for lang in lines:
                    lines[lang].append(pair[lang])
        for lang, content in lines.items():
            write_lines(folder / f"concatenated_en2de_{split}_{lang}.txt", content)
    return folder


LIMITS = ["--max-instance-tokens", "128", "--max-sentence-tokens", "200", "--workers", "2"]
OPTIONS = ["--tokeniser", "moses", "--vocabulary-size", "60", *LIMITS]


def run(raw: Path, output: Path, *options: str) -> None:
    given = LIMITS if "--vocabulary" in options else OPTIONS
    assert main([str(raw), str(output), *given, *options]) == 0


def lines(path: Path) -> list[str]:
    return path.read_bytes().decode().removesuffix("\n").split("\n")


def documents(path: Path) -> list[list[str]]:
    found: list[list[str]] = []
    for line in lines(path):
        found.append([]) if line == "<d>" else found[-1].append(line)
    return found
