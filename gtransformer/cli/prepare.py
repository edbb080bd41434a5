"""Clean a corpus of documents, split it into subwords and binarise it. A corpus that was prepared
from the same files with the same options is kept.
"""

from __future__ import annotations

import argparse
from typing import Any

from joblib import cpu_count

from gtransformer.cli.parser import CommandParser
from gtransformer.evaluation.tables import align
from gtransformer.preprocess.manifest import TOKENISERS, Settings, unknown_warnings
from gtransformer.preprocess.pipeline import prepare, warn


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    raw = "raw corpus, a directory: concatenated_en2de_{train,dev,test}_{en,de}.txt[.xz|.gz]"
    add("raw", help=raw)
    add("output", help="directory to write")
    parser.add_langs()
    order = "languages in the order of their symbols in the dictionary (default: source,target)"
    add("--langs", metavar="LANGS", help=order)
    kinds = "learn SentencePiece, or tokenise and truecase by Moses' rules and learn BPE "
    kinds += "(default: %(default)s)"
    add("--tokeniser", choices=TOKENISERS, default=Settings.tokeniser, help=kinds)
    size = "number of pieces of SentencePiece, or of merges of BPE (default: %(default)s)"
    default = Settings.vocabulary_size
    add("--vocabulary-size", type=int, default=default, metavar="N", help=size)
    instance = "stored instances have fewer than N tokens; each sentence counts its longer side "
    instance += "and 2 (default: %(default)s)"
    add("--max-instance-tokens", type=int, default=512, metavar="N", help=instance)
    longer = "drop longer sentences from the training set (default: %(default)s)"
    add("--max-sentence-tokens", type=int, default=1024, metavar="N", help=longer)
    add("--max-sents", type=int, metavar="N", help="stored instances have at most N sentences")
    pairs = "the files have no documents: make each sentence pair a document"
    add("--sentence-pairs", action="store_true", help=pairs)
    same = "use subwords and dictionaries of this prepared corpus or model directory"
    add("--vocabulary", metavar="DIR", help=same)
    add("--sentencepiece", metavar="MODEL", help="use this SentencePiece model")
    add("--sentencepiece-target", metavar="MODEL", help="another model for the target")
    codes = "use these BPE codes (subword-nmt, fastBPE); text is tokenised as by tokenizer.perl -a"
    add("--bpe-codes", metavar="FILE", help=codes)
    words = "dictionary for --sentencepiece or --bpe-codes, or a folder with dict.LANG.txt"
    add("--dictionary", metavar="PATH", help=words)
    bert = "use the wordpieces of this BERT of Hugging Face for the source"
    add("--bert", metavar="DIR", help=bert)
    moses = "normalise punctuation by Moses' rules"
    add("--normalise-punctuation", action="store_true", help=moses)
    add("--overwrite", action="store_true", help="replace a corpus of other files or options")
    processes = "number of processes (default: all cores)"
    add("--workers", type=int, default=cpu_count(), metavar="N", help=processes)


def settings_from(args: argparse.Namespace) -> Settings:
    """Return the options as settings."""
    given = vars(args).copy()
    for name in ("raw", "output", "overwrite", "command_line"):
        del given[name]
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


def main(args: argparse.Namespace) -> None:
    """Prepare a corpus and print its counts."""
    settings = settings_from(args)
    manifest = prepare(args.raw, args.output, settings, args.command_line, args.overwrite)
    print(table(manifest))
    warn(unknown_warnings(manifest))
