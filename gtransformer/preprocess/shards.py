"""Merging of shards that were prepared separately; the result is that of one run, byte for byte.

Document d of the corpus is number d // n of shard d % n (``clean.clean_documents``). So the texts of the training set
are merged by taking documents from the shards in turn. Its binaries are made again from the instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, open_bytes, read_json, sha256, write_json
from gtransformer.preprocess.binarise import binarise
from gtransformer.preprocess.instances import instance_index_name
from gtransformer.preprocess.manifest import PATH_SETTINGS, added
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.pieces import copy_file
from gtransformer.preprocess.settings import option, shard_numbers
from gtransformer.preprocess.steps import Steps

MARK = b"<d>\n"
# The parts of a manifest that must be the same, and how to achieve that.
TOGETHER = {
    "inputs": "from the same raw files",
    "settings": "alike",
    "versions": "with the same programs",
    "outputs": "with --vocabulary and the same directory",
}
PARTS = ("splits", *TOGETHER)  # all parts that are read
Shard = tuple[Path, dict[str, Any]]  # folder and manifest


def merge(folders: Sequence[str | Path], output: str | Path, command: str = "") -> dict[str, Any]:
    """Merge all shards of a corpus in the directory ``output``; return the manifest.

    Raises UserError, before anything is written, if shards are missing or do not belong together, and for files that
    were changed.
    """
    output, shards = Path(output), read_shards([Path(folder) for folder in folders])
    manifests = [manifest for _, manifest in shards]
    first = manifests[0]
    settings = {**first["settings"], "shard": None}
    _check_output(output, [folder for folder, _ in shards], settings, first)
    pair = settings["source_lang"], settings["target_lang"]
    binaries = [name for name in first["outputs"] if _is_of_training(name) and name.endswith((".bin", ".idx"))]
    parts = {name: shards if _is_of_training(name) else shards[:1] for name in first["outputs"] if name not in binaries}
    for name, theirs in parts.items():
        for folder, manifest in theirs:
            if sha256(folder / name) != manifest["outputs"].get(name):
                raise UserError(f"{folder / name}: was changed; prepare this shard again")
    steps = Steps(output, final=["manifest.json", "bin"])
    try:
        turns = _Turns([folder / "bin" / instance_index_name("train", *pair) for folder, _ in shards])
        for name, theirs in parts.items():
            sums = [manifest["outputs"].get(name) for _, manifest in theirs]
            work = partial(turns.write, name, [folder / name for folder, _ in theirs], output / name)
            steps.run(f"merge:{name.replace('/', '.')}", [], [output / name], {"shards": sums}, work)
        dictionaries = [output / "bin" / f"dict.{lang}.txt" for lang in pair]
        inputs = [*dictionaries, *(output / "instances" / f"train.{lang}" for lang in pair)]
        work = partial(binarise, output / "instances", ["train"], pair, dictionaries, output / "bin", available_cores())
        steps.run("merge:binaries", inputs, [output / name for name in binaries], {}, work)
        steps.forget_others()
        merged = {
            **first,
            "splits": {**first["splits"], "train": added([manifest["splits"]["train"] for manifest in manifests])},
            "settings": settings,
            "command": command,
            "outputs": {name: steps.checksum(output / name) for name in first["outputs"]},
        }
        write_json(output / "manifest.json", merged)
        return merged
    finally:
        steps.close()


def read_shards(folders: Sequence[Path]) -> list[Shard]:
    """Return all shards of a corpus in order, each with its manifest. Raise UserError as ``merge``."""
    found: dict[int, Shard] = {}
    total = None
    for folder in folders:
        path = folder / "manifest.json"
        if not path.is_file():
            raise UserError(f"{path}: no such file; finish this shard with gtransformer prepare --shard I/N first")
        manifest = read_json(path)
        if not (isinstance(manifest, dict) and all(isinstance(manifest.get(part), dict) for part in PARTS)):
            raise UserError(f"{path}: not the manifest of a prepared corpus; prepare this shard again")
        shard = manifest["settings"].get("shard")
        if shard is None:
            raise UserError(f"{folder}: a whole corpus, prepared without --shard; name directories of shards only")
        number, shards = shard_numbers(str(shard))
        if total not in (None, shards):
            raise UserError(f"{folder}: shard {shard}, but others are of {total}; name the shards of one division")
        if number in found:
            raise UserError(f"{found[number][0]} and {folder} are both shard {shard}; name each shard once")
        total, found[number] = shards, (folder, manifest)
    missing = [f"{number}/{total}" for number in range(total or 0) if number not in found]
    if missing:
        raise UserError(f"{', '.join(missing)} missing among the shards named; prepare it with --shard, or name it")
    in_order = [found[number] for number in range(total or 0)]
    for one in in_order[1:]:
        _check_together(in_order[0], one)
    return in_order


def _check_together(first: Shard, other: Shard) -> None:
    """Raise UserError for shards of other raw files, options, programs or vocabulary."""
    (one, ours), (two, theirs) = first, other
    try:
        added([ours["splits"]["train"], theirs["splits"]["train"]])
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{two}: has other counts than {one}; prepare all shards with the same version") from None
    ignored = {"settings": ("shard",), "versions": ("python",), "outputs": filter(_is_of_training, ours["outputs"])}
    for part, advice in TOGETHER.items():
        for name in sorted(ours[part].keys() & theirs[part].keys() - set(ignored.get(part, ()))):
            wanted, found = ours[part][name], theirs[part][name]
            if wanted != found and not (part == "settings" and name in PATH_SETTINGS and bool(wanted) == bool(found)):
                what = f"another {name} than {one}"
                if part == "settings":
                    what = f"{option(name)} {found}, not {wanted} as {one}"
                raise UserError(f"{two}: prepared with {what}; prepare all shards {advice}")
    if not theirs["inputs"].keys() <= ours["inputs"].keys():
        raise UserError(f"{two}: of other raw files than {one}; prepare all shards {TOGETHER['inputs']}")


def _check_output(output: Path, folders: Sequence[Path], settings: dict[str, Any], first: dict[str, Any]) -> None:
    """Raise UserError if the output has another corpus; ``first``: the manifest of the first shard."""
    if output.resolve() in [folder.resolve() for folder in folders]:
        raise UserError(f"{output}: is one of the shards; give another directory to write to")
    if not (output / "manifest.json").is_file():
        return

    def identity(manifest: dict[str, Any], settings: dict[str, Any]) -> list[Any]:
        outputs = manifest["outputs"].items()
        vocabulary = {name: sha for name, sha in outputs if "/" not in name or name.startswith("bin/dict.")}
        return [settings, manifest["inputs"], vocabulary]

    with suppress(KeyError, TypeError, AttributeError):  # not that of a prepared corpus
        before = read_json(output / "manifest.json")
        if identity(before, before["settings"]) == identity(first, settings):
            return
    raise UserError(f"{output}: has another prepared corpus, or another vocabulary; give another directory")


def _is_of_training(name: str) -> bool:
    return name.partition("/")[2].startswith("train.")


class _Turns:
    """Merging of the texts of a training set, document by document."""

    def __init__(self, instance_indexes: Sequence[Path]):
        self.instance_indexes = [InstanceIndex.load(path) for path in instance_indexes]
        counts, shards = (
            [instance_index.documents for instance_index in self.instance_indexes],
            len(self.instance_indexes),
        )
        self.documents = sum(counts)
        if counts != [len(range(number, self.documents, shards)) for number in range(shards)]:
            folder = instance_indexes[0].parents[1]
            raise UserError(f"{folder}: {counts} documents are not those of one division; prepare the shards again")

    def write(self, name: str, parts: list[Path], output: Path) -> dict[str, Any]:
        """Write the file ``name`` from its parts."""
        if len(parts) == 1:
            copy_file(parts[0], output)
        elif name.endswith(".json"):
            whole = {rows: self._numbered(rows) for rows in ("instances", "dropped")}
            replace(self.instance_indexes[0], documents=self.documents, **whole).save(output)
        else:
            with ExitStack() as stack, atomic_write(output, "wb") as stream:
                streams = [stack.enter_context(open_bytes(part)) for part in parts]
                if name.startswith("instances/"):
                    documents = [self._instances(*one) for one in zip(streams, self.instance_indexes, strict=True)]
                else:
                    documents = [_documents(one) for one in streams]
                for number in range(self.documents):
                    stream.writelines(next(documents[number % len(parts)]))
        return {"summary": f"of {len(parts)} shards"} if len(parts) > 1 else {}

    def _numbered(self, rows: str) -> list[tuple[int, ...]]:
        """Return the rows of all indices of instances, with the documents' numbers in the whole corpus."""
        return sorted(
            (document * len(self.instance_indexes) + number, *rest)
            for number, instance_index in enumerate(self.instance_indexes)
            for document, *rest in getattr(instance_index, rows)
        )

    @staticmethod
    def _instances(stream: BinaryIO, instance_index: InstanceIndex) -> Iterator[list[bytes]]:
        """Return the instance lines of each document, possibly none."""
        owners = np.array([row[0] for row in instance_index.instances], dtype=np.int64)
        return (list(islice(stream, int(count))) for count in np.bincount(owners, minlength=instance_index.documents))


def _documents(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of each document, ``<d>`` first."""
    document: list[bytes] = []
    for line in stream:
        if line == MARK and document:
            yield document
            document = []
        document.append(line)
    yield document
