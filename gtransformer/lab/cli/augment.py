"""Make more training documents with a model: by translation or by target-side augmentation.

Every kind writes a training set in the raw corpus format.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from gtransformer.cli.parser import CommandParser
from gtransformer.data.dictionaries import NEVER
from gtransformer.errors import UserError
from gtransformer.lab.augmentation.held_out import HeldOut
from gtransformer.lab.augmentation.observed import (
    GAP,
    SEPARATOR,
    is_plain,
    random_numbers,
    with_observed,
)
from gtransformer.preprocess.clean import CleanReport, clean_documents
from gtransformer.preprocess.corpus import DOCUMENT, Pair, find_splits, read_documents
from gtransformer.preprocess.formats import write_split
from gtransformer.preprocess.plain_text import read_plain

if TYPE_CHECKING:
    from gtransformer.translation.api import GTransformer

BACK, FORWARD, OBSERVE, TARGET = "back", "forward", "observe", "target"
# Of target: label smoothing gives improbable words a tenth of the probability (our choice).
TOPK = 10
AT_ONCE = 64  # documents
# No token of the raw format.
_RESERVED = {token: f"< {token[1:]}" for token in (DOCUMENT, "<s>", "</s>")}

Documents = list[list[Pair]]


def add_options(parser: CommandParser) -> None:
    """Add the command's options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="back|forward|observe|target")
    for kind, text, what in (
        (BACK, "TEXT", "back-translation: target documents, and their translation as the source"),
        (
            FORWARD,
            "TEXT",
            "forward translation: source documents, and their translation as the target",
        ),
        (
            OBSERVE,
            "CORPUS",
            "corpus to train an augmentation model on: the source with words of the target",
        ),
        (
            TARGET,
            "CORPUS",
            "the training source, several times, and targets of an augmentation model",
        ),
    ):
        one = kinds.add_parser(kind, help=what)
        monolingual = kind in (BACK, FORWARD)
        one.add_argument("text", type=Path, metavar=text, help="plain text, or a raw corpus")
        one.add_argument("output", type=Path, metavar="OUT", help="raw corpus to write")
        one.add_argument(
            "-s",
            "--source-lang",
            default="en",
            metavar="LANG",
            help="source language (default: en)",
        )
        one.add_argument(
            "-t",
            "--target-lang",
            default="de",
            metavar="LANG",
            help="target language (default: de)",
        )
        one.add_argument(
            "--held-out",
            type=Path,
            nargs="+",
            required=monolingual,
            default=[],
            metavar="CORPUS",
            help="raw corpora with dev and test documents that are refused",
        )
        one.add_argument(
            "--skip-held-out", action="store_true", help="leave such documents out instead"
        )
        one.add_argument(
            "--seed", type=int, default=1, metavar="N", help="random seed (default: 1)"
        )
        if not monolingual:
            copies = {OBSERVE: 1, TARGET: 9}[kind]
            one.add_argument(
                "--copies",
                type=int,
                default=copies,
                metavar="N",
                help="number of copies of each document (default: %(default)s)",
            )
        if kind != OBSERVE:
            one.add_argument(
                "--model", type=Path, required=True, metavar="DIR", help="model directory"
            )
            one.add_argument(
                "--tag", default="", metavar="WORD", help="word to put after each source sentence"
            )
            one.add_argument("--beam", type=int, metavar="N", help="beam size")
            one.add_argument(
                "--sampling-topk",
                type=int,
                metavar="N",
                help="draw words from the N most probable ones; 0: from all",
            )
            one.add_argument("--strategy", help="how documents are decoded (docs/translate.md)")
            one.add_argument("--max-tokens", type=int, metavar="N", help="source tokens of a batch")
            one.add_argument("--cpu", action="store_true", help="do not use a GPU")


def main(args: argparse.Namespace) -> None:
    """Select documents, translate them if the kind does, write the corpus."""
    if args.output.resolve() == args.text.resolve():
        raise UserError(
            f"{args.output}: is the corpus that is read; name another directory to write to"
        )
    if args.kind in (BACK, FORWARD):
        texts = read_plain(args.text)[0]
        documents = select(args, ([(text, text) for text in document] for document in texts))
        return write(args, "train", translated(args, documents))
    splits = find_splits(args.text, args.source_lang, args.target_lang)
    documents = plain(select(args, read_documents(*splits["train"])))
    if args.kind == TARGET:
        return write(args, "train", targets(args, documents))
    write(args, "train", with_words(documents, args.copies, args.seed))
    dev = clean_documents(read_documents(*splits["valid"]), CleanReport())
    return write(args, "dev", with_words(plain(dev), 1, args.seed))


def write(args: argparse.Namespace, split: str, documents: Iterable[list[Pair]]) -> None:
    """Write a split and print its counts."""
    written = write_split(args.output, split, (args.source_lang, args.target_lang), documents)
    print(f"{split}: {written.documents} documents, {written.sentences} sentences")
    if written.half_empty:
        print(
            f"note: {written.half_empty} sentences have an empty translation; gtransformer prepare "
            "leaves them out"
        )


def select(args: argparse.Namespace, documents: Iterable[list[Pair]]) -> Documents:
    """Return the documents, cleaned, that are not held out. Raise UserError for one that is, but
    with its option."""
    langs, corpora = (args.source_lang, args.target_lang), list(args.held_out)
    if args.text.is_dir():
        corpora.append(args.text)
    held_out, kept, left_out = HeldOut(corpora, langs), [], 0
    for document in clean_documents(documents, CleanReport()):
        name = held_out.find([source for source, _ in document]) or held_out.find(
            [target for _, target in document]
        )
        if name is None:
            kept.append(document)
        elif args.skip_held_out:
            left_out += 1
        else:
            raise UserError(
                f"{args.text}: the document that begins '{document[0][0][:40]}' is held out: it "
                f"is, or has much of, {name}; remove it, or leave such documents out with "
                "--skip-held-out"
            )
    print(f"selected: {len(kept)} documents; left out, because they are held out: {left_out}")
    return kept


def plain(documents: Iterable[list[Pair]]) -> Documents:
    """Return the documents without sentences that have the signs of observed words."""
    kept = ([pair for pair in document if all(map(is_plain, pair))] for document in documents)
    return list(filter(None, kept))


def with_words(documents: Documents, copies: int, seed: int, unseen: bool = False) -> Documents:
    """Return each document ``copies`` times, with newly drawn observed words behind each source
    sentence.

    ``unseen``: drawn apart from those that an augmentation model is trained on.
    """
    drawn = []
    for number, document in enumerate(documents):
        for copy in range(copies):
            random = random_numbers(seed, copy, number, unseen)
            drawn.append([(with_observed(*pair, random), pair[1]) for pair in document])
    return drawn


def translated(args: argparse.Namespace, documents: Documents) -> Iterator[list[Pair]]:
    """Yield the documents of a text with their translations, source first."""
    model = load(args, args.kind == BACK)
    for document, lines in in_parts(args, model, documents):
        pairs = (
            zip(lines, document, strict=True)
            if args.kind == BACK
            else zip(document, lines, strict=True)
        )
        yield [(tagged(args, source), target) for source, target in pairs]


def targets(args: argparse.Namespace, documents: Documents) -> Iterator[list[Pair]]:
    """Yield the documents, several times, with targets of an augmentation model."""
    model = load(args)
    engine = model.engine
    (signs,) = model.encode([f"{SEPARATOR} {GAP}"])
    if not all(sign in engine.source.indices for sign in signs):
        raise UserError(
            f"{args.model}: its vocabulary lacks {SEPARATOR} or {GAP}; train it on what observe "
            "writes"
        )
    engine.never = [index for index, word in enumerate(engine.target.symbols) if not is_plain(word)]
    sources = [
        [source for source, _ in document] for document in documents for _ in range(args.copies)
    ]
    drawn = with_words(documents, args.copies, args.seed, unseen=True)
    for source, (_, lines) in zip(sources, in_parts(args, model, drawn), strict=True):
        yield [(tagged(args, sentence), line) for sentence, line in zip(source, lines, strict=True)]


def tagged(args: argparse.Namespace, source: str) -> str:
    """Return a source sentence with the tag behind it; an empty one stays empty."""
    return f"{source} {args.tag}" if args.tag and source else source


def load(args: argparse.Namespace, reverse: bool = False) -> GTransformer:
    """Load the model. Raise UserError if it translates other languages."""
    from gtransformer.translation.api import GTransformer

    model = GTransformer.from_pretrained(args.model, device="cpu" if args.cpu else None)
    langs = (args.source_lang, args.target_lang)
    found = (model.directory.source_lang, model.directory.target_lang)
    if found != (langs[::-1] if reverse else langs):
        raise UserError(f"{args.model}: translates {'-'.join(found)}, not what {args.kind} needs")
    return model


def in_parts(
    args: argparse.Namespace, model: GTransformer, documents: Documents
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each document's source sentences and their translations. Parts of the text have
    different seeds."""
    search = {
        name: getattr(args, name) for name in ("beam", "sampling_topk", "strategy", "max_tokens")
    }
    search = {name: value for name, value in search.items() if value is not None}
    if args.kind == TARGET:
        search.setdefault("sampling_topk", TOPK)
    sampling = "sampling_topk" in search
    for first in tqdm(range(0, len(documents), AT_ONCE), desc="translate", file=sys.stderr):
        part = [
            [source for source, _ in document] for document in documents[first : first + AT_ONCE]
        ]
        # Without the penalty, a model would learn to write <unk>.
        search |= {"seed": args.seed + first} if sampling else {"unkpen": NEVER}
        lines = model.translate(part, sentence_rule="on", **search)
        for sentences, line in zip(part, lines, strict=True):
            yield sentences, list(map(without_tokens, line))


def without_tokens(line: str) -> str:
    """Return a translation with a blank in each token of the raw format."""
    for token, harmless in _RESERVED.items():
        line = line.replace(token, harmless)
    return line
