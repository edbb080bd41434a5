"""The commands of the package: one table, from which ``gtransformer --help``, dispatch and set-up are made.

It imports nothing of the package: ``setup.py`` reads it before anything is installed.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command.

    Attributes:
        name: what follows ``gtransformer`` on the command line, one word or two.
        module: of gtransformer, with ``build_parser()`` and ``main(argv)``; its import is quick.
        summary: one line for ``gtransformer --help``.
        former: name of the console script ``gtransformer-FORMER`` of earlier versions; None where there was none.
    """

    name: str
    module: str
    summary: str
    former: str | None = None


# What gtransformer --help shows, in the order in which one works.
MAP = {
    "Prepare a corpus": (
        Command("prepare", "cli.prepare", "clean, tokenise, cut into subwords and binarise a corpus", "prepare"),
        Command("corpus get", "cli.download", "download a benchmark corpus and verify it", "download"),
        Command("corpus convert", "cli.convert", "convert WMT files with document ids, or OPUS XML", "convert"),
        Command("corpus merge", "cli.merge", "merge shards that were prepared apart", "merge"),
    ),
    "Train": (
        Command("run", "cli.run", "prepare, train, generate and score by a recipe", "run"),
        Command("train", "cli.train", "only the training of a recipe"),
        Command("average", "cli.average", "average the last checkpoints of a training", "average"),
        Command("export", "cli.export", "save a trained model with all that translating needs", "export"),
    ),
    "Translate": (
        Command("translate", "cli.translate", "translate plain text with an exported model", "translate"),
        Command("postprocess", "cli.postprocess", "turn subwords into plain text", "postprocess"),
    ),
    "Evaluate": (
        Command("score", "cli.score", "s-BLEU, d-BLEU, chrF, TER, COMET and significance", "score"),
        Command(
            "contrastive", "cli.contrastive", "contrastive accuracy: ContraPro, Voita et al., own sets", "contrastive"
        ),
        Command("generative", "cli.generative", "accuracy of the words that context decides: ctxpro", "generative"),
        Command("terms", "cli.terms", "consistency of terms in a document (LTCR)", "terms"),
        Command("discourse", "cli.discourse", "F1 of pronouns and formality, English to German", "discourse"),
    ),
    "Look closer": (
        Command("demo", "lab.cli.demo", "train a small G-Transformer on a generated corpus and show it", "demo"),
        Command("info", "cli.info", "versions, device, and the folder for fairseq's --user-dir", "info"),
        Command("lab", "cli.main", "studies, comparisons and benchmarks; gtransformer lab --help lists them"),
    ),
}
LAB = {
    "Corpora with known answers": (
        Command("lab demo-corpus", "lab.cli.demo_corpus", "generate the demonstration corpus", "demo-corpus"),
        Command(
            "lab reach-corpus", "lab.cli.reach_corpus", "generate a test set by distance of context", "reach-corpus"
        ),
    ),
    "Compare systems": (
        Command("lab arena", "lab.cli.arena", "train all systems with one budget and compare them", "arena"),
        Command("lab compare", "lab.cli.compare", "compare recipes on one corpus by minutes of training", "compare"),
        Command("lab study", "lab.cli.study", "reproduce a figure or table of a paper", "study"),
        Command("lab lengths", "lab.cli.lengths", "score one model over test lengths", "lengths"),
    ),
    "Look into a model": (
        Command("lab cxmi", "lab.cli.cxmi", "conditional cross-mutual information of context", "cxmi"),
        Command("lab entropy", "lab.cli.entropy", "entropy of attention", "entropy"),
        Command("lab inspect", "lab.cli.inspect_document", "draw attention and gates for a document", "inspect"),
        Command("lab start", "lab.cli.start", "compare a document model's start with its sentence model", "start"),
    ),
    "Measure and report": (
        Command("lab benchmark", "lab.cli.benchmark", "time and memory of training and decoding", "benchmark"),
        Command("lab benchmark-commits", "lab.cli.benchmark_commits", "speed of two checkouts, in turn"),
        Command("lab gpu-check", "lab.cli.gpu_check", "tests, benchmark and a short training on a GPU"),
        Command("lab report", "lab.cli.report", "write the pages of results from their files", "report"),
    ),
}
COMMANDS = {one.name: one for part in (*MAP.values(), *LAB.values()) for one in part}
FORMER = {f"gtransformer-{one.former}": one.name for one in COMMANDS.values() if one.former}
