"""What reads files that others have made, each with small whole files and what is done to them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.stored import HEAD, MAGIC, check_binary
from gtransformer.data.translations import read_documents
from gtransformer.evaluation.contrastive import read_items
from gtransformer.evaluation.suite_files import read_suite
from gtransformer.lab.analysis.curves import read_curve, read_series
from gtransformer.preprocess.bpe import Encoder
from gtransformer.preprocess.chain import Postprocessor, TextEncoder
from gtransformer.preprocess.corpus import read_pairs
from gtransformer.preprocess.ctxpro import read_expectations
from gtransformer.preprocess.formats.documents import Reading, Side
from gtransformer.preprocess.formats.lines import read_with_ids
from gtransformer.preprocess.formats.opus import read_opus
from gtransformer.preprocess.plain_text import read_plain
from gtransformer.preprocess.truecase import Truecaser
from gtransformer.run.recipe import find_recipe, load_recipe
from gtransformer.tasks.loading import load_dictionary
from gtransformer.translation.resumable import ResumableOutput
from tests.faults.damage import Damage, damaged_bytes, damaged_json, damaged_lines_of_json
from tests.hard_text import STRANGE
from tests.support import ROOT

INSTANCE_INDEX = InstanceIndex("test", "en", "de", 2, [(0, 0, 2), (0, 2, 1), (1, 0, 1)])


@dataclass(frozen=True)
class Reader:
    """What reads a folder of ``files``; of those in ``damage`` one is damaged at a time. ``share`` of COUNT."""

    read: Callable[[Path], object]
    files: dict[str, bytes]
    damage: dict[str, Damage]
    share: float = field(default=1.0)


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def dumped(*values: object) -> bytes:
    return lines(*(json.dumps(value) for value in values))


def joined(folder: Path) -> object:
    return join(InstanceIndex.load(folder / "x.json"), [["a", "b"], ["c"], ["d"]])


def resumed(folder: Path) -> object:
    with ResumableOutput(folder / "x", {"a": 1}) as output:
        return output.position


def index(sizes: list[int]) -> bytes:
    begins = (np.cumsum(sizes) - sizes) * 4
    head = HEAD.pack(MAGIC, 1, 4, len(sizes))
    return head + np.array(sizes, np.int32).tobytes() + np.array(begins, np.int64).tobytes()


TRANSLATIONS = [
    {
        "id": number, "document": document, "first_sentence": first, "sentences": count,
        "hypotheses": [{"score": -1.0, "sentences": ["x"] * count}],
    }
    for number, (document, first, count) in enumerate(INSTANCE_INDEX.instances)
]  # fmt: skip
CONTRAPRO = {
    "src segment": "It .", "ref segment": "Es .", "src pronoun": "It", "ref pronoun": "es", "intrasegmental": False,
    "document id": "1/a", "segment id": 3,
    "ref ante phrase gender": "neut", "ante distance": 1,
    "errors": [{"type": "pronominal coreference", "contrastive": "Sie ."}],
}  # fmt: skip
ITEM = {
    "id": 0, "phenomenon": "p", "detail": "d", "document": 0, "sentence": 1, "distance": 1, "correct": "a",
    "wrong": ["b"],
}  # fmt: skip
VOITA = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e"], "true_ind": 0, "ctx_dist": 1}
LOG = [
    f'2026-01-31 12:00:00 | INFO | train_inner | {{"ppl": "9.5", "num_updates": "{n}", "wall": "3"}}' for n in range(9)
]
PLACE = {"lines": 0, "documents": 0, "sentences": 0}
PREPARED = {
    name: (ROOT / "tests" / "compatibility" / "prepared" / name).read_bytes()
    for name in ("manifest.json", "bpe.codes", "truecase.en")
}
CTXPRO = {"expected": "sie", "rule": "GENDER", "document id": "a", "ante distance": 1}
LINKS = (
    '<cesAlign version="1.0"><linkGrp fromDoc="de/a.xml" toDoc="en/b.xml"><link xtargets="1;1 2" />'
    '<link xtargets="2;3" /></linkGrp></cesAlign>'
)
SUBTITLES = {
    "links.xml": lines('<?xml version="1.0" encoding="utf-8"?>', "<!DOCTYPE cesAlign>", LINKS),
    "de/a.xml": lines('<document><s id="1">Gehen wir &amp; los.</s><s id="2">Ja.</s></document>'),
    "en/b.xml": lines('<document><s id="1">Let us</s><s id="2">go.</s><s id="3">Yes.</s></document>'),
}


def hostile(folder: Path) -> object:
    """A text of any signs, to subwords and back: as many lines as there were."""
    found = [line for document in read_plain(folder / "x")[0] for line in document]
    subwords = TextEncoder(ROOT / "tests" / "compatibility" / "prepared", "en")(found)
    plain = Postprocessor("de").plain_lines(subwords)
    assert len(subwords) == len(plain) == len(found) and not any("\n" in line for line in (*subwords, *plain))
    return plain


def in_hostile_order(content: bytes, draw: random.Random) -> bytes:
    """Signs of all planes between the letters; now and then bytes that are none."""
    if draw.random() < 0.1:
        return damaged_bytes(content, draw)
    text = list(content.decode())
    for _ in range(draw.randint(1, 30)):
        sign = draw.choice((chr(draw.randrange(0xD800)), chr(draw.randrange(0xE000, 0x110000)), draw.choice(STRANGE)))
        text.insert(draw.randrange(len(text)), sign)
    return "".join(text).encode()


READERS = {
    "hostile Unicode": Reader(hostile, {"x": lines("<d>", "One house.", "It's old.")}, {"x": in_hostile_order}),
    "prepared corpus": Reader(
        lambda folder: TextEncoder(folder, "en")(["The old dog."]),
        PREPARED,
        {"manifest.json": damaged_json, "bpe.codes": damaged_bytes, "truecase.en": damaged_bytes},
    ),
    "ctxpro": Reader(
        lambda folder: read_expectations(folder / "x"), {"x": dumped([CTXPRO, CTXPRO])}, {"x": damaged_json}
    ),
    "ContraPro as text": Reader(
        lambda folder: read_suite([folder], 2),
        {
            **{f"contrapro.text.{lang}": lines("One .", "One .", "Two .", "Two too .") for lang in ("en", "de")},
            **{f"contrapro.context.{lang}": lines(*"abcdefgh") for lang in ("en", "de")},
            "groups.txt": lines("0", "2", "4"),
        },
        {"groups.txt": damaged_bytes, "contrapro.text.de": damaged_bytes, "contrapro.context.en": damaged_bytes},
    ),
    "lines with document ids": Reader(
        lambda folder: list(
            read_with_ids({Side("source"): folder / "a", Side("reference"): folder / "b"}, {Side(""): folder / "ids"})
        ),
        {"a": lines("One.", "Two.", "Three."), "b": lines("Eins.", "Zwei.", "Drei."), "ids": lines("1", "1", "2")},
        {"a": damaged_bytes, "b": damaged_bytes, "ids": damaged_bytes},
    ),
    "OPUS": Reader(
        lambda folder: list(read_opus(folder / "links.xml", folder, Reading(("en", "de")))),
        SUBTITLES,
        dict.fromkeys(SUBTITLES, damaged_bytes),
    ),
    "raw corpus": Reader(
        lambda folder: list(read_pairs(folder / "a", folder / "b")),
        {"a": lines("<d>", "One.", "Two.", "<d>", "Three."), "b": lines("<d>", "Eins.", "Zwei.", "<d>", "Drei.")},
        {"a": damaged_bytes, "b": damaged_bytes},
    ),
    "plain text": Reader(
        lambda folder: read_plain(folder / "x"), {"x": lines("<d>", "One.", "", "Two.")}, {"x": damaged_bytes}
    ),
    "instance index": Reader(
        joined, {"x.json": dumped({"version": 1, **vars(INSTANCE_INDEX)})}, {"x.json": damaged_json}
    ),
    "translations": Reader(
        lambda folder: read_documents(folder / "x", INSTANCE_INDEX),
        {"x": dumped(*TRANSLATIONS)},
        {"x": damaged_lines_of_json},
    ),
    "ContraPro": Reader(
        lambda folder: read_suite([folder / "x"], context=0), {"x": dumped([CONTRAPRO, CONTRAPRO])}, {"x": damaged_json}
    ),
    "contrastive items": Reader(
        lambda folder: read_items(folder / "x"), {"x": dumped({"split": "test", "items": [ITEM]})}, {"x": damaged_json}
    ),
    "Voita": Reader(lambda folder: read_suite([folder / "x"]), {"x": dumped([VOITA, VOITA])}, {"x": damaged_json}),
    "BPE codes": Reader(
        lambda folder: Encoder(folder / "x")(["these words"]),
        {"x": lines("#version: 0.2", "t h", "th e</w>", "w o")},
        {"x": damaged_bytes},
    ),
    "truecaser": Reader(
        lambda folder: Truecaser(folder / "x")(["The dog . Mary"]),
        {"x": lines("Mary (3/4) mary (1)", "the (9/9)")},
        {"x": damaged_bytes},
    ),
    "dictionary": Reader(
        lambda folder: load_dictionary(folder / "x"),
        {"x": lines("a 3", "b 2", "[en] 1", "<mask> 1")},
        {"x": damaged_bytes},
    ),
    "recipe": Reader(
        lambda folder: load_recipe(str(folder / "x.yaml")),
        {"x.yaml": find_recipe("base").read_bytes()},
        {"x.yaml": damaged_bytes},
        0.3,
    ),
    "binaries": Reader(
        lambda folder: check_binary(folder / "x"),
        {"x.idx": index([3, 5, 2]), "x.bin": bytes(40)},
        {"x.idx": damaged_bytes, "x.bin": damaged_bytes},
    ),
    "interrupted translation": Reader(
        resumed,
        {"x.part": b"", "x.part.json": dumped({"key": {"a": 1}, "bytes": 0, "place": PLACE, "input_sha256": "0"})},
        {"x.part.json": damaged_json},
    ),
    "log": Reader(
        lambda folder: (read_curve(folder / "x"), read_series(folder / "x", ["ppl"])),
        {"x": lines(*LOG)},
        {"x": damaged_bytes},
    ),
}
