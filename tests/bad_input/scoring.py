"""Scoring, contrastive suites and analyses: translations, items, texts, checkpoints and options of theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gtransformer.data.instance_index import InstanceIndex
from tests.bad_input.row import GIVEN, Row

SCORE = "score {corpus} --output {place}/scores.json --hypotheses {place}/test.jsonl"
CONTRAST = "items {prepared} --cpu --path {checkpoint} --output {out} --items {place}/items.json"
CXMI = "cxmi {prepared} --cpu --path {checkpoint} --output {out} --split test"
ENTROPY = "entropy {prepared} --cpu --path {checkpoint} --output {out} --split test"


def lines() -> list[dict[str, Any]]:
    """Translations of every instance of the corpus."""
    instances = InstanceIndex.load(GIVEN["corpus"] / "bin" / "test.en-de.instances.json").instances
    return [
        {"id": number, "document": document, "first_sentence": first, "sentences": count,
         "hypotheses": [{"score": -1.0, "sentences": ["x"] * count}]}
        for number, (document, first, count) in enumerate(instances)
    ]  # fmt: skip


def translations(change: Callable[[list[dict[str, Any]]], object] = lambda found: None, raw: bytes = b""):
    def make(place: Path) -> None:
        found = lines()
        change(found)
        content = "".join(f"{json.dumps(line)}\n" for line in found).encode()
        (place / "test.jsonl").write_bytes(raw or content)

    return make


def items(change: Callable[[dict[str, Any]], object] = lambda found: None, raw: str | None = None):
    def make(place: Path) -> None:
        found = json.loads(GIVEN["items"].read_text(encoding="utf-8"))
        found["items"] = found["items"][:2]
        change(found)
        (place / "items.json").write_text(json.dumps(found) if raw is None else raw, encoding="utf-8")
        translations()(place)

    return make


def texts(**named: str | bytes):
    def make(place: Path) -> None:
        for name, text in named.items():
            (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return make


def cut_checkpoint(place: Path) -> None:
    (place / "cut.pt").write_bytes(GIVEN["checkpoint"].read_bytes()[:5000])


def without_references(place: Path) -> None:
    translations()(place)
    shutil.copytree(GIVEN["corpus"], place / "corpus")
    (place / "corpus" / "text" / "test.de").unlink()


def references(text: str):
    def make(place: Path) -> None:
        without_references(place)
        (place / "corpus" / "text" / "test.de").write_text(text)

    return make


SUITE = "contrastive {prepared} --cpu --path {checkpoint} --output {out} --items {place}/suite.json"
VOITA = {"src": "a _eos b", "dst": ["c _eos d", "c _eos e"], "true_ind": 0}


def suite(**changes: Any):
    return lambda place: (place / "suite.json").write_text(json.dumps([VOITA, VOITA | changes]))


ROWS = [
    Row("no translations", SCORE, "{place}/test.jsonl: no such file"),
    Row("no corpus", SCORE.replace("{corpus}", "{place}"), "{place}: not a prepared corpus", translations()),
    Row("no such split", f"{SCORE} --split exam", "'exam'", translations()),
    Row("no JSON", SCORE, "test.jsonl, line 1: ", translations(raw=b"{\n")),
    Row("not UTF-8", SCORE, "test.jsonl, line 1: ", translations(raw=b"\xff\n")),
    Row("an instance is missing", SCORE, "test.jsonl", translations(lambda found: found.pop())),
    Row("another instance", SCORE, "test.jsonl", translations(lambda found: found[0].update(document=99))),
    Row("no references", SCORE.replace("{corpus}", "{place}/corpus"), "test.de: no such file", without_references),
    Row("references of another corpus", SCORE.replace("{corpus}", "{place}/corpus"), "test.de: ",
        references("<d>\na\n")),
    Row("two language pairs", SCORE.replace("{corpus}", "{place}/corpus"), "'test'",
        lambda place: (references("<d>\na\n")(place),
                       (place / "corpus" / "bin" / "test.en-fr.instances.json").write_text("{}"))),
    Row("items: none", CONTRAST, "{place}/items.json: no such file"),
    Row("items: no checkpoint", CONTRAST.replace("{checkpoint}", "{place}/none.pt"), "none.pt: no such", items()),
    Row("items: a cut checkpoint", CONTRAST.replace("{checkpoint}", "{place}/cut.pt"), "cut.pt",
        lambda place: (items()(place), cut_checkpoint(place))),
    Row("suite: sentences without end", SUITE, "entry 1: ", suite(dst=["a _eos b", "a"])),
    Row("cxmi: a split that is not there", CXMI.replace("--split test", "--split exam"), "exam"),
    Row("cxmi: less than no context", f"{CXMI} --context -1", "--context"),
    Row("cxmi: no checkpoint", CXMI.replace("{checkpoint}", "{place}/none.pt"), "none.pt: no such"),
    Row("entropy: a split that is not there", ENTROPY.replace("--split test", "--split exam"), "exam"),
    Row("entropy: a cut checkpoint", ENTROPY.replace("{checkpoint}", "{place}/cut.pt"), "cut.pt", cut_checkpoint),
    Row("inspect: no model", "inspect_document --model {place}/none {text} -o {out} --cpu", "{place}/none"),
    Row("average: no checkpoints", "average {place} --last 2 -o {out}", "{place}"),
    Row("average: none of them", "average {place} --last 0 -o {out}", "--last 0"),
]  # fmt: skip
