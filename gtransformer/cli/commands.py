"""Table of the package's commands, used by ``gtransformer --help`` and dispatch."""

from __future__ import annotations

import re

# The output of gtransformer --help, in the order of a project's steps: summaries by name.
MAP = {
    "Prepare a corpus": {
        "prepare": "clean a corpus, split it into subwords and binarise it",
        "convert": "convert WMT, IWSLT, TMX, TSV, subtitles, ctxpro, ContraPro to a raw corpus",
    },
    "Train": {
        "run": "prepare, train, generate and score by a recipe",
        "average": "average the last checkpoints of a training",
        "model convert": "make a document model of a sentence model of Hugging Face or Marian",
        "export": "save a trained model for translation",
    },
    "Translate": {"translate": "translate plain text or subtitles"},
    "Evaluate": {
        "score": "s-BLEU, d-BLEU, chrF, TER, COMET and significance",
        "contrastive": "contrastive accuracy: ContraPro, Voita et al.",
        "generative": "accuracy of the words that context decides: ctxpro, ContraPro",
    },
    "Look closer": {
        "demo": "train a small G-Transformer on a generated corpus and show it",
        "info": "versions, device, and the folder for fairseq's --user-dir",
    },
}
LAB = {
    "Compare systems": {
        "lab experiment": "train and compare systems, as a YAML file says",
        "lab items": "accuracy on the contrastive items of the generated corpora",
        "lab picture": "draw translations side by side, or BLEU by input length",
    },
    "Look into a model": {
        "lab attention": "entropy of attention, and a picture of it",
        "lab cxmi": "conditional cross-mutual information of context",
        "lab start": "compare a document model's start with its sentence model",
    },
    "Corpora": {
        "lab demo-corpus": "generate the demonstration corpus",
        "lab reach-corpus": "generate a test set by distance of context",
        "lab libreoffice": "make a corpus of LibreOffice's help",
        "lab augment": "make more training documents by back-translation and the like",
    },
}
COMMANDS = [name for part in (*MAP.values(), *LAB.values()) for name in part]


def module_of(name: str) -> str:
    """Return the module of a command, as ``main.parse`` reads it."""
    if name == "demo":
        return "lab.cli.demo"
    folder = "lab.cli" if name.startswith("lab ") else "cli"
    return f"{folder}.{re.sub('[ -]', '_', name.removeprefix('lab '))}"
