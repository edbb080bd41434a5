"""Reading contrastive suites, whose format is told from their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.evaluation.suites import contrapro, voita
from gtransformer.evaluation.suites.example import Example
from gtransformer.files import read_json


@dataclass(frozen=True)
class Suite:
    """The examples of one or several files of a kind; ``tokenised``: their text is so already."""

    name: str
    langs: tuple[str, str]
    tokenised: bool
    examples: list[Example]


def is_own_suite(path: Path) -> bool:
    """Whether a file is a contrastive set over a prepared corpus, like the demo's (``evaluation.contrastive``)."""
    return not path.is_dir() and isinstance(read_json(path), dict)


def read_suite(
    paths: Sequence[Path], context: int | None = None, documents: Path | None = None, behind: int = 0
) -> Suite:
    """Read one ContraPro suite (``contrapro.json`` or the directory of its text form) or files of Voita et al.

    ``context``: sentences before each of ContraPro's (None: JSON 1, text form all there are); ``behind``: behind it.
    Raises UserError for files that are neither, for kinds that are mixed, and for options that do not apply.
    """
    first = paths[0]
    if first.is_dir():
        _alone(paths, documents, "ContraPro's text form holds its context")
        return Suite(contrapro.NAME, contrapro.LANGS, False, contrapro.text_examples(first, context, behind))
    data = read_json(first)
    if contrapro.is_contrapro(data):
        _alone(paths)
        examples = contrapro.json_examples(data, first, 1 if context is None else context, behind, documents)
        return Suite(contrapro.NAME, contrapro.LANGS, False, examples)
    if context is not None or behind or documents is not None:
        raise UserError(f"{first}: --context, --context-right and --documents are for ContraPro; leave them out")
    examples = []
    for path in paths:
        data = data if path == first else read_json(path)
        if not voita.is_voita(data):
            raise UserError(
                f"{path}: no contrastive suite; expected are contrapro.json ('src segment', ...), a directory with "
                "contrapro.text.en, the format of Voita et al. ('src', 'dst', ...), or a set of the demo's kind alone"
            )
        examples += voita.voita_examples(data, path)
    return Suite("Voita et al. 2019", ("en", "ru"), True, examples)


def _alone(paths: Sequence[Path], documents: Path | None = None, why: str = "") -> None:
    if len(paths) > 1:
        raise UserError(f"{paths[1]}: ContraPro is scored alone; give one file or directory with --items")
    if documents is not None:
        raise UserError(f"{documents}: {why}; leave out --documents")
