"""The steps of ``gtransformer prepare``, from a raw corpus to binary data."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.preprocess import manifest
from gtransformer.preprocess.binarise import binarise, build_dictionary
from gtransformer.preprocess.bpe import Encoder, learn, take_codes
from gtransformer.preprocess.chain import side_pieces
from gtransformer.preprocess.clean import clean_files
from gtransformer.preprocess.corpus import find_splits
from gtransformer.preprocess.instances import write_instances
from gtransformer.preprocess.parallel import Work, map_file
from gtransformer.preprocess.pieces import (
    SENTENCEPIECE_FILE,
    TARGET_PIECES,
    WORDPIECE_FILE,
    WordPieces,
    given_dictionary,
    save_wordpieces,
)
from gtransformer.preprocess.settings import Settings, check_given, with_vocabulary
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser, train_truecaser

Splits = dict[str, tuple[Path, Path]]  # the raw files of each split
STEPS = "steps"  # folder of the intermediate results, which is removed at the end


def prepare(
    raw: str | Path, output: str | Path, settings: Settings, command: str = "", overwrite: bool = False
) -> dict[str, Any]:
    """Prepare the raw corpus ``raw`` in the directory ``output``; return the manifest.

    A corpus that is there already is kept if it was made of the same files with the same settings. Everything is
    written to a temporary directory beside ``output``, which is renamed at the end. Raises UserError for unusable
    input, and without ``overwrite`` for another corpus in ``output``.
    """
    output = Path(output).resolve()
    settings.check()
    settings = with_vocabulary(settings)
    # mBART's language codes have a country (en_XX); names of corpora have none.
    source, target = (plain_language(lang) for lang in settings.pair())
    splits = find_splits(raw, source, target)
    if "train" not in splits and settings.needs_training_set():
        missing = f"concatenated_{source}2{target}_train_{source}.txt"
        raise UserError(
            f"{Path(raw) / missing}: no such file; without training data give --vocabulary with a directory "
            "that was prepared from some"
        )
    check_given(settings)
    wanted = manifest.description(settings, splits)
    if found := manifest.kept(output, wanted, overwrite):
        _report(f"{output}: prepared before from the same files with the same settings, kept")
        return found

    work = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    try:
        counts = build(splits, work, settings)
        shutil.rmtree(work / STEPS)
        made = manifest.write(work, settings, wanted, counts, command)
        if output.exists():  # an earlier corpus, and nothing else (``manifest.kept`` has looked)
            shutil.rmtree(output)
        os.replace(work, output)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def build(splits: Splits, folder: Path, settings: Settings) -> dict[str, dict[str, Any]]:
    """Write all files of a prepared corpus but its manifest into ``folder``; return the counts of each split."""
    pair, plain = settings.pair(), settings.plain()
    cleaned = {split: _clean(split, files, folder, settings) for split, files in splits.items()}
    if settings.bpe_codes:
        _tokenise(splits, folder, settings, "tok")
    else:
        _tokenise(splits, folder, settings, f"{STEPS}/tokenised")
        _truecase(splits, folder, settings)
    if plain:
        _codes(folder, settings)
        _apply_codes(splits, folder, settings)
    if settings.piece_file():
        _apply_pieces(splits, folder, settings)
    cut = {split: _instances(split, folder, settings, cleaned[split].documents) for split in splits}
    dictionaries = _dictionaries(folder, settings)
    unknown = binarise(folder / "instances", list(splits), pair, dictionaries, folder / "bin", settings.workers)
    return {split: manifest.split_counts(cleaned[split], cut[split], unknown[split], pair) for split in splits}


def _clean(split: str, files: tuple[Path, Path], folder: Path, settings: Settings):
    outputs = [folder / "text" / f"{split}.{lang}" for lang in settings.pair()]
    report = clean_files(*files, outputs, f"clean {split}", settings.sentence_pairs, split != "train")
    warn(report.warnings(split, files))
    _report(f"clean {split}: {report.summary()}")
    return report


def _map(splits: Splits, folder: Path, before: str, after: str, lang: str, work: Work, settings: Settings) -> None:
    """Convert one side of all splits line by line, from one folder to another."""
    for split in splits:
        source, target = (folder / name / f"{split}.{lang}" for name in (before, after))
        map_file(work, source, target, settings.workers, f"{after} {source.name}")


def _tokenise(splits: Splits, folder: Path, settings: Settings, after: str) -> None:
    for lang in settings.plain():
        exact = not settings.moses_rules
        tokeniser = Tokeniser(lang, settings.normalise_punctuation, bool(settings.bpe_codes), exact)
        _map(splits, folder, "text", after, lang, tokeniser, settings)
    _report("tokenised")


def _truecase(splits: Splits, folder: Path, settings: Settings) -> None:
    """Learn or borrow the truecasers and apply them."""
    exact = not settings.moses_rules
    for lang in settings.plain():
        model = folder / f"truecase.{lang}"
        if settings.vocabulary:
            shutil.copy(Path(settings.vocabulary) / model.name, model)
        else:
            train_truecaser(folder / STEPS / "tokenised" / f"train.{lang}", model, settings.workers, exact)
        _map(splits, folder, f"{STEPS}/tokenised", "tok", lang, Truecaser(model, exact), settings)
    _report("truecased")


def _codes(folder: Path, settings: Settings) -> None:
    """Take given BPE codes, borrow or learn them."""
    codes = folder / "bpe.codes"
    if settings.bpe_codes:
        take_codes(settings.bpe_codes, codes)
    elif settings.vocabulary:
        shutil.copy(Path(settings.vocabulary) / codes.name, codes)
    else:
        files = [folder / "tok" / f"train.{lang}" for lang in settings.plain()]
        learnt = learn(files, codes, settings.bpe_merges, settings.workers)
        _report(f"BPE: {learnt} merges of {settings.bpe_merges} asked for")


def _apply_codes(splits: Splits, folder: Path, settings: Settings) -> None:
    """Split tokenised text by BPE, with given codes into subwords of the given dictionary only."""
    langs, known = settings.plain(), {}
    if settings.bpe_codes:
        dictionaries = [dictionary_words(path) for path in settings.given_dictionaries()]
        known = dict(zip(langs, dictionaries * 2, strict=False))
    for lang in langs:
        encoder = Encoder(folder / "bpe.codes", known.get(lang))
        _map(splits, folder, "tok", f"{STEPS}/bpe", lang, encoder, settings)
    _report("BPE applied")


def _apply_pieces(splits: Splits, folder: Path, settings: Settings) -> None:
    """Copy the pretrained model's subword models, for new text, and split plain text by them."""
    makers: dict[str, Callable[[], Work]]
    if settings.bert:
        save_wordpieces(settings.bert, folder / WORDPIECE_FILE)
        makers = {settings.source_lang: partial(WordPieces, folder / WORDPIECE_FILE)}
    else:
        shutil.copy(settings.sentencepiece, folder / SENTENCEPIECE_FILE)
        if settings.sentencepiece_target:
            shutil.copy(settings.sentencepiece_target, folder / TARGET_PIECES)
        source, target = settings.pair()
        makers = {
            source: partial(side_pieces, folder, vars(settings), False),
            target: partial(side_pieces, folder, vars(settings), True),
        }
    for lang, make in makers.items():
        _map(splits, folder, "text", f"{STEPS}/bpe", lang, make(), settings)
    _report("split into pieces")


def _instances(split: str, folder: Path, settings: Settings, documents: int):
    longest = settings.max_sentence_tokens if split == "train" else None
    report = write_instances(
        *(folder / STEPS / "bpe" / f"{split}.{lang}" for lang in settings.pair()),
        folder / "instances",
        split,
        settings.pair(),
        settings.max_instance_tokens,
        settings.max_sents,
        longest,
        documents,
    )
    if report.dropped_too_long:
        dropped = f"{split}: dropped {report.dropped_too_long} sentences longer than {longest} tokens"
        warn([f"{dropped} (--max-sentence-tokens)"])
    _report(f"instances {split}: {report.summary()}")
    return report


def _dictionaries(folder: Path, settings: Settings) -> list[Path]:
    """Write the dictionaries: one for both sides, or source's and target's. Return their files.

    A pretrained model's dictionary gets the language symbols. BERT's source has its wordpieces.
    """
    steps, given = folder / STEPS, settings.given_dictionaries()
    if settings.bert:
        given = [folder / WORDPIECE_FILE]
    outputs = [steps / f"dict.{lang}.txt" for lang in settings.pair()]
    if not settings.bert and len(given) < 2:
        outputs = [steps / "dict.txt"]
    for source, output in zip(given, outputs, strict=False):
        given_dictionary(source, settings.order(), output)
    if settings.vocabulary:
        shutil.copy(settings.given_files()[-1], outputs[-1])
    elif len(given) < len(outputs):
        files = [folder / "instances" / f"train.{lang}" for lang in settings.plain()]
        build_dictionary(files, settings.order(), outputs[-1], settings.workers)
    return outputs


def warn(warnings: Iterable[str]) -> None:
    """Print warnings for the user."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _report(line: str) -> None:
    print(f"| {line}", file=sys.stderr, flush=True)
