"""All steps from a raw corpus to binary data, each done once: what ``scripts/prepare.sh`` runs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json, sha256
from gtransformer.preprocess import manifest
from gtransformer.preprocess.binarise import (
    MASK,
    binarise,
    binary_names,
    build_dictionary,
    count_unknown,
    dictionary_words,
    language_symbol,
)
from gtransformer.preprocess.bpe import Encoder, learn
from gtransformer.preprocess.clean import clean_files
from gtransformer.preprocess.corpus import find_splits, read_pairs
from gtransformer.preprocess.instance_files import sidecar_name, write_instances
from gtransformer.preprocess.moses import SCRIPTS, script_path
from gtransformer.preprocess.parallel import map_file, progress
from gtransformer.preprocess.steps import Steps, stamped_inputs
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser, train_truecaser


@dataclass(frozen=True)
class Settings:
    """What a prepared corpus depends on besides the raw files. ``workers`` changes its speed only."""

    source_lang: str = "en"
    target_lang: str = "de"
    langs: tuple[str, ...] = ()
    bpe_merges: int = 30_000
    max_instance_tokens: int = 512
    max_sentence_tokens: int = 1024
    max_sents: int | None = None
    normalise_punctuation: bool = False
    vocabulary: str | None = None
    moses: str | None = None
    workers: int = 1

    def pair(self) -> tuple[str, str]:
        """(source, target) language."""
        return self.source_lang, self.target_lang

    def order(self) -> tuple[str, ...]:
        """The languages in the order of their symbols in the dictionary."""
        return self.langs or self.pair()


class Pipeline:
    """One run of the steps. The public entry is ``prepare``."""

    def __init__(self, raw: str | Path, output: str | Path, settings: Settings):
        self.settings, self.output = settings, Path(output)
        self.splits = find_splits(raw, *settings.pair())
        self.borrowed = check_vocabulary(settings, self.output) if settings.vocabulary else None
        if "train" not in self.splits and not self.borrowed:
            missing = f"concatenated_{settings.source_lang}2{settings.target_lang}_train_{settings.source_lang}.txt"
            raise UserError(
                f"{Path(raw) / missing}: no such file; without training data give --vocabulary with a directory "
                "that was prepared from some"
            )
        self.tools = manifest.tool_versions()
        self.moses = None
        if settings.moses:
            self.moses = {name: sha256(script_path(settings.moses, name)) for name in SCRIPTS}

    def run(self, command: str) -> dict[str, Any]:
        """Do the steps; returns the manifest."""
        self._check_raw()
        steps = self.steps = Steps(self.output, final=["manifest.json", "bin"])
        try:
            for split in self.splits:
                self._clean(split)
                self._tokenise(split)
            for lang in self.settings.pair():
                self._truecaser(lang)
            for split in self.splits:
                self._truecase(split)
            self._codes()
            for split in self.splits:
                self._encode(split)
                self._instances(split)
            self._dictionary()
            self._binaries()
            steps.forget_others()
            return manifest.write(self, command)
        finally:
            steps.close()

    def sides(self, folder: str, split: str) -> list[Path]:
        """The two files of a split in a folder of the output."""
        return [self.output / folder / f"{split}.{lang}" for lang in self.settings.pair()]

    def _moses_version(self, *names: str) -> dict[str, Any]:
        if self.moses:
            return {"moses": {name: self.moses[name] for name in names}}
        return {"sacremoses": self.tools["sacremoses"]}

    def _check_raw(self) -> None:
        """Read all raw files to their ends before anything is written, so that bad input leaves nothing behind."""
        stamps = self.output / "steps"
        for split, files in self.splits.items():
            stamp = stamps / f"clean.{split}.json"
            if stamped_inputs(stamp) == {path.name: sha256(path) for path in files}:
                continue
            for _ in progress(read_pairs(*files), f"check {split}", unit=" lines"):
                pass

    def _clean(self, split: str) -> None:
        outputs = self.sides("text", split)

        def work() -> dict[str, Any]:
            report = clean_files(*self.splits[split], *outputs, label=f"clean {split}")
            return {**asdict(report), "summary": report.summary()}

        self.steps.run(f"clean:{split}", self.splits[split], outputs, {}, work)

    def _lines(self, split: str) -> int:
        report = self.steps.reports[f"clean:{split}"]
        return report["sentences"] + report["documents"]

    def _map(self, name: str, split: str, source: str, target: str, makers: list, settings: dict, extra: list) -> None:
        """A step that turns both sides of a split line by line; ``makers`` make the work, one per side."""
        inputs, outputs = self.sides(source, split), self.sides(target, split)

        def work() -> dict[str, Any]:
            for maker, before, after in zip(makers, inputs, outputs, strict=True):
                label = f"{name} {before.name}"
                map_file(maker(), before, after, self.settings.workers, label, self._lines(split))
            return {"summary": f"2 x {self._lines(split)} lines"}

        self.steps.run(f"{name}:{split}", [*inputs, *extra], outputs, settings, work)

    def _tokenise(self, split: str) -> None:
        normalise, moses = self.settings.normalise_punctuation, self.settings.moses
        settings = {"normalise_punctuation": normalise, "langs": self.settings.pair()}
        settings |= self._moses_version("tokenizer.perl", "normalize-punctuation.perl")
        makers = [partial(Tokeniser, lang, moses, normalise) for lang in self.settings.pair()]
        self._map("tokenise", split, "text", "steps/tokenised", makers, settings, [])

    def _truecaser(self, lang: str) -> None:
        model = self.output / f"truecase.{lang}"
        if self.borrowed:
            self._borrow(f"truecaser:{lang}", self.borrowed / model.name, model)
            return
        corpus = self.output / "steps/tokenised" / f"train.{lang}"
        settings = self._moses_version("train-truecaser.perl") if self.moses else {"rules": 1}

        def work() -> None:
            train_truecaser(corpus, model, self.settings.moses, self.settings.workers)

        self.steps.run(f"truecaser:{lang}", [corpus], [model], settings, work)

    def _truecase(self, split: str) -> None:
        models = [self.output / f"truecase.{lang}" for lang in self.settings.pair()]
        settings = self._moses_version("truecase.perl") if self.moses else {"rules": 1}
        makers = [partial(Truecaser, model, self.settings.moses) for model in models]
        self._map("truecase", split, "steps/tokenised", "tok", makers, settings, models)

    def _codes(self) -> None:
        codes = self.output / "bpe.codes"
        if self.borrowed:
            self._borrow("bpe-learn", self.borrowed / codes.name, codes)
            return
        files, merges = self.sides("tok", "train"), self.settings.bpe_merges

        def work() -> dict[str, Any]:
            learnt = learn(files, codes, merges, self.settings.workers)
            return {"merges": learnt, "summary": f"{learnt} merges of {merges} asked for"}

        settings = {"merges": merges, "subword-nmt": self.tools["subword-nmt"]}
        self.steps.run("bpe-learn", files, [codes], settings, work)

    def _encode(self, split: str) -> None:
        codes = self.output / "bpe.codes"
        settings = {"subword-nmt": self.tools["subword-nmt"]}
        self._map("bpe", split, "tok", "steps/bpe", [partial(Encoder, codes)] * 2, settings, [codes])

    def _instances(self, split: str) -> None:
        chosen = self.settings
        limits = {
            "max_tokens": chosen.max_instance_tokens,
            "max_sents": chosen.max_sents,
            "max_sentence_tokens": chosen.max_sentence_tokens if split == "train" else None,
        }
        inputs = self.sides("steps/bpe", split)
        outputs = [*self.sides("instances", split), self.output / "instances" / sidecar_name(split, *chosen.pair())]

        def work() -> dict[str, Any]:
            total = self.steps.reports[f"clean:{split}"]["documents"]
            report = write_instances(*inputs, self.output / "instances", split, chosen.pair(), **limits, total=total)
            if report.dropped_too_long:
                print(
                    f"warning: {split}: dropped {report.dropped_too_long} sentences longer than "
                    f"{chosen.max_sentence_tokens} tokens (--max-sentence-tokens)",
                    file=sys.stderr,
                )
            return {**asdict(report), "summary": report.summary()}

        self.steps.run(f"instances:{split}", inputs, outputs, {**limits, "pair": chosen.pair()}, work)

    def _dictionary(self) -> None:
        output = self.output / "steps" / "dict.txt"
        if self.borrowed:
            self._borrow("dictionary", self.borrowed / "bin" / f"dict.{self.settings.source_lang}.txt", output)
            return
        files = self.sides("instances", "train")

        def work() -> dict[str, Any]:
            size = build_dictionary(files, self.settings.order(), output, self.settings.workers)
            return {"summary": f"{size} entries"}

        self.steps.run("dictionary", files, [output], {"langs": self.settings.order()}, work)

    def _binaries(self) -> None:
        pair, splits, dictionary = self.settings.pair(), list(self.splits), self.output / "steps" / "dict.txt"
        inputs = [path for split in splits for path in self.sides("instances", split)]
        inputs += [self.output / "instances" / sidecar_name(split, *pair) for split in splits]
        outputs = [self.output / "bin" / name for name in binary_names(splits, pair)]

        def work() -> dict[str, Any]:
            workers = self.settings.workers
            binarise(self.output / "instances", splits, pair, dictionary, self.output / "bin", workers)
            unknown = {
                split: {
                    lang: count_unknown(path, dictionary, workers)
                    for lang, path in zip(pair, self.sides("instances", split), strict=True)
                }
                for split in splits
            }
            return {"unknown": unknown, "summary": f"{', '.join(splits)} in {self.output / 'bin'}"}

        settings = {"splits": splits, "pair": pair, "fairseq": self.tools["fairseq"]}
        self.steps.run("binarise", [dictionary, *inputs], outputs, settings, work)

    def _borrow(self, name: str, source: Path, target: Path) -> None:
        def work() -> dict[str, Any]:
            with atomic_write(target, "wb") as stream, open(source, "rb") as lender:
                shutil.copyfileobj(lender, stream)
            return {"summary": f"borrowed from {source}"}

        self.steps.run(name, [source], [target], {"borrowed": True}, work)


def check_vocabulary(settings: Settings, output: Path) -> Path:
    """The directory to borrow truecasers, BPE codes and dictionary from, found complete and fitting.

    Raises UserError if a file is missing, or if the dictionary does not end in the language symbols and ``<mask>``.
    """
    directory = Path(settings.vocabulary or "")
    pair = settings.pair()
    dictionary = directory / "bin" / f"dict.{settings.source_lang}.txt"
    wanted = [directory / "manifest.json", *(directory / f"truecase.{lang}" for lang in pair)]
    for path in (*wanted, directory / "bpe.codes", dictionary):
        if not path.is_file():
            raise UserError(f"{path}: no such file; --vocabulary wants a directory that scripts/prepare.sh has made")
    if directory.resolve() == output.resolve():
        raise UserError(f"{directory}: cannot borrow its own vocabulary; give another output directory")
    lent = read_json(directory / "manifest.json")["settings"]
    symbols = [language_symbol(lang) for lang in settings.langs or lent["langs"]] + [MASK]
    words = dictionary_words(dictionary)
    if words[-len(symbols) :] != symbols or not {language_symbol(lang) for lang in pair} <= set(symbols):
        raise UserError(
            f"{dictionary}, line {len(words)}: the dictionary ends in {' '.join(words[-len(symbols) :])} and not in "
            f"{' '.join(symbols)}; give --langs as it was given there"
        )
    if lent["normalise_punctuation"] != settings.normalise_punctuation:
        raise UserError(
            f"{directory / 'manifest.json'}: prepared with normalise_punctuation "
            f"{lent['normalise_punctuation']}; use --normalise-punctuation in both or in neither"
        )
    return directory


def prepare(raw: str | Path, output: str | Path, settings: Settings, command: str = "") -> dict[str, Any]:
    """Prepare the raw corpus ``raw`` in the directory ``output``; returns the manifest.

    What was done before by an interrupted or earlier run and still holds is kept. Raises UserError for any input that
    cannot be used, before anything is written.
    """
    return Pipeline(raw, output, settings).run(command)
