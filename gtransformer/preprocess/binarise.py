"""The joined dictionary and the binary data that fairseq trains on, from instance files."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.bpe import count_words
from gtransformer.preprocess.instance_files import sidecar_name
from gtransformer.preprocess.instances import BEGIN, END
from gtransformer.preprocess.parallel import available_cores, map_chunks

MASK = "<mask>"
OVERWRITE = "#fairseq:overwrite"
RESERVED = (BEGIN, "<pad>", END, "<unk>")  # what a fairseq dictionary holds of itself, never written to its file


def language_symbol(lang: str) -> str:
    """The dictionary entry of a language: ``[de]``."""
    return f"[{lang}]"


def build_dictionary(files: Sequence[str | Path], langs: Sequence[str], output: str | Path, workers: int = 1) -> int:
    """Write the joined dictionary of instance files; returns its size, fairseq's own four symbols included.

    Words are sorted as fairseq sorts them, by frequency and then by spelling; then come the language symbols in the
    order of ``langs`` and ``<mask>``, each with count 1. The size is not padded to a multiple of eight: fairseq would
    put the filling among the rarest words, where it can never be learnt, and these symbols have to be the last.
    """
    from fairseq.data import Dictionary

    counts: Counter[str] = Counter()
    for path in files:
        for part in map_chunks(count_words, read_lines(path), workers, label="dictionary"):
            counts.update(part)
    dictionary = Dictionary()
    for word in sorted(counts):
        if word not in RESERVED:
            dictionary.add_symbol(word, n=counts[word])
    dictionary.finalize(padding_factor=1)
    for symbol in (*map(language_symbol, langs), MASK):
        if dictionary.index(symbol) != dictionary.unk():
            raise UserError(f"{files[0]}: the text holds {symbol}, which is reserved; tokenise the text first")
        dictionary.add_symbol(symbol)
    with atomic_write(output) as stream:
        dictionary.save(stream)
    return len(dictionary)


def dictionary_words(path: str | Path) -> list[str]:
    """The words of a dictionary file in order.

    Raises UserError if it is missing or empty, if a line has no count, for a word that stands twice and for one of the
    four that fairseq adds by itself.
    """
    words: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if line.endswith(OVERWRITE):
            raise UserError(
                f"{path}, line {number}: a word that takes the place of another ({OVERWRITE}), which no model of this "
                "package can have; give another dictionary, and the model that was trained with it"
            )
        word, _, count = line.rpartition(" ")
        if not word or not count.isdigit():
            raise UserError(f"{path}, line {number}: not a dictionary entry ('word count')")
        if word in RESERVED:
            raise UserError(
                f"{path}, line {number}: {word} is a word of every dictionary, which fairseq adds by itself; remove "
                "the line"
            )
        if word in words:
            raise UserError(f"{path}, line {number}: '{word[:80]}' stands in line {words[word]} already; keep one")
        words[word] = number
    if not words:
        raise UserError(f"{path}, line 1: the dictionary is empty; give the one that came with the model")
    return list(words)


class UnknownCounter:
    """Counts the tokens of instance lines that a dictionary lacks."""

    def __init__(self, words: Iterable[str]):
        self.words = frozenset([*words, *RESERVED])

    def __call__(self, lines: Sequence[str]) -> int:
        return sum(word not in self.words for line in lines for word in line.split())


def count_unknown(path: str | Path, dictionary: str | Path, workers: int = 1) -> int:
    """The number of tokens of an instance file that are not in the dictionary."""
    return sum(map_chunks(UnknownCounter(dictionary_words(dictionary)), read_lines(path), workers, label="unknown"))


def binarise(
    instances: str | Path,
    splits: Sequence[str],
    langs: tuple[str, str],
    dictionary: str | Path | Sequence[str | Path],
    output: str | Path,
    workers: int = 1,
) -> list[Path]:
    """Run fairseq-preprocess over ``instances/{split}.{lang}``; returns the files of ``output``, sidecars included.

    ``dictionary`` is that of both sides, or one for each. The files are made in a folder beside ``output`` and moved in
    whole. fairseq ends each line with a further ``</s>``, which the task takes off on loading. Raises UserError if an
    instance file is missing or fairseq-preprocess fails.
    """
    instances, output = Path(instances), Path(output)
    for split in splits:
        for name in (*(f"{split}.{lang}" for lang in langs), sidecar_name(split, *langs)):
            if not (instances / name).is_file():
                raise UserError(f"{instances / name}: no such file; write the instances first")
    work = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    here = Path(__file__).resolve().parent
    command = [sys.executable, "-P", str(here / "fairseq_preprocess.py")]
    command += ["--user-dir", str(here.parent), "--task", "translation_doc"]
    command += ["--source-lang", langs[0], "--target-lang", langs[1]]
    command += ["--destdir", str(work), "--workers", str(workers)]
    dictionaries = [dictionary] if isinstance(dictionary, str | Path) else list(dictionary)
    command += ["--srcdict", str(dictionaries[0])]
    command += ["--tgtdict", str(dictionaries[1])] if len(dictionaries) > 1 else ["--joined-dictionary"]
    for split in splits:
        command += [f"--{split}pref", str(instances / split)]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise UserError(f"fairseq-preprocess failed with status {done.returncode} ({last})")
        (work / "preprocess.log").unlink(missing_ok=True)
        for split in splits:
            shutil.copy(instances / sidecar_name(split, *langs), work)
        output.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in work.iterdir())
        for name in names:
            os.replace(work / name, output / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [output / name for name in names]


def binary_names(splits: Sequence[str], langs: tuple[str, str]) -> list[str]:
    """The names of the files that ``binarise`` makes."""
    pair = f"{langs[0]}-{langs[1]}"
    names = [f"dict.{lang}.txt" for lang in langs]
    for split in splits:
        names += [f"{split}.{pair}.{lang}.{end}" for lang in langs for end in ("bin", "idx")]
        names.append(sidecar_name(split, *langs))
    return names


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.binarise INSTANCES OUTPUT [--dictionary FILE]``"""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.binarise", description="Binarise instance files.")
    parser.add_argument("instances", help="folder with {train,valid,test}.{lang} and sidecars")
    parser.add_argument("output")
    parser.add_argument("--dictionary", help="an existing dictionary; without it one is made of the training instances")
    parser.add_argument("-s", "--source-lang", default="en")
    parser.add_argument("-t", "--target-lang", default="de")
    parser.add_argument("--langs", help="order of the language symbols (default: source,target)")
    parser.add_argument("--workers", type=int, default=available_cores())
    args = parser.parse_args(argv)
    langs = (args.source_lang, args.target_lang)
    instances, output = Path(args.instances), Path(args.output)
    splits = [split for split in ("train", "valid", "test") if (instances / f"{split}.{langs[0]}").is_file()]
    if not splits:
        raise UserError(f"{instances / 'train'}.{langs[0]}: no such file; write the instances first")
    dictionary = args.dictionary
    if dictionary is None:
        dictionary = output.with_name(f"{output.name}.dict.txt")
        order = args.langs.split(",") if args.langs else langs
        build_dictionary([instances / f"train.{lang}" for lang in langs], order, dictionary, args.workers)
    for path in binarise(instances, splits, langs, dictionary, output, args.workers):
        print(path)


if __name__ == "__main__":
    raise SystemExit(main())
