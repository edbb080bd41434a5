"""Table of the package's commands, used by ``gtransformer --help`` and dispatch."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command.

    Attributes:
        name: one or two words after ``gtransformer`` on the command line.
        module: of gtransformer, with ``build_parser()`` and ``main(argv)``; it must import quickly.
        summary: one line for ``gtransformer --help``.
    """

    name: str
    module: str
    summary: str


# The output of gtransformer --help, in the order of a project's steps.
MAP = {
    "Prepare a corpus": (
        Command("prepare", "cli.prepare", "clean, tokenise, cut into subwords and binarise a corpus"),
        Command("convert", "cli.convert", "convert WMT, IWSLT, TMX, TSV, subtitles, ctxpro, ContraPro"),
    ),
    "Train": (
        Command("run", "cli.run", "prepare, train, generate and score by a recipe"),
        Command("average", "cli.average", "average the last checkpoints of a training"),
        Command("model convert", "cli.model_convert", "start from a sentence model of Hugging Face or Marian"),
        Command("export", "cli.export", "save a trained model with all that translating needs"),
    ),
    "Translate": (
        Command("translate", "cli.translate", "translate plain text or subtitles with an exported model"),
    ),
    "Evaluate": (
        Command("score", "cli.score", "s-BLEU, d-BLEU, chrF, TER, COMET and significance"),
        Command("contrastive", "cli.contrastive", "contrastive accuracy: ContraPro, Voita et al."),
        Command("generative", "cli.generative", "accuracy of the words that context decides: ctxpro, ContraPro"),
    ),
    "Look closer": (
        Command("demo", "lab.cli.demo", "train a small G-Transformer on a generated corpus and show it"),
        Command("info", "cli.info", "versions, device, and the folder for fairseq's --user-dir"),
    ),
}
LAB = {
    "Compare systems": (
        Command("lab experiment", "lab.cli.experiment", "train and compare systems, as a YAML file says"),
        Command("lab items", "lab.cli.items", "accuracy on the contrastive items of the generated corpora"),
    ),
    "Look into a model": (
        Command("lab attention", "lab.cli.attention", "entropy of attention, and a picture of it"),
        Command("lab cxmi", "lab.cli.cxmi", "conditional cross-mutual information of context"),
        Command("lab start", "lab.cli.start", "compare a document model's start with its sentence model"),
    ),
    "Corpora": (
        Command("lab demo-corpus", "lab.cli.demo_corpus", "generate the demonstration corpus"),
        Command("lab reach-corpus", "lab.cli.reach_corpus", "generate a test set by distance of context"),
        Command("lab libreoffice", "lab.cli.libreoffice", "make a corpus of LibreOffice's help"),
        Command("lab augment", "lab.cli.augment", "make more training documents by back-translation and the like"),
    ),
}
COMMANDS = {one.name: one for part in (*MAP.values(), *LAB.values()) for one in part}
