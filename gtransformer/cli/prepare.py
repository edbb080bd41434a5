"""Prepare a raw corpus for training with fairseq: ``gtransformer prepare RAW OUT``."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.evaluation.tables import align
from gtransformer.preprocess.manifest import TOKENISERS, Settings, unknown_warnings
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.pipeline import prepare, warn


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = CommandParser(
        prog="gtransformer prepare",
        description="Clean a corpus of documents, split it into subwords and binarise it. A corpus "
        "that was prepared from the same files with the same options is kept.",
    )
    add = parser.add_argument
    add(
        "raw",
        help="raw corpus, a directory: concatenated_en2de_{train,dev,test}_{en,de}.txt[.xz|.gz]",
    )
    add("output", help="directory to write")
    parser.add_langs()
    add(
        "--langs", metavar="LANGS",
        help="languages in the order of their symbols in the dictionary (default: source,target)",
    )  # fmt: skip
    add(
        "--tokeniser", choices=TOKENISERS, default=Settings.tokeniser,
        help="learn SentencePiece, or tokenise and truecase by Moses' rules and learn BPE "
        "(default: %(default)s)",
    )  # fmt: skip
    add(
        "--vocabulary-size", type=int, default=Settings.vocabulary_size, metavar="N",
        help="number of pieces of SentencePiece, or of merges of BPE (default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-instance-tokens", type=int, default=512, metavar="N",
        help="stored instances have fewer than N tokens; each sentence counts its longer side and "
        "2 (default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-sentence-tokens", type=int, default=1024, metavar="N",
        help="drop longer sentences from the training set (default: %(default)s)",
    )  # fmt: skip
    add("--max-sents", type=int, metavar="N", help="stored instances have at most N sentences")
    add(
        "--sentence-pairs", action="store_true",
        help="the files have no documents: make each sentence pair a document",
    )  # fmt: skip
    add(
        "--vocabulary", metavar="DIR",
        help="use subwords and dictionaries of this prepared corpus or model directory",
    )  # fmt: skip
    add(
        "--sentencepiece", metavar="MODEL",
        help="use this SentencePiece model",
    )  # fmt: skip
    add("--sentencepiece-target", metavar="MODEL", help="another model for the target")
    add(
        "--bpe-codes", metavar="FILE",
        help="use these BPE codes (subword-nmt, fastBPE); text is tokenised as by tokenizer.perl "
             "-a",
    )  # fmt: skip
    add(
        "--dictionary", metavar="PATH",
        help="dictionary for --sentencepiece or --bpe-codes, or a folder with dict.LANG.txt",
    )  # fmt: skip
    add(
        "--bert",
        metavar="DIR",
        help="use the wordpieces of this BERT of Hugging Face for the source",
    )
    add(
        "--normalise-punctuation", action="store_true", help="normalise punctuation by Moses' rules"
    )
    add("--overwrite", action="store_true", help="replace a corpus of other files or options")
    add(
        "--workers",
        type=int,
        default=available_cores(),
        metavar="N",
        help="number of processes (default: all cores)",
    )
    return parser


def settings_from(args: argparse.Namespace) -> Settings:
    """Return the options as settings."""
    given = {
        name: value
        for name, value in vars(args).items()
        if name not in ("raw", "output", "overwrite")
    }
    given["langs"] = tuple(filter(None, (args.langs or "").split(",")))
    return Settings(**given)


def table(manifest: dict[str, Any]) -> str:
    """Return the counts as a table, a line per split, columns as in Table 1 (Bao et al. 2021)."""
    names = "sentences", "documents", "instances", "sentences_per_instance"
    rows = [["split", *(name.replace("_per_", "/") for name in names)]]
    for split, counts in manifest["splits"].items():
        tokens = counts["tokens_per_instance"].values()
        rows.append([split, *map(str, [*(counts[name] for name in names), *tokens])])
    rows[0] += [f"tokens {lang}/instance" for lang in counts["tokens_per_instance"]]
    return align(rows)


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Prepare a corpus and print its counts."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    command = shlex.join(["gtransformer", "prepare", *argv])
    manifest = prepare(args.raw, args.output, settings_from(args), command, args.overwrite)
    print(table(manifest))
    warn(unknown_warnings(manifest))


if __name__ == "__main__":
    raise SystemExit(main())
