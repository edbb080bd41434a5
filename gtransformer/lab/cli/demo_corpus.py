"""Write a seeded English-German corpus whose correct German needs the context of the document, in
the raw corpus format, with a contrastive test set. The same options give the same bytes everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from gtransformer.cli.parser import CommandParser
from gtransformer.lab.demo.corpus import write_corpus
from gtransformer.lab.demo.shipped import DEV_DOCUMENTS, DOCUMENTS, TEST_DOCUMENTS


def at_least(low: int) -> Callable[[str], int]:
    """Return an argparse type: whole numbers of at least ``low``."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {low}")
        return value

    return number


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Add the options for the sizes of the splits and for the seed."""
    for option, default, split in (
        ("--documents", DOCUMENTS, "training"),
        ("--dev-documents", DEV_DOCUMENTS, "development"),
        ("--test-documents", TEST_DOCUMENTS, "test"),
    ):
        parser.add_argument(
            option,
            type=at_least(1),
            default=default,
            metavar="N",
            help=f"{split} documents (default {default})",
        )
    parser.add_argument(
        "--seed",
        type=at_least(0),
        default=1,
        metavar="N",
        help="random seed of the corpus (default 1)",
    )


def split_sizes(options: argparse.Namespace) -> dict[str, int]:
    """Return documents by split, from the options for sizes."""
    return {
        "train": options.documents,
        "dev": options.dev_documents,
        "test": options.test_documents,
    }


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="directory to write to (made if missing)"
    )
    add_sizes(parser)
    parser.add_argument(
        "--contrastive-items",
        type=at_least(1),
        default=300,
        metavar="N",
        help="most contrastive items, evenly over phenomena and documents (default 300)",
    )


def print_splits(splits: dict[str, dict]) -> None:
    """Print a line for every split."""
    for split, counts in splits.items():
        print(
            f"{split}: {counts['documents']} documents, {counts['sentences']} sentences, per "
            f"document {counts['tokens_per_document_en']['mean']} English and "
            f"{counts['tokens_per_document_de']['mean']} German tokens; word types "
            f"{counts['word_types_en']} and {counts['word_types_de']}"
        )


def print_seen(shares: dict[str, float]) -> None:
    """Print the share of each split's sentences that are also in training."""
    print(
        "sentences that are also in training: "
        + ", ".join(f"{s} {v:.1%}" for s, v in shares.items())
    )


def main(options: argparse.Namespace) -> None:
    """Run the command; raises SystemExit with status 2 on a wrong option."""
    summary = write_corpus(
        options.output, split_sizes(options), options.seed, options.contrastive_items
    )
    print_splits(summary["splits"])
    print_seen(summary["seen_in_training"])
    items = ", ".join(
        f"{count} {phenomenon}" for phenomenon, count in summary["contrastive_items"].items()
    )
    print(f"contrastive items: {items}")
    print(f"written to {options.output}")
