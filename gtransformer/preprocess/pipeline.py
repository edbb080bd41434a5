"""The steps of ``gtransformer prepare``, from a raw corpus to binary data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.errors import UserError
from gtransformer.files import atomic_directory, write_lines
from gtransformer.preprocess import manifest
from gtransformer.preprocess.chain import (
    CODES,
    SENTENCEPIECE_FILE,
    TARGET_PIECES,
    TRUECASER,
    WORDPIECE_FILE,
    Text,
    text_files,
    text_of,
)
from gtransformer.preprocess.clean import clean_files
from gtransformer.preprocess.corpus import find_splits, raw_file
from gtransformer.preprocess.instances import (
    binarise,
    count_words,
    write_dictionary,
    write_instances,
)
from gtransformer.preprocess.manifest import MOSES, Settings, check_given, with_vocabulary
from gtransformer.preprocess.parallel import map_file, sentences
from gtransformer.preprocess.tokenisers import (
    Moses,
    SentencePieces,
    WordPieces,
    learn_codes,
    learn_sentencepiece,
    learn_truecaser,
    read_codes,
    save_wordpieces,
)

STEPS = "steps"  # folder of the intermediate results, which is removed at the end


def prepare(
    raw: str | Path,
    output: str | Path,
    settings: Settings,
    command: str = "",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Prepare the raw corpus ``raw`` in the directory ``output``; return the manifest.

    A corpus that is there already is kept if it was made of the same files with the same settings.
    Everything is written to a temporary directory beside ``output``, which is renamed at the end.
    Raises UserError for unusable input, and without ``overwrite`` for another corpus in ``output``.
    """
    output = Path(output).resolve()
    settings.check()
    settings = with_vocabulary(settings)
    splits = find_splits(raw, *settings.pair())
    if "train" not in splits and settings.learnt():
        missing = raw_file(Path(raw), settings.pair(), "train", settings.source_lang)
        raise UserError(
            f"{missing}: no such file; without training data give --vocabulary with a directory "
            "that was prepared from some"
        )
    check_given(settings)
    # Before any work: a corpus that exists is kept or refused at once.
    requested = manifest.description(settings, splits)
    if found := manifest.kept(output, requested, overwrite):
        _report(f"{output}: prepared before from the same files with the same settings, kept")
        return found

    with atomic_directory(output) as work:
        counts = build(splits, work, settings)
        shutil.rmtree(work / STEPS)
        made = manifest.write(work, settings, requested, counts, command)
        if output.exists():  # an earlier corpus, and nothing else (``manifest.kept`` has looked)
            shutil.rmtree(output)
    return made


def build(
    splits: dict[str, tuple[Path, Path]], folder: Path, settings: Settings
) -> dict[str, dict[str, Any]]:
    """Write all files of a prepared corpus but its manifest into ``folder``; return the counts of
    each split.

    Args:
        splits: the raw files of each.
    """
    pair, cleaned, cut = settings.pair(), {}, {}
    for split, files in splits.items():
        outputs = [folder / "text" / f"{split}.{lang}" for lang in pair]
        cleaned[split] = clean_files(
            *files, outputs, f"clean {split}", settings.sentence_pairs, split != "train"
        )
        warn(cleaned[split].warnings(split, files))
        _report(f"clean {split}: {cleaned[split].summary()}")

    # With BERT the source is given and the target is learnt, so both may happen.
    take_given(folder, settings)
    if settings.learnt() and settings.tokeniser == MOSES:
        learn_moses(folder, settings)
    elif settings.learnt():
        learn_pieces(folder, settings)

    for lang in pair:
        # By the files that are in the folder now, as whoever translates will do.
        text = text_of(folder, vars(settings), lang)
        for split in splits:
            source, work = folder / "text" / f"{split}.{lang}", text.encode
            truecased = folder / STEPS / "truecased" / source.name
            # Tokenising again would take as long as all the rest.
            if truecased.is_file():  # to learn BPE
                source, work = truecased, text.splitter.subwords
            map_file(
                work,
                source,
                folder / STEPS / "subwords" / source.name,
                settings.workers,
                f"split {source.name}",
            )
    _report("split into subwords")

    for split in splits:
        cut[split] = write_instances(
            *(folder / STEPS / "subwords" / f"{split}.{lang}" for lang in pair),
            folder / "instances",
            split,
            pair,
            settings.max_instance_tokens,
            settings.max_sents,
            # Dev and test keep their long sentences: a score over fewer of them would not be
            # comparable.
            settings.max_sentence_tokens if split == "train" else None,
            cleaned[split].documents,
        )
        if too_long := cut[split].dropped_too_long:
            longest = f"{settings.max_sentence_tokens} tokens (--max-sentence-tokens)"
            warn([f"{split}: dropped {too_long} sentences longer than {longest}"])
        _report(f"instances {split}: {cut[split].instances}")

    if settings.learnt():
        if settings.tokeniser == MOSES:
            counts = count_words(
                [folder / "instances" / f"train.{lang}" for lang in settings.learnt()]
            )
        else:
            # All pieces belong to the dictionary, also those that training does not use: another
            # corpus may.
            counts = dict.fromkeys(SentencePieces(folder / SENTENCEPIECE_FILE).words(), 1)
        for lang in settings.learnt():
            write_dictionary(counts, settings.order(), folder / "bin" / f"dict.{lang}.txt")
    unknown = binarise(folder / "instances", list(splits), pair, folder / "bin", settings.workers)
    return {
        split: manifest.split_counts(cleaned[split], cut[split], unknown[split], pair)
        for split in splits
    }


def take_given(folder: Path, settings: Settings) -> None:
    """Copy the models that split text, and the dictionaries, as far as they are given."""
    pair, dictionaries = settings.pair(), settings.dictionaries()
    (folder / "bin").mkdir()
    if settings.vocabulary:
        for path in text_files(Path(settings.vocabulary)):
            shutil.copy(path, folder)
        for path in dictionaries:
            shutil.copy(path, folder / "bin")
        return
    words = {lang: dictionary_words(path) for lang, path in zip(pair, dictionaries, strict=False)}
    if settings.sentencepiece:
        shutil.copy(settings.sentencepiece, folder / SENTENCEPIECE_FILE)
        if settings.sentencepiece_target:
            shutil.copy(settings.sentencepiece_target, folder / TARGET_PIECES)
    elif settings.bpe_codes:
        write_lines(folder / CODES, read_codes(settings.bpe_codes))
    elif settings.bert:
        save_wordpieces(settings.bert, folder / WORDPIECE_FILE)
        # BERT's own vocabulary file also has special tokens, which fairseq adds itself.
        words[settings.source_lang] = WordPieces(folder / WORDPIECE_FILE).words()
    for lang, known in words.items():
        write_dictionary(
            dict.fromkeys(known, 1), settings.order(), folder / "bin" / f"dict.{lang}.txt"
        )


def learn_pieces(folder: Path, settings: Settings) -> None:
    """Learn SentencePiece on the training text of all learnt languages together."""
    _report("learning SentencePiece")
    texts = []
    for lang in settings.learnt():
        text = Text(None, lang, settings.normalise_punctuation)
        texts.append(map(text.normalised, sentences(folder / "text" / f"train.{lang}")))
    model = folder / SENTENCEPIECE_FILE
    learn_sentencepiece(chain(*texts), model, settings.vocabulary_size, settings.workers)
    _report(f"SentencePiece: {len(SentencePieces(model).words())} pieces")


def learn_moses(folder: Path, settings: Settings) -> None:
    """Learn a truecaser for each learnt language, and BPE on all of them together.

    The training text is tokenised and truecased for it; ``steps/truecased`` holds the result.
    """
    files = []
    for lang in settings.learnt():
        name, model = f"train.{lang}", folder / f"{TRUECASER}{lang}"
        tokenised, truecased = (folder / STEPS / step / name for step in ("tokenised", "truecased"))
        text = Text(Moses(lang), lang, settings.normalise_punctuation)
        map_file(
            text.encode, folder / "text" / name, tokenised, settings.workers, f"tokenise {name}"
        )
        learn_truecaser(sentences(tokenised), model)
        map_file(
            Moses(lang, model).truecase, tokenised, truecased, settings.workers, f"truecase {name}"
        )
        files.append(truecased)
    _report("tokenised and truecased; learning BPE")
    lines = chain.from_iterable(map(sentences, files))
    learnt = learn_codes(lines, folder / CODES, settings.vocabulary_size)
    _report(f"BPE: {learnt} merges of {settings.vocabulary_size} asked for")


def warn(warnings: Iterable[str]) -> None:
    """Print warnings for the user."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _report(line: str) -> None:
    print(f"| {line}", file=sys.stderr, flush=True)
