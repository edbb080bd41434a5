"""Shards of a corpus that were prepared apart, put together: what one run would have made, byte for byte.

Document d of the corpus is number d // n of shard d % n (``clean.clean_documents``), so every file is made by taking
documents from the shards in turns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import HEAD, check_binary
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, open_bytes, read_json, sha256, write_json
from gtransformer.preprocess.instance_files import sidecar_name
from gtransformer.preprocess.manifest import PLACES, added
from gtransformer.preprocess.settings import shard_numbers
from gtransformer.preprocess.steps import Steps

MARK = b"<d>\n"
PARTS = ("settings", "inputs", "outputs", "versions", "splits")  # of a manifest, which are looked at


def merge(folders: Sequence[str | Path], output: str | Path, command: str = "") -> dict[str, Any]:
    """Put all shards of a corpus together in the directory ``output``; returns the manifest.

    Raises UserError, before anything is written, if the shards are not all there or do not belong together, and for
    files that are not as they were prepared.
    """
    output, shards = Path(output), read_shards([Path(folder) for folder in folders])
    folders, manifests = zip(*shards, strict=True)
    first = manifests[0]
    settings = {**first["settings"], "shard": None}
    _check_output(output, folders, settings, first)
    _check_parts(shards)
    steps = Steps(output, final=["manifest.json", "bin"])
    try:
        merger = _Merger(folders, settings["source_lang"], settings["target_lang"])
        for name in first["outputs"]:
            theirs = list(shards) if _is_of_training(name) else [shards[0]]
            sums = [manifest["outputs"].get(name) for _, manifest in theirs]
            work = partial(merger.write, name, [folder / name for folder, _ in theirs], output / name)
            steps.run(f"merge:{name.replace('/', '.')}", [], [output / name], {"shards": sums}, work)
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


def read_shards(folders: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """All shards of a corpus in their order, each with its manifest. Raises UserError as ``merge``."""
    found: dict[int, tuple[Path, dict[str, Any]]] = {}
    total = None
    for folder in folders:
        path = folder / "manifest.json"
        if not path.is_file():
            raise UserError(f"{path}: no such file; finish this shard with scripts/prepare.sh --shard I/N first")
        manifest = read_json(path)
        if not _is_manifest(manifest):
            raise UserError(f"{path}: not the manifest of a prepared corpus; prepare this shard again")
        shard = manifest["settings"].get("shard")
        if shard is None:
            raise UserError(f"{folder}: a whole corpus, prepared without --shard; name directories of shards only")
        number, shards = shard_numbers(shard)
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


def _is_manifest(value: Any) -> bool:
    """Whether what a file holds is a manifest with all that is looked at."""
    if not isinstance(value, dict) or not all(isinstance(value.get(part), dict) for part in PARTS):
        return False
    settings = value["settings"]
    words = [settings.get("source_lang"), settings.get("target_lang"), *value["outputs"].values()]
    try:
        added([value["splits"]["train"]])
    except (KeyError, TypeError, AttributeError, ZeroDivisionError):
        return False
    return all(isinstance(word, str) for word in words) and isinstance(settings.get("shard"), str | None)


def _check_together(first: tuple[Path, dict[str, Any]], other: tuple[Path, dict[str, Any]]) -> None:
    """Raise UserError for shards of other raw files, options, programs or words."""
    (one, ours), (two, theirs) = first, other

    def differing(part: str, leave: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
        for name in sorted(ours[part].keys() & theirs[part].keys() - set(leave)):
            pair = ours[part][name], theirs[part][name]
            if part == "settings" and name in PLACES:
                pair = bool(pair[0]), bool(pair[1])
            if pair[0] != pair[1]:
                yield name, *pair

    try:
        added([ours["splits"]["train"], theirs["splits"]["train"]])
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{two}: counts other things than {one}; prepare all shards with the same version") from None
    training = tuple(name for name in ours["outputs"] if _is_of_training(name))
    for name, _, _ in differing("inputs", ()):
        raise UserError(f"{two}: of another {name} than {one}; prepare all shards from the same raw files")
    for name, wanted, found in differing("settings", ("shard",)):
        option = f"--{name.replace('_', '-')}: {found}, not {wanted}"
        raise UserError(f"{two}: prepared with other options than {one} ({option}); prepare all shards alike")
    for name, wanted, found in differing("versions", ("python",)):
        raise UserError(f"{two}: prepared with {name} {found}, {one} with {wanted}; prepare all shards alike")
    for name, _, _ in differing("outputs", training):
        raise UserError(
            f"{two}: has another {name} than {one}; prepare all shards with --vocabulary and the same directory"
        )


def _check_output(output: Path, folders: Sequence[Path], settings: dict[str, Any], first: dict[str, Any]) -> None:
    """Raise UserError if something else was prepared there; ``first``: the manifest of the first shard."""
    if output.resolve() in [folder.resolve() for folder in folders]:
        raise UserError(f"{output}: is one of the shards; give another directory to write to")
    if (output / "manifest.json").is_file():
        before = read_json(output / "manifest.json")
        if not isinstance(before, dict) or not isinstance(before.get("outputs"), dict):
            raise UserError(f"{output / 'manifest.json'}: not that of a prepared corpus; give another directory")
        if (before.get("settings"), before.get("inputs")) != (settings, first["inputs"]):
            raise UserError(f"{output}: holds another prepared corpus; give another directory")
        for name in filter(_is_of_vocabulary, sorted(before["outputs"].keys() | first["outputs"].keys())):
            if before["outputs"].get(name) != first["outputs"].get(name):
                raise UserError(f"{output}: holds a corpus in another vocabulary ({name}); give another directory")


def _check_parts(shards: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """Raise UserError for a file that is put together and is not what was prepared, before any is read or written."""
    for number, (folder, manifest) in enumerate(shards):
        for name in shards[0][1]["outputs"]:
            if (number == 0 or _is_of_training(name)) and sha256(folder / name) != manifest["outputs"].get(name):
                raise UserError(f"{folder / name}: is not as it was prepared; prepare this shard again")


def _is_of_vocabulary(name: str) -> bool:
    return "/" not in name or name.startswith("bin/dict.")


def _is_of_training(name: str) -> bool:
    return name.partition("/")[2].startswith("train.")


class _Merger:
    """How the files of a training set are put together."""

    def __init__(self, folders: Sequence[Path], source_lang: str, target_lang: str):
        self.sidecar = sidecar_name("train", source_lang, target_lang)
        self.sidecars = [Sidecar.load(folder / "bin" / self.sidecar) for folder in folders]
        counts = [sidecar.documents for sidecar in self.sidecars]
        self.documents, shards = sum(counts), len(counts)
        if counts != [len(range(number, self.documents, shards)) for number in range(shards)]:
            raise UserError(
                f"{folders[0]}: the shards have {counts} documents, as no division makes; prepare them again"
            )
        # Of each shard, the document of every instance, and how many instances each document has.
        self.document = [np.array([row[0] for row in one.instances], dtype=np.int64) for one in self.sidecars]
        self.instances = [np.bincount(one, minlength=count) for one, count in zip(self.document, counts, strict=True)]

    def write(self, name: str, parts: list[Path], output: Path) -> dict[str, Any]:
        """Write the file ``name``."""
        self._how(name)(parts, output)
        return {"summary": f"of {len(parts)} shards"} if len(parts) > 1 else {}

    def _how(self, name: str) -> Callable[[list[Path], Path], None]:
        if not _is_of_training(name):
            return _copy
        if name.endswith(".json"):
            return self._sidecar
        if name.startswith("instances/"):
            return self._lines
        return {".bin": self._tokens, ".idx": self._index}.get(Path(name).suffix, self._text)

    def turns(self) -> Iterator[tuple[int, int]]:
        """(shard, its document) of all documents in their order."""
        shards = len(self.sidecars)
        return ((number % shards, number // shards) for number in range(self.documents))

    def order(self) -> np.ndarray:
        """(instances,) int64, where each instance of the whole stands among those of shard after shard."""
        shards = len(self.document)
        whole = [document * shards + number for number, document in enumerate(self.document)]
        return np.argsort(np.concatenate(whole), kind="stable")

    def _text(self, parts: list[Path], output: Path) -> None:
        with _opened(parts, output) as (streams, stream):
            documents = [_documents(one) for one in streams]
            for shard, _ in self.turns():
                stream.writelines(next(documents[shard]))

    def _lines(self, parts: list[Path], output: Path) -> None:
        with _opened(parts, output) as (streams, stream):
            for shard, document in self.turns():
                stream.writelines(islice(streams[shard], int(self.instances[shard][document])))

    def _sidecar(self, parts: list[Path], output: Path) -> None:
        shards = len(parts)

        def whole(rows: str) -> list[tuple[int, ...]]:
            numbered = (
                (document * shards + number, *rest)
                for number, sidecar in enumerate(self.sidecars)
                for document, *rest in getattr(sidecar, rows)
            )
            return sorted(numbered)

        merged = replace(
            self.sidecars[0], documents=self.documents, instances=whole("instances"), dropped=whole("dropped")
        )
        merged.save(output)

    def _tokens(self, parts: list[Path], output: Path) -> None:
        counts = []  # of each shard, the bytes of every document
        for part, instances in zip(parts, self.instances, strict=True):
            check_binary(part.with_suffix(""))
            _, sizes = _read_index(part.with_suffix(".idx"))
            borders = np.concatenate([[0], np.cumsum(sizes)])[np.concatenate([[0], np.cumsum(instances)])]
            counts.append(np.diff(borders) * (part.stat().st_size // max(1, int(sizes.sum()))))
        with _opened(parts, output) as (streams, stream):
            for shard, document in self.turns():
                stream.write(streams[shard].read(int(counts[shard][document])))

    def _index(self, parts: list[Path], output: Path) -> None:
        read = [_read_index(part) for part in parts]
        sizes = np.concatenate([sizes for _, sizes in read])[self.order()]
        magic, version, code, _ = read[0][0]
        width = parts[0].with_suffix(".bin").stat().st_size // max(1, int(read[0][1].sum()))
        with atomic_write(output, "wb") as stream:
            stream.write(HEAD.pack(magic, version, code, len(sizes)))
            stream.write(sizes.astype(np.int32).tobytes())
            stream.write(((np.cumsum(sizes) - sizes) * width).tobytes())


def _read_index(path: Path) -> tuple[tuple[bytes, int, int, int], np.ndarray]:
    """The head of an index, and the tokens of every instance, (instances,) int64."""
    with open_bytes(path) as stream:
        head = HEAD.unpack(stream.read(HEAD.size))
    return head, np.fromfile(path, np.int32, head[3], offset=HEAD.size).astype(np.int64)


def _documents(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of each document, ``<d>`` first."""
    document: list[bytes] = []
    for line in stream:
        if line == MARK and document:
            yield document
            document = []
        document.append(line)
    yield document


@contextmanager
def _opened(parts: Sequence[Path], output: Path) -> Iterator[tuple[list[BinaryIO], BinaryIO]]:
    """Files to read, and one to write, which appears whole or not at all."""
    with ExitStack() as stack, atomic_write(output, "wb") as stream:
        yield [stack.enter_context(open_bytes(part)) for part in parts], stream


def _copy(parts: list[Path], output: Path) -> None:
    with _opened(parts, output) as ((source,), stream):
        shutil.copyfileobj(source, stream)
