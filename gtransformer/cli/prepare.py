"""Prepare a raw corpus for training with fairseq: ``gtransformer prepare RAW OUT``."""

from __future__ import annotations

import argparse
import shlex
import sys

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.preprocess.manifest import table, unknown_warnings
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.pipeline import prepare, warn
from gtransformer.preprocess.settings import TOKENISERS, Settings


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = CommandParser(
        prog="gtransformer prepare",
        description="Clean a corpus of documents, split it into subwords, cut it into instances "
        "and binarise it. A corpus that was made before of the same files with the same options "
        "is kept.",
    )
    add = parser.add_argument
    add(
        "raw",
        help="directory with concatenated_en2de_{train,dev,test}_{en,de}.txt[.xz|.gz]; "
        "gtransformer convert makes one",
    )
    add("output", help="directory to write to")
    add("-s", "--source-lang", default="en")
    add("-t", "--target-lang", default="de")
    add("--langs", help="order of the language symbols in the dictionary (default: source,target)")
    add(
        "--tokeniser", choices=TOKENISERS, default=Settings.tokeniser,
        help="learn SentencePiece (BPE with bytes for rare characters; text comes back as it "
        "was), or tokenise and truecase by Moses' rules and learn BPE, as the papers did "
        "(default: %(default)s)",
    )  # fmt: skip
    add(
        "--vocabulary-size", type=int, default=Settings.vocabulary_size, metavar="N",
        help="pieces of SentencePiece, or merge operations of BPE, of both languages (default: "
        "%(default)s)",
    )  # fmt: skip
    add(
        "--max-instance-tokens", type=int, default=512,
        help="an instance stays below the sum of max(source, target) + 2 of its sentences "
        "(default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-sentence-tokens", type=int, default=1024,
        help="longer sentences are dropped from the training set (default: %(default)s)",
    )  # fmt: skip
    add("--max-sents", type=int, help="most sentences per instance; 1 for sentence level")
    add(
        "--sentence-pairs", action="store_true",
        help="files that do not start with <d> have sentence pairs without documents: each pair "
        "is its own document",
    )  # fmt: skip
    add(
        "--vocabulary", metavar="DIR",
        help="split text as this prepared corpus or model directory does, with its dictionaries",
    )  # fmt: skip
    add(
        "--sentencepiece", metavar="MODEL",
        help="split plain text with this SentencePiece model (mBART)",
    )  # fmt: skip
    add("--sentencepiece-target", metavar="MODEL", help="another one for the target side")
    add(
        "--bpe-codes", metavar="FILE",
        help="split with these BPE codes (subword-nmt, fastBPE) of a fairseq model; Moses' rules "
        "tokenise the text, escaped, with dashes separated; it is not truecased",
    )  # fmt: skip
    add(
        "--dictionary", metavar="PATH",
        help="the dictionary for --sentencepiece or --bpe-codes, or a folder with dict.LANG.txt "
        "for both",
    )  # fmt: skip
    add(
        "--bert",
        metavar="DIR",
        help="split the source side into the wordpieces of this BERT (of Hugging Face)",
    )
    add(
        "--normalise-punctuation",
        action="store_true",
        help="normalise punctuation by Moses' rules before",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace a corpus of other files or options in output",
    )
    add("--workers", type=int, default=available_cores(), help="processes (default: all cores)")
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
