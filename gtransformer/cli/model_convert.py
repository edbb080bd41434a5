"""Convert a sentence model in Hugging Face's or Marian's format to a model directory. It translates
documents sentence by sentence. gtransformer run from_sentence_model CORPUS --sentence-model DIR
trains it on documents.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.translation.options import add_search_options


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    model = "folder in Hugging Face's format (OPUS-MT, M2M-100, NLLB-200, mBART-50), or Marian's "
    model += ".npz or .bin file"
    add("source", type=Path, metavar="MODEL", help=model)
    add("output", type=Path, metavar="DIR", help="model directory to write")
    code = "source language; of a multilingual model its own code (en, en_XX, eng_Latn)"
    add("-s", "--source-lang", required=True, metavar="LANG", help=code)
    add("-t", "--target-lang", required=True, metavar="LANG", help="target language")
    words = "Marian: vocabulary of both sides, or of source and target (default: the files next to "
    words += "the model)"
    add("--vocab", nargs="+", type=Path, default=[], metavar="FILE", help=words)
    moses = "Moses' rules for quotes, dashes and the like (default: for the source, if its "
    moses += "vocabulary lacks some that they replace; for the target, if that lacks them, too)"
    add("--normalise-punctuation", choices=("yes", "no"), help=moses)
    add_search_options(parser, "beam 5")


def main(args: argparse.Namespace) -> None:
    """Read the model, write the directory, print its contents."""
    # Imported here, so that --help need not wait for PyTorch.
    from gtransformer.installation import provenance
    from gtransformer.translation.convert import convert

    pair = args.source_lang, args.target_lang
    origin = provenance(args.command_line)
    print(f"reading {args.source}", flush=True)
    normalise = {"yes": True, "no": False}.get(args.normalise_punctuation)
    manifest = convert(args.source, args.output, *pair, vars(args), origin, args.vocab, normalise)
    print(
        f"{args.output}: {pair[0]} to {pair[1]}, from {manifest['converted_from']}, "
        f"{manifest['parameters']:,} parameters"
    )
    if manifest["unknown_signs"]:
        done = "is" if manifest["settings"]["normalise_punctuation"] else "is not"
        print(
            f"the model does not know {' '.join(manifest['unknown_signs'])}: punctuation {done} "
            "normalised by Moses' rules (--normalise-punctuation)"
        )
