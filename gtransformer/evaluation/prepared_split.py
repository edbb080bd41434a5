"""Finding a split of a prepared corpus: its sidecar and its text, checked against each other."""

from __future__ import annotations

from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.segments import Documents
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.sidecar import Sidecar, join


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


def read_reference(folder: Path, sidecar: Sidecar, source_side: bool = False) -> Documents:
    """The target (or source) side of a split, documents of sentences.

    Raises UserError if its documents are not those of the sidecar.
    """
    source, target = (folder / f"{sidecar.split}.{lang}" for lang in (sidecar.source_lang, sidecar.target_lang))
    side = 0 if source_side else 1
    documents = [[pair[side] for pair in document] for document in read_documents(source, target)]
    expected = [len(document) for document in join(sidecar, [[""] * count for *_, count in sidecar.instances])]
    if [len(document) for document in documents] != expected:
        raise UserError(
            f"{target}: {len(documents)} documents of {sum(map(len, documents))} sentences, but the sidecar of "
            f"{sidecar.split} has {len(expected)} of {sum(expected)}; prepare the corpus again"
        )
    return documents
