"""Convert a sentence model in Hugging Face's or Marian's format to a model directory."""

from __future__ import annotations

import argparse
from pathlib import Path

from gtransformer.cli.parser import CommandParser
from gtransformer.errors import cli_main
from gtransformer.translation.options import add_search_options


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(
        prog="gtransformer model convert",
        description=f"{__doc__} It translates documents sentence by sentence. "
        "gtransformer run from_sentence_model CORPUS --sentence-model DIR trains it on documents.",
    )
    parser.add_argument(
        "source", type=Path, metavar="MODEL",
        help="folder in Hugging Face's format (OPUS-MT, M2M-100, NLLB-200, mBART-50), or Marian's "
        ".npz or .bin file",
    )  # fmt: skip
    parser.add_argument("output", type=Path, metavar="DIR", help="model directory to write")
    parser.add_argument(
        "-s", "--source-lang", required=True, metavar="LANG",
        help="source language; of a multilingual model its own code (en, en_XX, eng_Latn)",
    )  # fmt: skip
    parser.add_argument(
        "-t", "--target-lang", required=True, metavar="LANG", help="target language"
    )
    parser.add_argument(
        "--vocab", nargs="+", type=Path, default=[], metavar="FILE",
        help="Marian: vocabulary of both sides, or of source and target (default: the files next "
             "to "
        "the model)",
    )  # fmt: skip
    parser.add_argument(
        "--normalise-punctuation",
        choices=("yes", "no"),
        help="Moses' rules for quotes, dashes and the like (default: for the source, if its "
        "vocabulary lacks some that they replace; for the target, if that lacks them, too)",
    )
    add_search_options(parser, "beam 5")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Read the model, write the directory, print its contents."""
    args = build_parser().parse_args(argv)

    # Imported here, so that --help need not wait for PyTorch.
    from gtransformer.installation import provenance
    from gtransformer.translation.convert import convert

    pair = args.source_lang, args.target_lang
    origin = provenance("model convert", argv)
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
