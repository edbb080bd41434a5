"""Prepare a raw corpus for training with fairseq: ``gtransformer prepare RAW OUT``."""

from __future__ import annotations

import argparse
import shlex
import sys

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import UserError, cli_main
from gtransformer.preprocess.manifest import table, unknown_warnings
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.pipeline import prepare, warn
from gtransformer.preprocess.settings import Settings, option
from gtransformer.preprocess.tokenise import moses_directory


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = CommandParser(
        prog="gtransformer prepare",
        description="Clean, tokenise, truecase, BPE, cut into instances and binarise a corpus of documents. "
        "Run it again after an interruption or a change of the test set: valid parts are kept.",
    )
    add = parser.add_argument
    add(
        "raw",
        help="directory with concatenated_en2de_{train,dev,test}_{en,de}.txt[.xz|.gz], or for a split one file with "
        "both sides: train.tmx, .tsv, .jsonl or .xml (WMT's)",
    )
    add("output", help="directory to write to")
    add("-s", "--source-lang", default="en")
    add("-t", "--target-lang", default="de")
    add("--langs", help="order of the language symbols in the dictionary (default: source,target)")
    add("--bpe-merges", type=int, help=f"BPE merge operations (default: {Settings.bpe_merges})")
    add(
        "--max-instance-tokens", type=int, default=512,
        help="an instance stays below the sum of max(source, target) + 2 of its sentences (default: %(default)s)",
    )  # fmt: skip
    add(
        "--max-sentence-tokens", type=int, default=1024,
        help="longer sentences are dropped from the training set (default: %(default)s)",
    )  # fmt: skip
    add("--max-sents", type=int, help="most sentences per instance; 1 for sentence level")
    add(
        "--sentence-pairs", action="store_true",
        help="files that do not start with <d> have sentence pairs without documents: each pair is its own document",
    )  # fmt: skip
    add("--vocabulary", metavar="DIR", help="take truecasers, BPE and dictionary from this prepared directory")
    add(
        "--sentencepiece", metavar="MODEL",
        help="segment plain text with this SentencePiece model instead of tokenising, truecasing and BPE (mBART)",
    )  # fmt: skip
    add(
        "--bpe-codes", metavar="FILE",
        help="segment with these BPE codes (subword-nmt, fastBPE) of a fairseq model; Moses' rules tokenise the text, "
        "escaped, with dashes separated; it is not truecased",
    )  # fmt: skip
    add(
        "--dictionary", metavar="PATH",
        help="the dictionary for --sentencepiece or --bpe-codes, or a folder with dict.LANG.txt for both",
    )  # fmt: skip
    add("--bert", metavar="DIR", help="segment the source side into the wordpieces of this BERT (of Hugging Face)")
    add(
        "--shard", metavar="I/N",
        help="every Nth training document, from the Ith (from 0); shard 0 also has the other splits; "
        "gtransformer corpus merge merges shards that were prepared with the same --vocabulary",
    )  # fmt: skip
    add("--normalise-punctuation", action="store_true", help="normalise punctuation before tokenising")
    add(
        "--moses-rules", action=argparse.BooleanOptionalAction,
        help="tokenise, truecase and detokenise by Moses' rules only, as the release did; less of the text is then "
        "restored exactly from its tokens (--moses and --bpe-codes imply this; with neither form, an existing corpus "
        "keeps its rules)",
    )  # fmt: skip
    add("--moses", metavar="DIR", help="use this Moses' Perl scripts (default: the variable MOSES)")
    add("--overwrite", action="store_true", help="redo finished parts with other options")
    add("--workers", type=int, default=available_cores(), help="processes (default: all cores)")
    return parser


def settings_from(args: argparse.Namespace) -> Settings:
    """Return the options as settings. Raises UserError for invalid values."""
    given = {name: value for name, value in vars(args).items() if name not in ("raw", "output", "overwrite")}
    given["langs"] = tuple(filter(None, (args.langs or "").split(",")))
    if given["bpe_merges"] is None:
        del given["bpe_merges"]
    settings = Settings(**given | {"moses": moses_directory(args.moses)})
    settings.check()
    for name in ("vocabulary", "sentencepiece", "bpe_codes") if args.bpe_merges is not None else ():
        if getattr(settings, name):
            raise UserError(
                f"--bpe-merges {args.bpe_merges}: {option(name)} defines the subwords; leave one of them out"
            )
    return settings


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
