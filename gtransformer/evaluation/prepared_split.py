"""Finding a split of a prepared corpus: its sidecar and its text, checked against each other."""

from __future__ import annotations

from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.plain_text import read_plain
from gtransformer.evaluation.segments import Documents
from gtransformer.preprocess.sidecar import Sidecar, join

REFERENCES = {"raw": "text", "paper": "tok"}  # by name: the folder of a prepared corpus that holds it


def find_sidecar(prepared: Path, split: str) -> Path:
    """The sidecar of ``split`` in a prepared corpus; UserError, naming the splits there are, if it has none."""
    folder = prepared / "bin"
    if not folder.is_dir():
        raise UserError(f"{prepared}: not a prepared corpus (no folder bin in it); make one with scripts/prepare.sh")
    found = sorted(folder.glob(f"{split}.*-*.instances.json"))
    if not found:
        splits = sorted({path.name.split(".")[0] for path in folder.glob("*.instances.json")})
        raise UserError(f"{prepared}: no split {split!r}; it has: {', '.join(splits) or 'none'}")
    if len(found) > 1:
        raise UserError(
            f"{folder}: several language pairs for {split!r} ({', '.join(p.name for p in found)}); keep one"
        )
    return found[0]


def references_available(prepared: Path, split: str, target: str | None = None) -> tuple[str, ...]:
    """The references, of ``REFERENCES``, that a split of a prepared corpus can be scored against.

    Args:
        target: the target language as the corpus calls it; None for that of the split's sidecar.

    ``paper`` is missing where a pretrained model's own pieces cut the target side (mBART): nothing is tokenised there.
    Raises UserError as ``find_sidecar`` where ``target`` is None.
    """
    target = target or Sidecar.load(find_sidecar(prepared, split)).target_lang
    return tuple(name for name, folder in REFERENCES.items() if (prepared / folder / f"{split}.{target}").is_file())


def read_reference(prepared: Path, sidecar: Sidecar, reference: str) -> Documents:
    """The target side of a split, documents of sentences; the other side need not be there.

    Raises UserError if there is none in the folder of this reference, or if its documents are not those of the sidecar.
    """
    path = prepared / REFERENCES[reference] / f"{sidecar.split}.{sidecar.target_lang}"
    if reference == "paper" and not path.is_file():
        raise UserError(
            f"{path}: no such file: {prepared} has no tokenised {sidecar.target_lang} text to score against; use "
            "--reference raw"
        )
    return _read_side(path, sidecar)


def read_source(prepared: Path, sidecar: Sidecar) -> Documents:
    """The untouched source side of a split, documents of sentences. Raises UserError as ``read_reference``."""
    return _read_side(prepared / REFERENCES["raw"] / f"{sidecar.split}.{sidecar.source_lang}", sidecar)


def _read_side(path: Path, sidecar: Sidecar) -> Documents:
    documents, _ = read_plain(path)
    expected = [len(document) for document in join(sidecar, [[""] * count for *_, count in sidecar.instances])]
    if [len(document) for document in documents] != expected:
        raise UserError(
            f"{path}: {len(documents)} documents of {sum(map(len, documents))} sentences, but the sidecar of "
            f"{sidecar.split} has {len(expected)} of {sum(expected)}; prepare the corpus again"
        )
    return documents
