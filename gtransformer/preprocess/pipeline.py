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
from gtransformer.preprocess.pieces import (
    SENTENCEPIECE_FILE,
    WORDPIECE_FILE,
    SentencePieces,
    WordPieces,
    copy_file,
    save_wordpieces,
    sentencepiece_dictionary,
    wordpiece_dictionary,
)
from gtransformer.preprocess.steps import Steps, stamped_inputs
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser, train_truecaser

# What a BERT's tokeniser may consist of.
BERT_TOKENISER = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class Settings:
    """What a prepared corpus depends on besides the raw files. ``workers`` changes its speed only.

    ``sentencepiece``: a pretrained model's SentencePiece model, and ``dictionary``, its dictionary: both sides are cut
    by it. ``bert``: a folder with a BERT, by whose wordpieces the source side is cut; it has a dictionary of its own.
    """

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
    sentencepiece: str | None = None
    dictionary: str | None = None
    bert: str | None = None

    def pair(self) -> tuple[str, str]:
        """(source, target) language."""
        return self.source_lang, self.target_lang

    def order(self) -> tuple[str, ...]:
        """The languages in the order of their symbols in the dictionary."""
        return self.langs or self.pair()

    def plain(self) -> tuple[str, ...]:
        """The languages that are tokenised, truecased and cut by our own BPE."""
        if self.sentencepiece:
            return ()
        return (self.target_lang,) if self.bert else self.pair()

    def piece_file(self) -> str | None:
        """The name, in a prepared directory, of what cuts the other languages."""
        if self.sentencepiece:
            return SENTENCEPIECE_FILE
        return WORDPIECE_FILE if self.bert else None


class Pipeline:
    """One run of the steps. The public entry is ``prepare``."""

    def __init__(self, raw: str | Path, output: str | Path, settings: Settings):
        self.settings, self.output = settings, Path(output)
        # mBART's languages have a country, too (en_XX); corpora are named without.
        self.splits = find_splits(raw, *(lang.partition("_")[0] for lang in settings.pair()))
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
            for lang in self.settings.plain():
                self._truecaser(lang)
            for split in self.splits:
                self._truecase(split)
            self._codes()
            self._piece_file()
            for split in self.splits:
                self._encode(split)
                self._pieces(split)
                self._instances(split)
            self._dictionary()
            self._binaries()
            steps.forget_others()
            return manifest.write(self, command)
        finally:
            steps.close()

    def sides(self, folder: str, split: str, langs: tuple[str, ...] | None = None) -> list[Path]:
        """The files of a split in a folder of the output; both sides, or those of ``langs``."""
        return [self.output / folder / f"{split}.{lang}" for lang in (self.settings.pair() if langs is None else langs)]

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

    def _map(
        self, name: str, split: str, source: str, target: str, makers: dict[str, Any], settings: dict, extra: list
    ) -> None:
        """A step that turns sides of a split line by line; ``makers`` make the work, one per language."""
        langs = tuple(makers)
        if not langs:
            return
        inputs, outputs = self.sides(source, split, langs), self.sides(target, split, langs)

        def work() -> dict[str, Any]:
            for maker, before, after in zip(makers.values(), inputs, outputs, strict=True):
                label = f"{name} {before.name}"
                map_file(maker(), before, after, self.settings.workers, label, self._lines(split))
            return {"summary": f"{len(langs)} x {self._lines(split)} lines"}

        self.steps.run(f"{name}:{split}", [*inputs, *extra], outputs, settings, work)

    def _tokenise(self, split: str) -> None:
        normalise, moses = self.settings.normalise_punctuation, self.settings.moses
        settings = {"normalise_punctuation": normalise, "langs": self.settings.plain()}
        settings |= self._moses_version("tokenizer.perl", "normalize-punctuation.perl")
        makers = {lang: partial(Tokeniser, lang, moses, normalise) for lang in self.settings.plain()}
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
        models = {lang: self.output / f"truecase.{lang}" for lang in self.settings.plain()}
        settings = self._moses_version("truecase.perl") if self.moses else {"rules": 1}
        makers = {lang: partial(Truecaser, model, self.settings.moses) for lang, model in models.items()}
        self._map("truecase", split, "steps/tokenised", "tok", makers, settings, list(models.values()))

    def _codes(self) -> None:
        codes, langs = self.output / "bpe.codes", self.settings.plain()
        if not langs:
            return
        if self.borrowed:
            self._borrow("bpe-learn", self.borrowed / codes.name, codes)
            return
        files, merges = self.sides("tok", "train", langs), self.settings.bpe_merges

        def work() -> dict[str, Any]:
            learnt = learn(files, codes, merges, self.settings.workers)
            return {"merges": learnt, "summary": f"{learnt} merges of {merges} asked for"}

        settings = {"merges": merges, "subword-nmt": self.tools["subword-nmt"]}
        self.steps.run("bpe-learn", files, [codes], settings, work)

    def _encode(self, split: str) -> None:
        codes = self.output / "bpe.codes"
        settings = {"subword-nmt": self.tools["subword-nmt"]}
        makers = {lang: partial(Encoder, codes) for lang in self.settings.plain()}
        self._map("bpe", split, "tok", "steps/bpe", makers, settings, [codes])

    def _piece_file(self) -> None:
        """The pretrained model's own cutter, copied, so that new text can be cut like the corpus."""
        chosen = self.settings
        if not chosen.piece_file():
            return
        output, inputs = self.output / chosen.piece_file(), [Path(chosen.sentencepiece or "")]
        if chosen.bert:
            inputs = [path for name in BERT_TOKENISER if (path := Path(chosen.bert) / name).is_file()]

        def work() -> None:
            save_wordpieces(chosen.bert, output) if chosen.bert else copy_file(chosen.sentencepiece, output)

        self.steps.run("pieces", inputs, [output], {}, work)

    def _pieces(self, split: str) -> None:
        name = self.settings.piece_file()
        if name:
            langs = [lang for lang in self.settings.pair() if lang not in self.settings.plain()]
            cutter, file = WordPieces if self.settings.bert else SentencePieces, self.output / name
            makers = {lang: partial(cutter, file) for lang in langs}
            self._map("pieces", split, "text", "steps/bpe", makers, {}, [file])

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

    def dictionaries(self) -> list[Path]:
        """The dictionary files: one for both sides, or source and target."""
        names = [f"dict.{lang}.txt" for lang in self.settings.pair()] if self.settings.bert else ["dict.txt"]
        return [self.output / "steps" / name for name in names]

    def _given_dictionary(self) -> None:
        """The dictionary of the pretrained model, for the sides that are cut by it."""
        chosen, output = self.settings, self.dictionaries()[0]
        source = self.output / WORDPIECE_FILE if chosen.bert else Path(chosen.dictionary)
        write = wordpiece_dictionary if chosen.bert else sentencepiece_dictionary

        def work() -> dict[str, Any]:
            return {"summary": f"{write(source, chosen.order(), output)} entries"}

        self.steps.run("dictionary-given", [source], [output], {"langs": chosen.order()}, work)

    def _dictionary(self) -> None:
        if self.settings.piece_file():
            self._given_dictionary()
        langs = self.settings.plain()
        if not langs:
            return
        output = self.dictionaries()[-1]
        if self.borrowed:
            self._borrow("dictionary", self.borrowed / "bin" / f"dict.{self.settings.source_lang}.txt", output)
            return
        files = self.sides("instances", "train", langs)

        def work() -> dict[str, Any]:
            size = build_dictionary(files, self.settings.order(), output, self.settings.workers)
            return {"summary": f"{size} entries"}

        self.steps.run("dictionary", files, [output], {"langs": self.settings.order()}, work)

    def _binaries(self) -> None:
        pair, splits, dictionaries = self.settings.pair(), list(self.splits), self.dictionaries()
        inputs = [path for split in splits for path in self.sides("instances", split)]
        inputs += [self.output / "instances" / sidecar_name(split, *pair) for split in splits]
        outputs = [self.output / "bin" / name for name in binary_names(splits, pair)]

        def work() -> dict[str, Any]:
            workers = self.settings.workers
            binarise(self.output / "instances", splits, pair, dictionaries, self.output / "bin", workers)
            unknown = {
                split: {
                    lang: count_unknown(path, dictionary, workers)
                    for lang, path, dictionary in zip(
                        pair, self.sides("instances", split), (dictionaries * 2)[:2], strict=True
                    )
                }
                for split in splits
            }
            return {"unknown": unknown, "summary": f"{', '.join(splits)} in {self.output / 'bin'}"}

        settings = {"splits": splits, "pair": pair, "fairseq": self.tools["fairseq"]}
        self.steps.run("binarise", [*dictionaries, *inputs], outputs, settings, work)

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
