"""A prepared corpus of two documents, written by hand: three instances, the first document cut in
two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gtransformer.data.instance_index import InstanceIndex
from tests.raw_corpus import write_moses_files

INSTANCES = [(0, 0, 2), (0, 2, 1), (1, 0, 2)]
TEXT = {
    "en": [
        ["The house is old.", "It is big, too.", "You know it."],
        ["I see the small dog.", "It barks at night."],
    ],
    "de": [
        ["Das Haus ist alt.", "Es ist auch groß.", "Du kennst es gut."],
        ["Ich sehe den kleinen Hund.", "Er bellt in der Nacht."],
    ],
}
# The target side as instance files have it: tokenised, truecased, with BPE.
PIECES = [["das Haus ist alt .", "es ist auch gro@@ ß ."], ["du kennst es gut ."],
          ["ich sehe den klein@@ en Hund .", "er be@@ llt in der Nacht ."]]  # fmt: skip
# What a system made of it, with BPE: some words right, some wrong.
HYPOTHESES = [
    ["das Haus ist neu .", "er ist auch gro@@ ß ."],
    ["du kennst es gut ."],
    ["ich sehe den Hu@@ nd .", "er be@@ llt nachts in der Nacht ."],
]


def write_documents(path: Path, documents: list[list[str]]) -> None:
    """Write the raw corpus format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join("<d>\n" + "".join(f"{line}\n" for line in doc) for doc in documents),
        encoding="utf-8",
    )


def write_pieces(
    prepared: Path, instances: list[list[str]], lang: str = "de", unknown: tuple[str, ...] = ()
) -> None:
    """The target side's instances and a dictionary of their pieces but for ``unknown``."""
    lines = [" ".join(f"<s> {sentence} </s>" for sentence in sentences) for sentences in instances]
    words = {piece for line in lines for piece in line.split()} - {"<s>", "</s>", *unknown}
    for path, content in (
        (prepared / "instances" / f"test.{lang}", lines),
        (prepared / "bin" / f"dict.{lang}.txt", [f"{word} 1" for word in sorted(words)]),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")


def jsonl_lines(hypotheses: list[list[str]], instances=INSTANCES) -> list[dict]:
    """Translations as the generator writes them, with a worse second hypothesis each."""
    return [
        {
            "id": number,
            "document": document,
            "first_sentence": first,
            "sentences": count,
            "hypotheses": [
                {"score": -0.5, "sentences": best},
                {"score": -0.9, "sentences": ["x"] * count},
            ],
        }
        for number, ((document, first, count), best) in enumerate(
            zip(instances, hypotheses, strict=True)
        )
    ]


def write_jsonl(path: Path, lines: list[dict]) -> Path:
    """Write one JSON object a line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def sacrebleu_command(
    hypotheses: list[str], references: list[str], folder: Path, *options: str
) -> dict:
    """What sacrebleu's own command prints for these segments, with all digits."""
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (folder / f"{name}.txt").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        str(folder / "ref.txt"),
        "-i",
        str(folder / "hyp.txt"),
        "-w",
        "14",
    ]
    result = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return json.loads(result.stdout)


def write_prepared(folder: Path) -> Path:
    """The prepared corpus, with split test only."""
    for lang, documents in TEXT.items():
        write_documents(folder / "text" / f"test.{lang}", documents)
    (folder / "bin").mkdir()
    write_moses_files(folder)
    write_pieces(folder, PIECES)
    InstanceIndex("test", "en", "de", 2, INSTANCES).save(
        folder / "bin" / "test.en-de.instances.json"
    )
    return folder


@pytest.fixture
def prepared(tmp_path) -> Path:
    """The prepared corpus."""
    return write_prepared(tmp_path / "prepared")


@pytest.fixture
def hypotheses(tmp_path) -> Path:
    """The translations of all three instances."""
    return write_jsonl(tmp_path / "out.jsonl", jsonl_lines(HYPOTHESES))


@pytest.fixture
def encode(dictionary):
    """Sentences of words to token indices."""
    return lambda texts: [[dictionary.index(word) for word in text.split()] for text in texts]


@pytest.fixture
def helpers():
    """This module, for tests: with importlib imports it cannot be imported by name."""
    return sys.modules[__name__]
