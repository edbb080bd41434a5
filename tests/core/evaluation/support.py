"""A prepared corpus of two documents, written by hand: three instances, the first document cut in
two; sacrebleu's command; tiny models of every system in float64, and a plain pass over a text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch
from fairseq.data import Dictionary

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.evaluation.sentence_scores import TokenLists
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.gtransformer import GTransformerConfig, GTransformerModel
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import WindowTransformerConfig, WindowTransformerModel
from tests.raw_corpus import write_documents, write_moses_files
from tests.support import drawn, write_lines

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
        write_lines(path, content)


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
    return write_lines(path, map(json.dumps, lines))


def sacrebleu_command(
    hypotheses: list[str], references: list[str], folder: Path, *options: str
) -> dict:
    """What sacrebleu's own command prints for these segments, with all digits."""
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        write_lines(folder / f"{name}.txt", lines)
    files = [str(folder / "ref.txt"), "-i", str(folder / "hyp.txt")]
    command = [sys.executable, "-m", "sacrebleu", *files, "-w14", *options]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


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


SYSTEMS = {
    "transformer": (InstanceTransformerModel, DocumentModelConfig, {}),
    "lst": (LstTransformerModel, LstTransformerConfig, {}),
    "lst by sentence": (LstTransformerModel, LstTransformerConfig, {"translation_locality": True}),
    "gtransformer": (GTransformerModel, GTransformerConfig, {"doc_mode": "partial"}),
    **{
        f"window {alignment}": (
            WindowTransformerModel,
            WindowTransformerConfig,
            {"window": 3, "length_ratio": 1.2, "train_alignment": alignment},
        )
        for alignment in ("linear", "sentence", "one-to-one")
    },
}


def make_system(name: str, dictionary: Dictionary) -> DocumentModel:
    """A model of ``SYSTEMS``."""
    kind, config, options = SYSTEMS[name]
    return drawn(dictionary, kind, config, seed=3, **options)


@torch.no_grad()
def score_by_hand(
    model, dictionary: Dictionary, source: TokenLists, target: TokenLists, sentence: int
) -> float:
    """Log probability of one sentence of the target, all of both sides being read as in
    training.
    """
    bos, eos = dictionary.bos(), dictionary.eos()
    read, written = (
        [token for one in side for token in (bos, *one, eos)] for side in (source, target)
    )
    logits, _ = model(torch.tensor([read]), torch.tensor([len(read)]), torch.tensor([written]))
    table = torch.log_softmax(logits[0].double(), dim=-1)
    total, number = 0.0, 0
    for position, token in enumerate(written[1:]):
        if token == bos:
            number += 1
        elif number == sentence:
            total += table[position, token].item()
    return total
