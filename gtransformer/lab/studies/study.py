"""A study of a figure or table: its runs, their names, and their dependencies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from gtransformer.files import digest
from gtransformer.lab.recipes import start_of
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.run import FIRST_PASS, START

SCORES, CURVES, TABLE, ACCURACY = "scores", "curves", "table", "accuracy"  # kinds of panels


@dataclass(frozen=True)
class Data:
    """The training and test data of a run.

    Attributes:
        length: most tokens of an instance, in all splits.
        instances: so many training instances, drawn at random; None: all.
        min_document_tokens: least tokens of training documents; None: all documents.
    """

    length: int
    instances: int | None = None
    min_document_tokens: int | None = None

    @property
    def settings(self) -> dict[str, int | None]:
        """The settings that identify the data."""
        return dict(vars(self))

    @property
    def name(self) -> str:
        """The name for directories: ``len512-from768-20000``."""
        parts = [f"len{self.length}"]
        parts += [f"from{self.min_document_tokens}"] if self.min_document_tokens else []
        parts += [str(self.instances)] if self.instances else []
        return "-".join(parts)


@dataclass(frozen=True)
class StudyRun:
    """A training: a recipe with changes, data, and a seed.

    Attributes:
        changes: changes of all runs of a study, ``SECTION.OPTION=VALUE``.
        model: an architecture other than the recipe's.
        training: further changes of this run.
        start_data, start_seed: data and seed of the start model; None: the same.
    """

    recipe: str
    changes: tuple[str, ...]
    data: Data
    seed: int
    model: str | None = None
    training: tuple[str, ...] = ()
    start_data: Data | None = None
    start_seed: int | None = None

    @property
    def all_changes(self) -> list[str]:
        """All changes of its recipe."""
        model = [f"train.arch={self.model}"] if self.model else []
        return [*self.changes, *model, *self.training, f"train.seed={self.seed}"]

    def settings(self) -> Recipe:
        """Return the recipe with all changes. Raises UserError for an invalid change."""
        return load_recipe(self.recipe, self.all_changes)

    @cached_property
    def needed(self) -> StudyRun | None:
        """The run whose model this one starts training from; None: no start model."""
        start = start_of(self.recipe)
        if start is None:
            return None
        data, seed = self.start_data or self.data, self.seed if self.start_seed is None else self.start_seed
        own = {"model": None, "training": (), "start_data": None}
        return replace(self, recipe=start, data=data, seed=seed, **own)

    @cached_property
    def first(self) -> StudyRun | None:
        """The run whose model makes the first pass; None: no first pass."""
        if self.settings().sections["generate"].get(FIRST_PASS) != START:
            return None
        return self.needed

    @property
    def with_needed(self) -> list[StudyRun]:
        """The run, after the runs that it needs."""
        return [*(self.needed.with_needed if self.needed else []), self]

    @property
    def label(self) -> str:
        """A short label: recipe, model, changes, data (its own, then the start's) and seed."""
        recipe = Path(self.recipe).stem if self.recipe.endswith((".yaml", ".yml")) else self.recipe
        values = (change.partition("=")[2] for change in self.training)
        parts = [recipe, *filter(None, [self.model]), *values]
        name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts)
        start = f"-after-{self.start_data.name}" if self.start_data else ""
        return f"{name}-{self.data.name}{start}-seed{self.seed}"

    def name(self, corpus: str) -> str:
        """Return the label and a digest of everything that affects the result; ``corpus`` is the digest of the raw
        files.

        Studies with the same run share it by its name; other settings are another run.
        """
        needed = [self.needed.name(corpus)] if self.needed else []
        recipe = self.settings()
        everything = [corpus, self.data.settings, recipe.sections, recipe.devices, *needed]
        return f"{self.label}-{digest(everything)[:8]}"


@dataclass
class Line:
    """The runs of one point, row, or line of curves, one per seed; see ``plan.LineSettings``.

    ``x``: a point's position on the axis.
    """

    system: str
    runs: list[StudyRun]
    x: int | str | None = None
    curve: str | None = None
    label: str | None = None
    flat: bool = False


@dataclass
class Panel:
    """One diagram of a figure, or a table; see ``plan.PanelSettings``.

    ``axis``: meaning of the axis (scores), of the curves, or of the rows' labels.
    """

    kind: str
    title: str
    axis: str
    lines: list[Line]
    quantity: str | None = None
    by: str | None = None
    baseline: str | None = None


@dataclass
class Study:
    """A figure or table: its panels, and common settings of its runs. ``systems``: key -> shown name."""

    figure: str
    description: str
    miniature: bool
    systems: dict[str, str]
    recipes: dict[str, str]
    seeds: list[int]
    changes: list[str]
    length: int
    corpus: dict[str, int]
    panels: list[Panel] = field(default_factory=list)
    start_seed: int | None = None

    @property
    def lines(self) -> list[Line]:
        """The lines of all panels."""
        return [line for panel in self.panels for line in panel.lines]

    @property
    def is_table(self) -> bool:
        """Whether it has no figure."""
        return all(panel.kind == TABLE for panel in self.panels)

    def runs(self) -> list[StudyRun]:
        """Return all runs and the runs that they need, each once; first the first seed of all."""
        found = dict.fromkeys(needed for line in self.lines for run in line.runs for needed in run.with_needed)
        order = {seed: number for number, seed in enumerate(self.seeds)}  # a start's seed may be another one
        return sorted(found, key=lambda run: order.get(run.seed, -1))

    def limit(self, instances: Callable[[Data], int]) -> list[str]:
        """Drop points with more training instances than ``instances``; return a message for each."""
        notes = []
        for panel in self.panels:
            for line in list(panel.lines):
                most = max((run.data for run in line.runs[0].with_needed), key=lambda data: data.instances or 0)
                there = instances(most) if most.instances else 0
                if most.instances and most.instances > there:
                    panel.lines.remove(line)
                    notes.append(f"{panel.title}: {most.instances} instances left out, the corpus has {there}")
        return list(dict.fromkeys(notes))
