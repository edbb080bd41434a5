"""The steps of ``gtransformer prepare``, from a raw corpus to binary data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.data.dictionaries import dictionary_words
from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.files import sha256
from gtransformer.preprocess import manifest
from gtransformer.preprocess.binarise import binarise, binary_names, build_dictionary
from gtransformer.preprocess.bpe import Encoder, learn, take_codes
from gtransformer.preprocess.chain import side_pieces, text_files
from gtransformer.preprocess.clean import WHOLE, clean_files
from gtransformer.preprocess.corpus import find_splits
from gtransformer.preprocess.formats import read_split
from gtransformer.preprocess.instances import instance_index_name, write_instances
from gtransformer.preprocess.parallel import map_file, progress
from gtransformer.preprocess.pieces import TARGET_PIECES, WordPieces, copy_file, given_dictionary, save_wordpieces
from gtransformer.preprocess.settings import (
    GIVEN_DICTIONARIES,
    TARGET,
    Settings,
    check_given,
    check_vocabulary,
    with_models_vocabulary,
)
from gtransformer.preprocess.spacing import VERSION as SPACING
from gtransformer.preprocess.steps import Steps, stamped_inputs
from gtransformer.preprocess.tokenise import SCRIPTS, Tokeniser, script_path
from gtransformer.preprocess.truecase import Truecaser, train_truecaser


class Preparation:
    """One run of the steps: raw files, settings and output. The public entry is ``prepare``."""

    steps: Steps

    def __init__(self, raw: str | Path, output: str | Path, settings: Settings, overwrite: bool = False):
        self.output, settings = Path(output), with_models_vocabulary(settings)
        folders = [*map(Path, filter(None, [settings.vocabulary])), *([] if overwrite else [self.output])]
        self.settings = settings = manifest.with_rules(settings, folders)
        if self.output.resolve() == Path(raw).resolve():
            raise UserError(f"{output}: holds the raw corpus; give another directory to write to")
        # mBART's language codes have a country (en_XX); names of corpora have none.
        source, target = (plain_language(lang) for lang in settings.pair())
        self.langs = source, target
        self.splits = find_splits(raw, *self.langs)
        number, shards = settings.share("train")
        if shards > 1 and "train" not in self.splits:
            raise UserError(f"{raw}: has no training set to divide by --shard {settings.shard}; leave it out")
        if number:
            self.splits = {"train": self.splits["train"]}
        self.borrowed = check_vocabulary(settings, self.output) if settings.vocabulary else None
        self.given = settings.vocabulary_files()
        check_given(settings)
        if "train" not in self.splits and not self.borrowed:
            missing = f"concatenated_{source}2{target}_train_{source}.txt"
            raise UserError(
                f"{Path(raw) / missing}: no such file; without training data give --vocabulary with a directory "
                "that was prepared from some"
            )
        self.tools = manifest.tool_versions()
        self.moses = None
        if settings.moses:
            self.moses = {name: sha256(script_path(settings.moses, name)) for name in SCRIPTS}

    def run(self, command: str) -> dict[str, Any]:
        """Run the steps; return the manifest."""
        self._check_raw()
        steps = self.steps = Steps(self.output, final=["manifest.json", "bin"])
        try:
            for split in self.splits:
                self._clean(split)
                self._tokenise(split)
            self._truecase()
            self._codes()
            self._piece_file()
            for split in self.splits:
                self._encode(split)
                self._instances(split)
            self._dictionary()
            self._binaries()
            steps.forget_others()
            versions = self.tools | ({"moses_sha256": self.moses} if self.moses else {})
            made = steps, self.borrowed, versions, command
            return manifest.write(self.output, self.settings, self.splits, *made)
        finally:
            steps.close()

    def _make_or_borrow(self, name: str, inputs: list[Path], output: Path, settings: dict, work: Callable) -> None:
        """Run a step that makes a part of the vocabulary, or copies it from the corpus that lends its vocabulary."""
        if self.borrowed:
            inputs, settings, (source,) = self.given[name], {"borrowed": True}, self.given[name]

            def work() -> dict[str, Any]:
                copy_file(source, output)
                return {"summary": f"borrowed from {source}"}

        self.steps.run(name, inputs, [output], settings, work)

    def _check_raw(self) -> None:
        """Read all raw files completely before anything is written, so that bad input leaves no files."""
        for split, files in self.splits.items():
            stamp = self.output / "steps" / f"clean.{split}.json"
            if stamped_inputs(stamp) != {path.name: sha256(path) for path in files}:
                documents = read_split(files, self.langs, self.settings.sentence_pairs)
                for _ in progress(documents, f"check {split}", unit=" documents"):
                    pass

    def _clean(self, split: str) -> None:
        outputs, pairs, share = self.sides("text", split), self.settings.sentence_pairs, self.settings.share(split)
        every_line = split != "train"

        def work() -> dict[str, Any]:
            report = clean_files(*self.splits[split], outputs, f"clean {split}", pairs, share, every_line, self.langs)
            warn(report.warnings(split, self.splits[split]))
            return {**asdict(report), "summary": report.summary()}

        # Default values are omitted, so that records from before an option existed remain valid.
        settings = {"sentence_pairs": True} if pairs else {}
        settings |= {"shard": share} if share != WHOLE else {}
        settings |= {"every_line": True} if every_line else {}
        if len(set(self.splits[split])) == 1:  # one file has both sides
            settings |= {"langs": list(self.langs)}
        self.steps.run(f"clean:{split}", self.splits[split], outputs, settings, work)

    def _tokenise(self, split: str) -> None:
        chosen, given = self.settings, bool(self.settings.bpe_codes)
        settings = {"normalise_punctuation": chosen.normalise_punctuation, "langs": chosen.plain()}
        settings |= self.moses_version("tokenizer.perl", "normalize-punctuation.perl")
        settings |= {"escaped": True} if given else {}
        settings |= {"exact": SPACING} if chosen.exact else {}
        makers = {
            lang: partial(Tokeniser, lang, chosen.moses, chosen.normalise_punctuation, given, chosen.exact)
            for lang in chosen.plain()
        }
        self.map("tokenise", split, "text", "tok" if given else "steps/tokenised", makers, settings, [])

    def _truecase(self) -> None:
        """Learn or borrow the truecasers and apply them; text for given BPE codes is not truecased."""
        chosen, langs = self.settings, self.settings.plain()
        if chosen.bpe_codes:
            return
        models = {lang: self.output / f"truecase.{lang}" for lang in langs}
        rules = {"rules": 2 if chosen.exact else 1}  # ours, where Moses' scripts are not used
        for lang, model in models.items():
            corpus = self.output / "steps/tokenised" / f"train.{lang}"
            settings = self.moses_version("train-truecaser.perl") if self.moses else rules
            work = partial(train_truecaser, corpus, model, chosen.moses, chosen.workers, chosen.exact)
            self._make_or_borrow(f"truecaser:{lang}", [corpus], model, settings, work)
        makers = {lang: partial(Truecaser, model, chosen.moses, chosen.exact) for lang, model in models.items()}
        settings = self.moses_version("truecase.perl") if self.moses else rules
        for split in self.splits:
            self.map("truecase", split, "steps/tokenised", "tok", makers, settings, list(models.values()))

    def _codes(self) -> None:
        codes, langs, merges = self.output / "bpe.codes", self.settings.plain(), self.settings.bpe_merges
        if self.settings.bpe_codes:
            given = Path(self.settings.bpe_codes)
            self.steps.run("bpe-given", [given], [codes], {}, lambda: {"merges": take_codes(given, codes)})
        elif langs:
            files = self.sides("tok", "train", langs)

            def work() -> dict[str, Any]:
                learnt = learn(files, codes, merges, self.settings.workers)
                return {"merges": learnt, "summary": f"{learnt} merges of {merges} asked for"}

            settings = {"merges": merges, "subword-nmt": self.tools["subword-nmt"]}
            self._make_or_borrow("bpe-learn", files, codes, settings, work)

    def _piece_file(self) -> None:
        """Copy the pretrained model's subword model, so that new text can be encoded like the corpus."""
        chosen = self.settings
        if name := chosen.piece_file():
            source, save = (chosen.bert, save_wordpieces) if chosen.bert else (chosen.sentencepiece, copy_file)
            output = self.output / name
            self.steps.run("pieces", self.given["pieces"], [output], {}, partial(save, source, output))
        if chosen.sentencepiece_target:
            source, output = chosen.sentencepiece_target, self.output / TARGET_PIECES
            self.steps.run(TARGET, self.given[TARGET], [output], {}, partial(copy_file, source, output))

    def _encode(self, split: str) -> None:
        """Split the sides into subwords, by BPE or by the pretrained model's pieces."""
        chosen, codes, given = self.settings, self.output / "bpe.codes", self.settings.given_dictionaries()
        settings = {"subword-nmt": self.tools["subword-nmt"]}
        makers = {lang: partial(Encoder, codes) for lang in chosen.plain()}
        if chosen.bpe_codes:
            settings["within"] = "dictionary"
            for lang, dictionary in zip(makers, (given * 2)[:2], strict=True):
                makers[lang] = partial(Encoder, codes, dictionary_words(dictionary))
        self.map("bpe", split, "tok", "steps/bpe", makers, settings, [codes, *given])
        if chosen.piece_file():
            files = [self.output / one for one in text_files(vars(chosen)) if one.endswith((".model", ".json"))]
            if chosen.bert:
                makers = {chosen.source_lang: partial(WordPieces, *files)}
            else:
                sides = enumerate(chosen.pair())
                makers = {lang: partial(side_pieces, self.output, vars(chosen), side == 1) for side, lang in sides}
            prefixes = {"source": chosen.source_prefix, "target": chosen.target_prefix}
            settings = {"prefixes": prefixes} if any(prefixes.values()) else {}
            self.map("pieces", split, "text", "steps/bpe", makers, settings, files)

    def _instances(self, split: str) -> None:
        chosen = self.settings
        limits = {
            "max_tokens": chosen.max_instance_tokens,
            "max_sents": chosen.max_sents,
            "max_sentence_tokens": chosen.max_sentence_tokens if split == "train" else None,
        }
        inputs = self.sides("steps/bpe", split)
        outputs = [
            *self.sides("instances", split),
            self.output / "instances" / instance_index_name(split, *chosen.pair()),
        ]

        def work() -> dict[str, Any]:
            total = self.steps.reports[f"clean:{split}"]["documents"]
            report = write_instances(*inputs, self.output / "instances", split, chosen.pair(), **limits, total=total)
            if report.dropped_too_long:
                warn([
                    f"{split}: dropped {report.dropped_too_long} sentences longer than {chosen.max_sentence_tokens} "
                    "tokens (--max-sentence-tokens)"
                ])  # fmt: skip
            return {**asdict(report), "summary": report.summary()}

        self.steps.run(f"instances:{split}", inputs, outputs, {**limits, "pair": chosen.pair()}, work)

    def _dictionary(self) -> None:
        """Write the pretrained model's dictionary for sides that use its subwords; build our own for others."""
        chosen, outputs, langs = self.settings, self.dictionaries(), self.settings.plain()
        settings = {"langs": chosen.order()}
        if chosen.piece_file() or chosen.bpe_codes:
            sources = [self.output / chosen.piece_file()] if chosen.bert else chosen.given_dictionaries()
            for name, source, output in zip(GIVEN_DICTIONARIES, sources, outputs, strict=False):

                def work(source: Path = source, output: Path = output) -> dict[str, Any]:
                    return {"summary": f"{given_dictionary(source, chosen.order(), output)} entries"}

                self.steps.run(name, [source], [output], settings, work)
        if langs and not chosen.bpe_codes:
            files = self.sides("instances", "train", langs)

            def build() -> dict[str, Any]:
                return {"summary": f"{build_dictionary(files, chosen.order(), outputs[-1], chosen.workers)} entries"}

            self._make_or_borrow("dictionary", files, outputs[-1], settings, build)

    def _binaries(self) -> None:
        pair, splits, dictionaries = self.settings.pair(), list(self.splits), self.dictionaries()
        folder = self.output / "instances"
        inputs = [path for split in splits for path in self.sides("instances", split)]
        inputs += [folder / instance_index_name(split, *pair) for split in splits]
        outputs = [self.output / "bin" / name for name in binary_names(splits, pair)]

        def work() -> dict[str, Any]:
            unknown = binarise(folder, splits, pair, dictionaries, self.output / "bin", self.settings.workers)
            return {"unknown": unknown, "summary": f"{', '.join(splits)} in {self.output / 'bin'}"}

        settings = {"splits": splits, "pair": pair, "fairseq": self.tools["fairseq"]}
        self.steps.run("binarise", [*dictionaries, *inputs], outputs, settings, work)

    def sides(self, folder: str, split: str, langs: tuple[str, ...] | None = None) -> list[Path]:
        """Return the files of a split in a folder of the output: both sides, or those of ``langs``."""
        return [self.output / folder / f"{split}.{lang}" for lang in (self.settings.pair() if langs is None else langs)]

    def dictionaries(self) -> list[Path]:
        """Return the dictionary files: one for both sides, or source and target."""
        two = self.settings.bert or len(self.settings.given_dictionaries()) == 2
        names = [f"dict.{lang}.txt" for lang in self.settings.pair()] if two else ["dict.txt"]
        return [self.output / "steps" / name for name in names]

    def moses_version(self, *names: str) -> dict[str, Any]:
        """Return, for a step's settings, the versions of Moses' scripts of these names, or of sacremoses."""
        if self.moses:
            return {"moses": {name: self.moses[name] for name in names}}
        return {"sacremoses": self.tools["sacremoses"]}

    def lines(self, split: str) -> int:
        """Return the number of lines of a cleaned split, with ``<d>`` lines."""
        report = self.steps.reports[f"clean:{split}"]
        return report["sentences"] + report["documents"]

    def map(
        self, name: str, split: str, source: str, target: str, makers: dict[str, Any], settings: dict, extra: list
    ) -> None:
        """Run a step that converts sides of a split line by line; ``makers`` make the work, one per language."""
        langs = tuple(makers)
        if not langs:
            return
        inputs, outputs = self.sides(source, split, langs), self.sides(target, split, langs)

        def work() -> dict[str, Any]:
            for maker, before, after in zip(makers.values(), inputs, outputs, strict=True):
                label = f"{name} {before.name}"
                map_file(maker(), before, after, self.settings.workers, label, self.lines(split))
            return {"summary": f"{len(langs)} x {self.lines(split)} lines"}

        self.steps.run(f"{name}:{split}", [*inputs, *extra], outputs, settings, work)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings for the user."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def prepare(
    raw: str | Path, output: str | Path, settings: Settings, command: str = "", overwrite: bool = False
) -> dict[str, Any]:
    """Prepare the raw corpus ``raw`` in the directory ``output``; return the manifest.

    Steps that an earlier or interrupted run has done are kept if they are still valid. Raises UserError for unusable
    input, and without ``overwrite`` for a finished corpus of other text or settings, before anything is written.
    """
    run = Preparation(raw, output, settings, overwrite)
    if not overwrite:
        manifest.check_same(run.output, run.settings, run.borrowed, run.splits)
    return run.run(command)
