"""Runs in a test's folder: raw corpora, prepared ones by their names alone, and stages that are not run."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from fairseq import options as fairseq_options

from gtransformer.cli import run as command
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.files import write_json
from gtransformer.optional import import_user_dir
from gtransformer.preprocess.corpus import find_splits
from gtransformer.preprocess.manifest import checksums
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Recipe
from gtransformer.run.run import Run, make_run

PAIR = ("en", "de")


def write_raw(folder: Path, text: str = "A.", pair: tuple[str, str] = PAIR, splits=("train", "dev", "test")) -> Path:
    """A raw corpus of a line a split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        for lang in pair:
            path = folder / f"concatenated_{pair[0]}2{pair[1]}_{split}_{lang}.txt"
            path.write_text(f"<d>\n{text} {split} {lang}\n")
    return folder


def parse(*arguments: object):
    """The options of the command."""
    return command.parse([str(argument) for argument in arguments])


def made(*arguments: object) -> Run:
    """The run of a command line."""
    return make_run(parse(*arguments))


def prepare(folder: Path, borrowed: str | None = None, **files: str) -> Path:
    """What a run looks for in a corpus prepared from that of ``write_raw``; ``files``: digests that are others."""
    names = {"dictionary": "bin/dict.en.txt", "train": "bin/train.en-de.en.bin", "test": "bin/test.en-de.en.bin"}
    names |= {"source": "text/test.en", "target": "text/test.de", "codes": "bpe.codes"}
    outputs = dict.fromkeys(names.values(), "1") | {names[name]: digest for name, digest in files.items()}
    settings, vocabulary = {"source_lang": "en"}, {"borrowed_from": borrowed}
    manifest = {"outputs": outputs, "vocabulary": vocabulary, "settings": settings}
    with TemporaryDirectory() as raw:
        manifest["inputs"] = checksums(find_splits(write_raw(Path(raw)), *PAIR))
    write_json(folder / "manifest.json", manifest)
    for name in ("text/test.de", "instances/test.de", "bin/dict.de.txt", *names.values()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for split in ("train", "test"):
        (folder / "bin" / f"{split}.en-de.en.idx").touch()
    InstanceIndex("test", "en", "de", 0).save(folder / "bin" / "test.en-de.instances.json")
    return folder


class Stages:
    """In place of ``run_stage``: notes the commands, and leaves a stage's record, score file and translations."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.commands: list[list[str]] = []

    def __call__(self, name: str, command: list[str], directory: Path, results: dict) -> None:
        self.did.append(name.partition(".")[0])
        self.commands.append(command)
        write_json(directory / f"{name}.json", {"stage": name, "command": command, **results})
        for result in ("translations", "scores"):
            if result in results:
                write_json(Path(results[result]), {"scores": {}})

    def given(self, option: str) -> str:
        """What the last command has behind an option."""
        return self.commands[-1][self.commands[-1].index(option) + 1]


def parse_training(recipe: Recipe) -> argparse.Namespace:
    """What fairseq's own parser makes of a recipe's options of training; SystemExit if it refuses one."""
    import_user_dir(recipe.training().get("user-dir"))
    arguments = ["data", *to_arguments(recipe.training())]
    return fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
