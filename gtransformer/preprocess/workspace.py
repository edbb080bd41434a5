"""What the steps of preparing a corpus share: where their files lie, and how a step that maps lines is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import sha256
from gtransformer.preprocess import manifest
from gtransformer.preprocess.corpus import find_splits
from gtransformer.preprocess.parallel import map_file
from gtransformer.preprocess.pieces import copy_file
from gtransformer.preprocess.settings import Settings, check_given, check_vocabulary
from gtransformer.preprocess.steps import Steps
from gtransformer.preprocess.tokenise import SCRIPTS, script_path


class Workspace:
    """Raw files, settings and output of one run, and the shapes that its steps have: line by line, or borrowed."""

    steps: Steps

    def __init__(self, raw: str | Path, output: str | Path, settings: Settings, overwrite: bool = False):
        self.output = Path(output)
        places = [*map(Path, filter(None, [settings.vocabulary])), *([] if overwrite else [self.output])]
        self.settings = settings = manifest.with_rules(settings, places)
        if self.output.resolve() == Path(raw).resolve():
            raise UserError(f"{output}: holds the raw corpus; give another directory to write to")
        # mBART's languages have a country, too (en_XX); corpora are named without.
        self.splits = find_splits(raw, *(lang.partition("_")[0] for lang in settings.pair()))
        number, shards = settings.share("train")
        if shards > 1 and "train" not in self.splits:
            raise UserError(f"{raw}: holds no training set, which --shard {settings.shard} is of; leave it out")
        if number:
            self.splits = {"train": self.splits["train"]}
        self.borrowed = check_vocabulary(settings, self.output) if settings.vocabulary else None
        self.given = settings.vocabulary_files()
        check_given(settings)
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

    def sides(self, folder: str, split: str, langs: tuple[str, ...] | None = None) -> list[Path]:
        """The files of a split in a folder of the output; both sides, or those of ``langs``."""
        return [self.output / folder / f"{split}.{lang}" for lang in (self.settings.pair() if langs is None else langs)]

    def dictionaries(self) -> list[Path]:
        """The dictionary files: one for both sides, or source and target."""
        two = self.settings.bert or len(self.settings.given_dictionaries()) == 2
        names = [f"dict.{lang}.txt" for lang in self.settings.pair()] if two else ["dict.txt"]
        return [self.output / "steps" / name for name in names]

    def moses_version(self, *names: str) -> dict[str, Any]:
        """For a step's settings: what tokenises and truecases, Moses' scripts of these names or sacremoses."""
        if self.moses:
            return {"moses": {name: self.moses[name] for name in names}}
        return {"sacremoses": self.tools["sacremoses"]}

    def lines(self, split: str) -> int:
        """Lines of a cleaned split, marks of documents included."""
        report = self.steps.reports[f"clean:{split}"]
        return report["sentences"] + report["documents"]

    def map(
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
                map_file(maker(), before, after, self.settings.workers, label, self.lines(split))
            return {"summary": f"{len(langs)} x {self.lines(split)} lines"}

        self.steps.run(f"{name}:{split}", [*inputs, *extra], outputs, settings, work)

    def borrow(self, name: str, target: Path) -> None:
        """A step that copies a file of the directory that the vocabulary is taken from."""
        (source,) = self.given[name]

        def work() -> dict[str, Any]:
            copy_file(source, target)
            return {"summary": f"borrowed from {source}"}

        self.steps.run(name, [source], [target], {"borrowed": True}, work)
