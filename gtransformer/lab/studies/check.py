"""What the files of ``configs/studies/`` may hold; a dash in a key is ``_`` here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gtransformer.errors import UserError
from gtransformer.settings import count, setting

ALL = "all"  # as a number of instances: all that there are
AXES = ("length", "instances", "model")
OPTIONS = ("task", "train", "generate")  # sections of which an axis may be an option, SECTION.OPTION
QUANTITIES = ("d_bleu", "s_bleu", "accuracy")
SIDES = ("encoder", "decoder")
CHANGES = "lines of the form 'SECTION.OPTION: value'"
# Options that a study sets itself, and why.
OWN_OPTIONS = {
    "train.seed": "a study trains with several seeds; list them in its file (seeds: [1, 2])",
    "train.log-format": "a study reads its curves from the log that it has chosen",
}


@dataclass
class StudyFile:
    """A figure or table, or what all share: in full, and as a miniature. Both hold ``StudySettings``."""

    description: str | None = None
    full: dict[str, Any] | None = None
    miniature: dict[str, Any] | None = None


@dataclass
class StudySettings:
    """What the runs of a study share, those of ``common.yaml`` and of the study's own file together."""

    seeds: list[int] = setting(
        "a list of different whole numbers, such as [1, 2]", lambda seeds: len(set(seeds)) == len(seeds)
    )
    systems: dict[str, Any] = setting("a name and a recipe for each", bool)
    length: int = count()  # tokens of an instance, at most
    start_seed: int | None = count(None)  # of all that trainings start from; None: each its own training's
    entropy: bool = True  # whether figures measure attention entropy while training
    corpus: dict[str, int] | None = setting(
        "whole numbers of at least 1, such as {documents: 500}",
        lambda sizes: all(size > 0 for size in sizes.values()),
        None,
    )
    changes: dict[str, Any] | None = setting(CHANGES, default=None)


@dataclass
class SystemSettings:
    """A system, by its key."""

    name: str
    recipe: str


def _instances() -> Any:
    """A field for a number of training instances."""
    return setting(
        f"a whole number of at least 1, or {ALL}",
        lambda number: number == ALL or (isinstance(number, int) and number > 0),
        None,
    )


@dataclass(kw_only=True)
class RunSettings:
    """What a panel, or one line of it, may choose for its runs."""

    length: int | None = count(None)
    instances: int | str | None = _instances()
    model: str | None = None
    min_document_tokens: int | None = count(None)
    share: float | None = setting("a share of the documents, above 0 and below 1", lambda share: 0 < share < 1, None)


@dataclass(kw_only=True)
class LineSettings(RunSettings):
    """A line of a panel with curves."""

    system: str
    curve: str
    label: str | None = None
    flat: bool | None = None


@dataclass(kw_only=True)
class ScoresSettings(RunSettings):
    """A panel with scores: a point for each system and value of the axis, which may be an option of the recipe."""

    title: str
    kind: str
    systems: list[str] = setting("a list of their keys")
    axis: str = setting(
        f"one of {', '.join(AXES)}, or an option SECTION.OPTION of {', '.join(OPTIONS)}",
        lambda axis: axis in AXES or axis.partition(".")[0] in OPTIONS,
    )
    values: list[Any] = setting("a list of what the axis shows", lambda values: None not in values)
    training: list[Any] | None = setting(
        "a list, of each value what else its trainings change",
        lambda changes: all(isinstance(one, dict) for one in changes),
        None,
    )
    quantity: str = setting(f"one of {', '.join(QUANTITIES)}", QUANTITIES.__contains__, "d_bleu")


@dataclass(kw_only=True)
class CurvesSettings:
    """A panel with curves; ``quantity`` says what they are."""

    title: str
    kind: str
    quantity: str
    lines: list[Any] = setting("a list with an entry for each line")


def _changes_of(*sections: str) -> Any:
    """A field for changes in some sections of a recipe."""
    forms = " or ".join(f"'{section}.OPTION: value'" for section in sections)
    return setting(
        f"lines of the form {forms}",
        lambda changes: all(key.partition(".")[0] in sections for key in changes),
        None,
    )


@dataclass(kw_only=True)
class RowSettings(RunSettings):
    """A row of a table: a system, what it changes in its training, and what in translating with the trained model.

    ``start_instances``: so many training instances for the model that its training starts from, if not its own.
    ``translate``: false for a model that cannot, so that it is asked about contrastive items alone.
    """

    system: str
    label: str
    start_instances: int | str | None = _instances()
    training: dict[str, Any] | None = _changes_of("train", "task")
    decoding: dict[str, Any] | None = _changes_of("generate")
    translate: bool = True


@dataclass(kw_only=True)
class TableSettings:
    """A table of scores; ``columns`` says what the labels of its rows are."""

    title: str
    kind: str
    columns: str
    rows: list[Any] = setting("a list with an entry for each row")


@dataclass(kw_only=True)
class AccuracySettings(TableSettings):
    """Contrastive accuracy by a kind of item (phenomenon, distance, ...), of each row, and of all of them.

    ``baseline``: the label of the row that the others are drawn against; None: accuracies are drawn as they are.
    """

    by: str
    baseline: str | None = None


@dataclass(kw_only=True)
class AttentionSettings(RunSettings):
    """Attention of a system across a batch, by sentence, in a document of the test set; of its first seed."""

    title: str
    kind: str
    system: str
    side: str = setting(f"one of {', '.join(SIDES)}", SIDES.__contains__)


TABLE, ACCURACY, ATTENTION = "table", "accuracy", "attention"
PANELS = {  # by kind
    "scores": ScoresSettings,
    "curves": CurvesSettings,
    TABLE: TableSettings,
    ACCURACY: AccuracySettings,
    ATTENTION: AttentionSettings,
}


def check_changes(options: Iterable[str], where: str) -> None:
    """UserError for a change (``SECTION.OPTION``, ``=VALUE`` behind it or not) of what a study sets itself."""
    for change in options:
        reason = OWN_OPTIONS.get(change.partition("=")[0].replace("_", "-"))
        if reason:
            raise UserError(f"{where}{change}: {reason}")
