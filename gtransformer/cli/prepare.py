"""``python -m gtransformer.cli.prepare RAW OUT``: a raw corpus made ready for fairseq (``scripts/prepare.sh``)."""

from __future__ import annotations

import argparse
import shlex
import sys

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.installation import as_typed
from gtransformer.preprocess.ceiling import said
from gtransformer.preprocess.manifest import table, unknown_warnings
from gtransformer.preprocess.moses import moses_directory
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.pipeline import prepare
from gtransformer.preprocess.settings import Settings


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(
        prog="scripts/prepare.sh",
        description="Clean, tokenise, truecase, BPE, cut into instances and binarise a corpus of documents. "
        "Run it again after an interruption or a change of the corpus: what still holds is kept.",
    )
    parser.add_argument("raw", help="directory with concatenated_en2de_{train,dev,test}_{en,de}.txt[.xz|.gz]")
    parser.add_argument("output", help="directory to write to")
    parser.add_argument("-s", "--source-lang", default="en")
    parser.add_argument("-t", "--target-lang", default="de")
    parser.add_argument("--langs", help="order of the language symbols in the dictionary (default: source,target)")
    parser.add_argument("--bpe-merges", type=int, default=30_000, help="BPE merge operations (default: %(default)s)")
    parser.add_argument(
        "--max-instance-tokens",
        type=int,
        default=512,
        help="an instance stays below the sum of max(source, target) + 2 of its sentences (default: %(default)s)",
    )
    parser.add_argument(
        "--max-sentence-tokens",
        type=int,
        default=1024,
        help="longer sentences are dropped from the training set (default: %(default)s)",
    )
    parser.add_argument("--max-sents", type=int, help="at most so many sentences an instance; 1 for sentence level")
    parser.add_argument(
        "--sentence-pairs",
        action="store_true",
        help="files that do not open with <d> hold sentence pairs without documents: each is read as one by itself",
    )
    parser.add_argument(
        "--vocabulary", metavar="DIR", help="take truecasers, BPE and dictionary from this prepared directory"
    )
    parser.add_argument(
        "--sentencepiece",
        metavar="MODEL",
        help="cut plain text by this SentencePiece model instead of tokenising, truecasing and BPE (mBART)",
    )
    parser.add_argument(
        "--bpe-codes",
        metavar="FILE",
        help="cut by these BPE codes (subword-nmt, fastBPE) of a model of fairseq: text is tokenised by Moses' rules, "
        "escaped and with dashes set apart, and not truecased",
    )
    parser.add_argument(
        "--dictionary",
        metavar="PATH",
        help="the dictionary that goes with --sentencepiece or --bpe-codes, or a folder with dict.LANG.txt for both",
    )
    parser.add_argument(
        "--bert", metavar="DIR", help="cut the source side into the wordpieces of this BERT (Hugging Face transformers)"
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="every Nth document of the training set, from the Ith on, counted from 0; shard 0 has the other splits, "
        "too; scripts/merge.sh puts shards together that were prepared with the same --vocabulary",
    )
    parser.add_argument("--normalise-punctuation", action="store_true", help="normalise punctuation before tokenising")
    parser.add_argument(
        "--moses-rules",
        action="store_true",
        default=None,
        help="tokenise, truecase and put together by Moses' rules alone, as the release did, though less of the text "
        "comes back from its tokens as it was (--moses and --bpe-codes do so anyway)",
    )
    parser.add_argument("--moses", metavar="DIR", help="use this Moses' Perl scripts (default: the variable MOSES)")
    parser.add_argument(
        "--overwrite", action="store_true", help="do again with other options what was finished in the output directory"
    )
    parser.add_argument("--workers", type=int, default=available_cores(), help="processes (default: all cores)")
    return parser


def settings_from(args: argparse.Namespace) -> Settings:
    """The options as settings. Raises UserError for values that make no sense."""
    other = ("raw", "output", "langs", "moses", "overwrite")
    given = {name: value for name, value in vars(args).items() if name not in other}
    langs = tuple(filter(None, (args.langs or "").split(",")))
    settings = Settings(**given, langs=langs, moses=moses_directory(args.moses))
    settings.check()
    return settings


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Prepare a corpus and print its counts."""
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(argv)
    command = as_typed(shlex.join(["scripts/prepare.sh", *argv]))
    manifest = prepare(args.raw, args.output, settings_from(args), command, args.overwrite)
    print(table(manifest))
    for split, found in manifest["ceiling"].items():
        print(said(split, manifest["settings"]["target_lang"], found))
    for warning in unknown_warnings(manifest):
        print(warning, file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
