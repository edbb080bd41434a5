"""All steps from a raw corpus to binary data, each done once: what ``scripts/prepare.sh`` runs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.files import sha256
from gtransformer.preprocess import manifest
from gtransformer.preprocess.binarise import binarise, binary_names, build_dictionary, count_unknown, dictionary_words
from gtransformer.preprocess.bpe import Encoder, learn, take_codes
from gtransformer.preprocess.ceiling import ceiling
from gtransformer.preprocess.clean import WHOLE, clean_files
from gtransformer.preprocess.corpus import read_pairs
from gtransformer.preprocess.instance_files import sidecar_name, write_instances
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.pieces import (
    WORDPIECE_FILE,
    SentencePieces,
    WordPieces,
    copy_file,
    save_wordpieces,
    sentencepiece_dictionary,
    wordpiece_dictionary,
)
from gtransformer.preprocess.postprocess import PieceJoiner, Postprocessor
from gtransformer.preprocess.settings import GIVEN_DICTIONARIES, Settings
from gtransformer.preprocess.spacing import VERSION as SPACING
from gtransformer.preprocess.steps import Steps, stamped_inputs
from gtransformer.preprocess.tokenise import Tokeniser
from gtransformer.preprocess.truecase import Truecaser, train_truecaser
from gtransformer.preprocess.workspace import Workspace


class Preparation(Workspace):
    """One run of the steps. The public entry is ``prepare``."""

    def run(self, command: str) -> dict[str, Any]:
        """Do the steps; returns the manifest."""
        self._check_raw()
        steps = self.steps = Steps(self.output, final=["manifest.json", "bin"])
        try:
            for split in self.splits:
                self._clean(split)
                self._tokenise(split)
            if not self.settings.bpe_codes:
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
            versions = self.tools | ({"moses_sha256": self.moses} if self.moses else {})
            made = steps, self.borrowed, versions, command, self._ceilings()
            return manifest.write(self.output, self.settings, self.splits, *made)
        finally:
            steps.close()

    def _check_raw(self) -> None:
        """Read all raw files to their ends before anything is written, so that bad input leaves nothing behind."""
        stamps = self.output / "steps"
        for split, files in self.splits.items():
            stamp = stamps / f"clean.{split}.json"
            if stamped_inputs(stamp) == {path.name: sha256(path) for path in files}:
                continue
            lines = read_pairs(*files, self.settings.sentence_pairs)
            for _ in progress(lines, f"check {split}", unit=" lines"):
                pass

    def _clean(self, split: str) -> None:
        outputs, pairs, share = self.sides("text", split), self.settings.sentence_pairs, self.settings.share(split)

        def work() -> dict[str, Any]:
            report = clean_files(*self.splits[split], *outputs, f"clean {split}", pairs, share, every_line)
            for warning in report.warnings():
                print(f"warning: {split}: {warning}", file=sys.stderr)
            for side, path in enumerate(self.splits[split]):
                lines = [row[0] for row in report.empty if row[1 + side]]
                if lines:
                    shown = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
                    what = "are not translated" if side == 0 else "are translated, against an empty reference"
                    print(
                        f"warning: {path}: {len(lines)} sentences without text (line {shown}); they keep their places "
                        f"and {what}",
                        file=sys.stderr,
                    )
            return {**asdict(report), "summary": report.summary()}

        every_line = split != "train"
        settings = {"sentence_pairs": True} if pairs else {}
        settings |= {"shard": share} if share != WHOLE else {}
        settings |= {"every_line": True} if every_line else {}
        self.steps.run(f"clean:{split}", self.splits[split], outputs, settings, work)

    def _tokenise(self, split: str) -> None:
        normalise, moses = self.settings.normalise_punctuation, self.settings.moses
        settings = {"normalise_punctuation": normalise, "langs": self.settings.plain()}
        settings |= self.moses_version("tokenizer.perl", "normalize-punctuation.perl")
        given = bool(self.settings.bpe_codes)
        settings |= {"escaped": True} if given else {}
        exact = self.settings.exact
        settings |= {"exact": SPACING} if exact else {}
        makers = {lang: partial(Tokeniser, lang, moses, normalise, given, exact) for lang in self.settings.plain()}
        self.map("tokenise", split, "text", "tok" if given else "steps/tokenised", makers, settings, [])

    def truecasing(self) -> dict[str, Any]:
        """Of a step's settings: which rules of ours truecase."""
        return {"rules": 2 if self.settings.exact else 1}

    def _truecaser(self, lang: str) -> None:
        model = self.output / f"truecase.{lang}"
        if self.borrowed:
            self.borrow(f"truecaser:{lang}", model)
            return
        corpus = self.output / "steps/tokenised" / f"train.{lang}"
        settings = self.moses_version("train-truecaser.perl") if self.moses else self.truecasing()

        def work() -> None:
            train_truecaser(corpus, model, self.settings.moses, self.settings.workers, self.settings.exact)

        self.steps.run(f"truecaser:{lang}", [corpus], [model], settings, work)

    def _truecase(self, split: str) -> None:
        models = {lang: self.output / f"truecase.{lang}" for lang in self.settings.plain()}
        settings = self.moses_version("truecase.perl") if self.moses else self.truecasing()
        exact = self.settings.exact
        makers = {lang: partial(Truecaser, model, self.settings.moses, exact) for lang, model in models.items()}
        self.map("truecase", split, "steps/tokenised", "tok", makers, settings, list(models.values()))

    def _codes(self) -> None:
        codes, langs = self.output / "bpe.codes", self.settings.plain()
        if not langs:
            return
        if self.borrowed:
            self.borrow("bpe-learn", codes)
            return
        if self.settings.bpe_codes:
            given = Path(self.settings.bpe_codes)
            self.steps.run("bpe-given", [given], [codes], {}, lambda: {"merges": take_codes(given, codes)})
            return
        files, merges = self.sides("tok", "train", langs), self.settings.bpe_merges

        def work() -> dict[str, Any]:
            learnt = learn(files, codes, merges, self.settings.workers)
            return {"merges": learnt, "summary": f"{learnt} merges of {merges} asked for"}

        settings = {"merges": merges, "subword-nmt": self.tools["subword-nmt"]}
        self.steps.run("bpe-learn", files, [codes], settings, work)

    def _encode(self, split: str) -> None:
        codes, given = self.output / "bpe.codes", self.settings.given_dictionaries()
        settings = {"subword-nmt": self.tools["subword-nmt"]}
        makers = {lang: partial(Encoder, codes) for lang in self.settings.plain()}
        if self.settings.bpe_codes:
            settings["within"] = "dictionary"
            for lang, dictionary in zip(makers, (given * 2)[:2], strict=True):
                makers[lang] = partial(Encoder, codes, dictionary_words(dictionary))
        self.map("bpe", split, "tok", "steps/bpe", makers, settings, [codes, *given] if makers else [])

    def _piece_file(self) -> None:
        """The pretrained model's own cutter, copied, so that new text can be cut like the corpus."""
        chosen = self.settings
        if not chosen.piece_file():
            return
        output = self.output / chosen.piece_file()

        def work() -> None:
            save_wordpieces(chosen.bert, output) if chosen.bert else copy_file(chosen.sentencepiece, output)

        self.steps.run("pieces", self.given["pieces"], [output], {}, work)

    def _pieces(self, split: str) -> None:
        name = self.settings.piece_file()
        if name:
            langs = [lang for lang in self.settings.pair() if lang not in self.settings.plain()]
            cutter, file = WordPieces if self.settings.bert else SentencePieces, self.output / name
            makers = {lang: partial(cutter, file) for lang in langs}
            self.map("pieces", split, "text", "steps/bpe", makers, {}, [file])

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

    def _ceilings(self) -> dict[str, dict[str, Any]]:
        """What comes back of the target side of the splits that are translated; of the training set, if it is alone.

        No step of its own: a corpus that was finished before there was this is no less finished.
        """
        chosen, lang = self.settings, self.settings.target_lang
        given = bool(chosen.bpe_codes)
        by_pieces = bool(chosen.sentencepiece)
        back = PieceJoiner(self.output) if by_pieces else Postprocessor(lang, chosen.moses, given, chosen.exact)
        splits = [split for split in self.splits if split != "train"] or ["train"]
        found = {}
        for split in splits:
            text, tokens = (self.output / folder / f"{split}.{lang}" for folder in ("text", "steps/bpe"))
            found[split] = ceiling(text, tokens, lang, back.plain_lines, chosen.workers)
        return found

    def _given_dictionary(self) -> None:
        """The dictionary of the pretrained model, for the sides that are cut by it."""
        chosen = self.settings
        sources = [self.output / WORDPIECE_FILE] if chosen.bert else chosen.given_dictionaries()
        write = wordpiece_dictionary if chosen.bert else sentencepiece_dictionary
        for name, source, output in zip(GIVEN_DICTIONARIES, sources, self.dictionaries(), strict=False):

            def work(source: Path = source, output: Path = output) -> dict[str, Any]:
                return {"summary": f"{write(source, chosen.order(), output)} entries"}

            self.steps.run(name, [source], [output], {"langs": chosen.order()}, work)

    def _dictionary(self) -> None:
        if self.settings.piece_file() or self.settings.bpe_codes:
            self._given_dictionary()
        langs = self.settings.plain()
        if not langs or self.settings.bpe_codes:
            return
        output = self.dictionaries()[-1]
        if self.borrowed:
            self.borrow("dictionary", output)
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


def prepare(
    raw: str | Path, output: str | Path, settings: Settings, command: str = "", overwrite: bool = False
) -> dict[str, Any]:
    """Prepare the raw corpus ``raw`` in the directory ``output``; returns the manifest.

    What was done before by an interrupted or earlier run and still holds is kept. Raises UserError for any input that
    cannot be used, and unless ``overwrite`` for a corpus that was finished there of other text or with other settings,
    before anything is written.
    """
    preparation = Preparation(raw, output, settings, overwrite)
    if not overwrite:
        manifest.check_same(preparation.output, preparation.settings, preparation.borrowed, preparation.splits)
    return preparation.run(command)
