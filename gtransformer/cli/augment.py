"""Make more training documents with a model: back-translation, forward translation, target-side augmentation.

Every kind writes a training set in the raw corpus format.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gtransformer.cli.parser import CommandParser
from gtransformer.data.dictionaries import NEVER
from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError, cli_main
from gtransformer.evaluation.provenance import provenance
from gtransformer.files import atomic_write, read_lines, write_json
from gtransformer.preprocess.augment import (
    HeldOut,
    Selection,
    read_translated,
    select,
    with_observed_words,
    write_text,
)
from gtransformer.preprocess.characters import clean_line, is_blank
from gtransformer.preprocess.corpus import BOTH_SIDES, SPLITS, Pair, check_reserved, find_splits
from gtransformer.preprocess.formats import Written, write_split
from gtransformer.preprocess.observed import GAP, SEPARATOR, is_plain, without_observed
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.settings import shard_numbers
from gtransformer.search.strategies import PARALLEL, PRECISIONS
from gtransformer.translation.options import SearchOptions, add_search_options
from gtransformer.work import read_record, take_lock

if TYPE_CHECKING:
    from gtransformer.translation.api import GTransformer

BACK, FORWARD, OBSERVE, TARGET = "back", "forward", "observe", "target"
WORK = "augment"  # the folder in the output with what the model reads and writes,
MADE = "made.json"  # and how it was made
OTHER_CORPORA = ("concatenated_*", *(f"{split}{end}*" for split in SPLITS for end in BOTH_SIDES))  # names of files
TOPK = 10  # of target: label smoothing gives improbable words a tenth of the probability (our choice)


def build_parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    parser = CommandParser(prog="gtransformer augment", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="back|forward|observe|target")
    for kind, text, what in (
        (BACK, "TEXT", "documents of the target language, and their translation as the source"),
        (FORWARD, "TEXT", "documents of the source language, and their translation as the target"),
        (OBSERVE, "CORPUS", "the corpus to train an augmentation model on: the source with observed target words"),
        (TARGET, "CORPUS", "the training source, several times, and translations by an augmentation model"),
    ):
        one = kinds.add_parser(kind, help=what, description=f"{what[0].upper()}{what[1:]}.")
        add = one.add_argument
        monolingual, translates = kind in (BACK, FORWARD), kind != OBSERVE
        add("text", type=Path, metavar=text, help="plain text" if monolingual else "directory of a raw corpus")
        add("output", type=Path, metavar="OUT", help="directory of the raw corpus to write")
        add("-s", "--source-lang", default="en", help="of the corpus that is written (%(default)s)")
        add("-t", "--target-lang", default="de", help="(%(default)s)")
        add(
            "--held-out", type=Path, nargs="+", required=monolingual, default=[], metavar="CORPUS",
            help="raw corpora whose dev and test documents must not be augmented"
            + ("" if monolingual else " either, besides CORPUS"),
        )  # fmt: skip
        add("--skip-held-out", action="store_true", help="leave such documents out instead of refusing them")
        add("--sentence-pairs", action="store_true", help="text without documents: each sentence is one")
        if translates:
            add("--shard", metavar="I/N", help="every Nth document, from the Ith (from 0)")
            add("--tag", metavar="WORD", help="put this behind each source sentence that is written")
            add_model_options(one)
        if kind == OBSERVE:
            add("--seed", type=int, default=1, help="another seed draws other words (%(default)s)")
        if not monolingual:
            copies = {OBSERVE: 1, TARGET: 9}[kind]
            add("--copies", type=int, default=copies, help="how often each training document is drawn (%(default)s)")
    return parser


@cli_main
def main(argv: list[str] | None = None) -> None:
    """Select documents, translate them if the kind does, write the corpus."""
    args = build_parser().parse_args(argv)
    check(args)
    origin = provenance("augment", argv)
    counts = observe(args) if args.kind == OBSERVE else translate(args)
    write_json(args.output / WORK / MADE, {"version": 1, "kind": args.kind, **origin, "selected": vars(counts)})


def check(args: argparse.Namespace) -> None:
    """Raise UserError for values that cannot be."""
    before = read_record(args.output / WORK / MADE).get("kind", args.kind)
    if before != args.kind:
        raise UserError(f"{args.output}: was made by gtransformer augment {before}; name another directory")
    if args.output.exists() and not args.output.is_dir():
        raise UserError(f"{args.output}: is no directory; name one to write to")
    if any(any(args.output.glob(one)) for one in OTHER_CORPORA) and not (args.output / WORK).is_dir():
        raise UserError(f"{args.output}: has a corpus already, which is not of this command; name another directory")
    if args.text.is_dir() == monolingual(args):
        what = "is a directory; give a text" if monolingual(args) else "no such directory; give that of a raw corpus"
        raise UserError(f"{args.text}: {what}")
    if monolingual(args) and args.text.exists() and not args.text.is_file():
        raise UserError(f"{args.text}: is a pipe, which can be read once only; write the text to a file")
    if not monolingual(args):
        if args.copies < 1:
            raise UserError(f"--copies {args.copies}: give 1 or more")
        if args.seed is not None and args.seed < 0:
            raise UserError(f"--seed {args.seed}: must not be negative")
    if args.kind == OBSERVE:
        return
    if args.unkpen is not None:
        raise UserError(f"--unkpen {args.unkpen}: <unk> is never written; leave it out")
    if args.sentence_rule == "off":
        raise UserError("--sentence-rule off: lines would not stay aligned; leave it out")
    if args.kind == TARGET and (args.beam or 1) > 1:
        raise UserError(f"--beam {args.beam}: {TARGET} draws words instead of searching; leave it out")
    if args.kind == TARGET and args.strategy == PARALLEL:
        raise UserError(f"--strategy {PARALLEL}: {TARGET} draws words, and this is for beam search; leave it out")
    tag = args.tag
    if tag is not None and (len(tag.split()) != 1 or clean_line(tag) != tag or not is_plain(tag)):
        raise UserError(f"--tag {tag!r}: give a word of visible characters, without {SEPARATOR} and {GAP}")
    check_reserved("--tag", "its word", tag or "")


def add_model_options(parser: CommandParser) -> None:
    """Add the options of a model that translates."""
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="made by gtransformer export")
    add_search_options(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_user_dir()
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="of products")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def monolingual(args: argparse.Namespace) -> bool:
    """Return whether a text in one language is augmented."""
    return args.kind in (BACK, FORWARD)


def pair_of(args: argparse.Namespace) -> tuple[str, str]:
    """Return source and target language of the corpus that is written."""
    return args.source_lang, args.target_lang


def held_out(args: argparse.Namespace) -> HeldOut:
    """Return the documents that must not be augmented."""
    corpora = args.held_out
    if not monolingual(args) and {"valid", "test"} & find_splits(args.text, *pair_of(args)).keys():
        corpora = [args.text, *corpora]
    if not corpora:
        raise UserError(f"{args.text}: has neither a dev nor a test set; name a corpus that has one with --held-out")
    return HeldOut(corpora, pair_of(args), args.sentence_pairs)


def training_files(args: argparse.Namespace) -> tuple[Path, Path]:
    """Return the files to augment. Raise UserError for a corpus without training set."""
    if monolingual(args):
        return args.text, args.text
    splits = find_splits(args.text, *pair_of(args))
    if "train" not in splits:
        raise UserError(f"{args.text}: has no training set for {'-'.join(pair_of(args))}; name a corpus that has one")
    return splits["train"]


def observe(args: argparse.Namespace) -> Selection:
    """Write training and dev set with observed words behind the source sentences; return counts of the former."""
    langs = pair_of(args)
    options = {"langs": langs, "plain": True, "sentence_pairs": args.sentence_pairs}
    train, dev = training_files(args), find_splits(args.text, *langs).get("valid")
    if dev is None:
        raise UserError(f"{args.text}: has no dev set, which training needs; add one")
    counts, of_dev = Selection(), Selection()
    documents = select(train, held_out(args), counts, skip=args.skip_held_out, **options)
    documents = progress(documents, "select", unit=" documents")
    of_train = (document for _, document in with_observed_words(documents, args.copies, args.seed))
    with locked(args):
        report(write_split(args.output, "train", langs, of_train), counts)
        documents = with_observed_words(select(dev, HeldOut([], langs), of_dev, **options), 1, args.seed)
        report(write_split(args.output, "dev", langs, (document for _, document in documents)), of_dev)
    return counts


def translate(args: argparse.Namespace) -> Selection:
    """Write a training set of which a model translates one side; what is finished is kept. Return counts."""
    langs, share = pair_of(args), shard_numbers(args.shard)
    files, forbidden = training_files(args), held_out(args)
    from gtransformer.translation.api import GTransformer

    args.sentence_rule = "on"
    model = GTransformer.from_pretrained(args.model, "cpu" if args.cpu else None, args.precision)
    if args.sampling_topk is None and model.options.sampling_topk is None:
        if args.kind == TARGET:
            args.sampling_topk = TOPK
        else:
            args.unkpen = NEVER  # a model would learn to write <unk>
    options = model.options.given(vars(args))
    check_model(args, model)
    counts = Selection()
    documents = select(
        files, forbidden, counts, share, skip=args.skip_held_out, plain=args.kind == TARGET,
        sentence_pairs=args.sentence_pairs, langs=None if monolingual(args) else langs,
    )  # fmt: skip
    documents = progress(documents, "select", unit=" documents", disable=args.quiet)
    if args.kind == TARGET:
        seed = 1 if options.seed is None else options.seed
        documents = with_observed_words(documents, args.copies, seed, unseen=True)
    text, translation = (args.output / WORK / name for name in ("text.txt", "translation.txt"))
    with locked(args):
        write_text(text, ([source for source, _ in document] for _, document in documents))
        translate_text(model, options, text, translation)
        report(write_split(args.output, "train", langs, arranged(args, read_translated(text, translation))), counts)
    return counts


def locked(args: argparse.Namespace) -> BinaryIO:
    """Lock the output against a second run, which would replace the text of which this one writes the translation."""
    busy = "another run is writing to it; wait for it, or name another directory"
    return take_lock(args.output / WORK / "lock", args.output, busy)


def translate_text(model: GTransformer, options: SearchOptions, text: Path, translation: Path) -> None:
    """Translate a file, line by line."""
    with atomic_write(translation) as stream:
        for window in model.translate_lines(read_lines(text), options):
            stream.writelines(f"{translated.as_text(False, False)}\n" for translated in window)


def arranged(args: argparse.Namespace, translated: Iterable[list[Pair]]) -> Iterator[list[Pair]]:
    """Yield the documents that are written, source first, given what the model read and wrote."""
    behind = "" if args.tag is None else f" {args.tag}"
    for document in translated:
        pairs = document
        if args.kind == BACK:
            pairs = [(written, read) for read, written in document]
        elif args.kind == TARGET:
            pairs = [(without_observed(read), written) for read, written in document]
        yield [(source if is_blank(source) else f"{source}{behind}", target) for source, target in pairs]


def check_model(args: argparse.Namespace, model: GTransformer) -> None:
    """Raise UserError for a model of other languages, and for one that knows no observed words where it needs to."""
    langs, directory = pair_of(args), model.directory
    wanted, found = langs[::-1] if args.kind == BACK else langs, (directory.source_lang, directory.target_lang)
    if [plain_language(lang) for lang in wanted] != [plain_language(lang) for lang in found]:
        raise UserError(
            f"{args.model}: translates {'-'.join(found)}, but {args.kind} for {'-'.join(langs)} needs a model "
            f"{'-'.join(wanted)}; give another --model, or other languages with -s and -t"
        )
    if args.kind == TARGET:
        (signs,), known = model.chain.encode([f"{SEPARATOR} {GAP}"]), model.engine.source
        if not all(sign in known for sign in signs):
            raise UserError(
                f"{args.model}: no augmentation model, because its vocabulary lacks {SEPARATOR} or {GAP}; train one on "
                "the corpus of gtransformer augment observe"
            )
        words = enumerate(model.engine.target.symbols)
        model.engine.never = [index for index, word in words if not is_plain(word)]  # a joined vocabulary has them


def report(written: Written, counts: Selection) -> None:
    """Print what was written and left out."""
    for path in written.files:
        print(f"written: {path}")
    print(f"{written.documents} documents, {written.sentences} sentences; selected: {counts.documents} documents")
    if written.half_empty:
        print(f"note: {written.half_empty} sentences have an empty translation; gtransformer prepare leaves them out")
    if counts.held_out:
        print(f"note: {counts.held_out} documents were left out, because they are held out")
    if counts.with_signs:
        print(f"note: {counts.with_signs} sentence pairs were left out, because they have {SEPARATOR} or {GAP}")


if __name__ == "__main__":
    raise SystemExit(main())
