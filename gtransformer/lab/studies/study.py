"""A study of a figure or a table: the runs that it consists of, what they are called, and what each needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from gtransformer.files import digest
from gtransformer.run.dependencies import start_of
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.run import FIRST_PASS, START

SCORES, CURVES, TABLE, ACCURACY, ATTENTION = "scores", "curves", "table", "accuracy", "attention"  # kinds of panels


@dataclass(frozen=True)
class Data:
    """Which data a run is trained and tested on.

    Attributes:
        length: limit of an instance in tokens, of all splits.
        instances: so many training instances, drawn at random; None: all.
        min_document_tokens: only training documents of at least so many tokens; None: all.
        share: of all training documents, drawn at random, whole; None: all.
    """

    length: int
    instances: int | None = None
    min_document_tokens: int | None = None
    share: float | None = None

    @property
    def settings(self) -> dict[str, int | float | None]:
        """What identifies it, the same as before there were shares where it has none."""
        return {key: value for key, value in vars(self).items() if key != "share" or value is not None}

    @property
    def name(self) -> str:
        """For directories: ``len512-from768-20000``, ``len512-share0.01``."""
        parts = [f"len{self.length}"]
        parts += [f"share{self.share:g}"] if self.share else []
        parts += [f"from{self.min_document_tokens}"] if self.min_document_tokens else []
        parts += [str(self.instances)] if self.instances else []
        return "-".join(parts)


@dataclass(frozen=True)
class StudyRun:
    """One training, or another translation by a trained model: a recipe with changes, data, and a seed.

    Attributes:
        changes: those of all runs of a study, ``SECTION.OPTION=VALUE``.
        model: another architecture than the recipe's.
        training: what else this run changes.
        decoding: what it changes in translating with the model that the same run without them trains.
        start_data, start_seed: of what its training starts from; None: the same.
        translate: whether its model translates and is scored.
    """

    recipe: str
    changes: tuple[str, ...]
    data: Data
    seed: int
    model: str | None = None
    training: tuple[str, ...] = ()
    decoding: tuple[str, ...] = ()
    start_data: Data | None = None
    start_seed: int | None = None
    translate: bool = True

    @property
    def all_changes(self) -> list[str]:
        """What it changes in its recipe."""
        model = [f"train.arch={self.model}"] if self.model else []
        return [*self.changes, *model, *self.training, *self.decoding, f"train.seed={self.seed}"]

    def settings(self) -> Recipe:
        """Return the recipe with all changes. Raises UserError for one that cannot be made."""
        return load_recipe(self.recipe, self.all_changes)

    @cached_property
    def needed(self) -> StudyRun | None:
        """The run whose model this one translates with, or starts its training from; None: it starts from nothing."""
        if self.decoding:
            return replace(self, decoding=())
        start = start_of(self.recipe)
        if start is None:
            return None
        data, seed = self.start_data or self.data, self.seed if self.start_seed is None else self.start_seed
        own = {"model": None, "training": (), "start_data": None, "translate": True}
        return replace(self, recipe=start, data=data, seed=seed, **own)

    @cached_property
    def first(self) -> StudyRun | None:
        """The run whose model translates first, before its own does; None: none does."""
        if self.settings().sections["generate"].get(FIRST_PASS) != START:
            return None
        return self.needed.needed if self.decoding else self.needed

    @property
    def with_needed(self) -> list[StudyRun]:
        """The run behind those that it needs."""
        return [*(self.needed.with_needed if self.needed else []), self]

    @property
    def label(self) -> str:
        """Recipe, model, what else it changes, data (its own, then that of its start) and seed in short."""
        recipe = Path(self.recipe).stem if self.recipe.endswith((".yaml", ".yml")) else self.recipe
        values = (change.partition("=")[2] for change in (*self.training, *self.decoding))
        parts = [recipe, *filter(None, [self.model]), *values]
        name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts)
        start = f"-after-{self.start_data.name}" if self.start_data else ""
        return f"{name}-{self.data.name}{start}-seed{self.seed}"

    def name(self, corpus: str) -> str:
        """Return the label and a digest of all that decides the result, ``corpus`` being the digest of the raw files.

        Studies that want the same run find it under the same name; other settings are another run.
        """
        needed = [self.needed.name(corpus)] if self.needed else []
        more = [] if self.translate else ["not translated"]
        everything = [corpus, self.data.settings, self.settings().sections, *needed, *more]
        return f"{self.label}-{digest(everything)[:8]}"


@dataclass
class Line:
    """Runs that belong together: the seeds of one point, of a row, or of a line of curves; see ``plan.LineSettings``.

    ``x``: a point's place on the axis. Of attention, ``curve`` is the side.
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

    ``axis``: what the axis shows (scores), the curves are, or the rows' labels say.
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
    """A figure or table: its panels, and what its runs share. ``systems``: key -> shown name."""

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
    entropy: bool = True
    start_seed: int | None = None

    @property
    def lines(self) -> list[Line]:
        """Those of all panels."""
        return [line for panel in self.panels for line in panel.lines]

    @property
    def is_table(self) -> bool:
        """Whether nothing is drawn of it."""
        return all(panel.kind == TABLE for panel in self.panels)

    def runs(self) -> list[StudyRun]:
        """Return all runs and those that they need, each once; the first seed of everything comes first."""
        found = dict.fromkeys(needed for line in self.lines for run in line.runs for needed in run.with_needed)
        order = {seed: number for number, seed in enumerate(self.seeds)}  # a start's seed may be none of them
        return sorted(found, key=lambda run: order.get(run.seed, -1))

    def looked_at(self) -> list[StudyRun]:
        """Return the runs whose attention across a batch is shown."""
        return [run for panel in self.panels if panel.kind == ATTENTION for line in panel.lines for run in line.runs]

    def limit(self, instances: Callable[[Data], int | None]) -> list[str]:
        """Drop what asks for more training instances than ``instances`` says there are; returns a sentence for each.

        Where that is None, it is not known and nothing is dropped.
        """
        notes = []
        for panel in self.panels:
            for line in list(panel.lines):
                most = max((run.data for run in line.runs[0].with_needed), key=lambda data: data.instances or 0)
                there = instances(most) if most.instances else None
                if there is not None and most.instances > there:
                    panel.lines.remove(line)
                    notes.append(f"{panel.title}: {most.instances} instances left out, the corpus has {there}")
        return list(dict.fromkeys(notes))
