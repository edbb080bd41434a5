"""What a convergence study consists of: the files of ``configs/studies/``, and the runs that they ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from gtransformer.errors import UserError
from gtransformer.experiments.pipeline import digest
from gtransformer.experiments.recipe import Recipe, load_recipe
from gtransformer.experiments.studies.check import ALL, check_panel, check_shared
from gtransformer.installation import config_directory

COMMON = "common"  # the file with what all studies share


@dataclass(frozen=True)
class Data:
    """Which data a run is trained and tested on.

    length: limit of an instance in tokens, of all splits; instances: so many training instances, drawn at random (None:
    all); min_document_tokens: only training documents of at least so many tokens (None: all).
    """

    length: int
    instances: int | None = None
    min_document_tokens: int | None = None

    @property
    def name(self) -> str:
        """For directories: ``len512-from768-20000``."""
        parts = [f"len{self.length}"]
        parts += [f"from{self.min_document_tokens}"] if self.min_document_tokens else []
        parts += [str(self.instances)] if self.instances else []
        return "-".join(parts)


@dataclass(frozen=True)
class StudyRun:
    """One training: a recipe with changes (``SECTION.OPTION=VALUE``), data, and a seed."""

    recipe: str
    changes: tuple[str, ...]
    data: Data
    seed: int
    model: str | None = None  # another architecture than the recipe's

    def settings(self) -> Recipe:
        """The recipe with all changes. Raises UserError for one that cannot be made."""
        model = [f"train.arch={self.model}"] if self.model else []
        return load_recipe(self.recipe, [*self.changes, *model, f"train.seed={self.seed}"])

    @property
    def label(self) -> str:
        """Recipe, model, data and seed in short."""
        model = f"-{self.model}" if self.model else ""
        return f"{Path(self.recipe).stem}{model}-{self.data.name}-seed{self.seed}"

    def name(self, corpus: str) -> str:
        """The label and a digest of all that decides the result, ``corpus`` being the digest of the raw files.

        Studies that want the same run find it under the same name; other settings are another run.
        """
        everything = [corpus, vars(self.data), self.settings().sections]
        return f"{self.label}-{digest(everything)[:8]}"


@dataclass
class Line:
    """Runs that belong together: the seeds of one point of a score panel, or of one line of a panel with curves.

    x: the point's place on the axis; curve, label, flat: what is drawn of a line and how it is called, and whether what
    flat attention would have is drawn, too.
    """

    system: str
    runs: list[StudyRun]
    x: int | str | None = None
    curve: str | None = None
    label: str | None = None
    flat: bool = False


@dataclass
class Panel:
    """One diagram of a figure; ``axis`` (scores) or ``quantity`` (curves) says what its numbers are."""

    kind: str
    title: str
    axis: str
    lines: list[Line] = field(default_factory=list)


@dataclass
class Study:
    """A figure: its panels, and what its runs share. ``systems``: key -> shown name."""

    figure: str
    description: str
    miniature: bool
    systems: dict[str, str]
    recipes: dict[str, str]
    seeds: list[int]
    changes: list[str]
    length: int
    corpus: dict[str, int]
    panels: list[Panel]

    def runs(self) -> list[StudyRun]:
        """All runs, each once; the first seed of everything comes first."""
        found = [run for panel in self.panels for line in panel.lines for run in line.runs]
        return sorted(dict.fromkeys(found), key=lambda run: self.seeds.index(run.seed))

    def limit(self, instances: Callable[[Data], int | None]) -> list[str]:
        """Drop what asks for more training instances than ``instances`` says there are; returns a sentence for each.

        Where that is None, it is not known and nothing is dropped.
        """
        notes = []
        for panel in self.panels:
            for line in list(panel.lines):
                data = line.runs[0].data
                there = instances(data) if data.instances else None
                if there is not None and data.instances > there:
                    panel.lines.remove(line)
                    notes.append(f"{panel.title}: {data.instances} instances left out, the corpus has {there}")
        return list(dict.fromkeys(notes))


def study_names() -> list[str]:
    """The figures that can be made."""
    return sorted(path.stem for path in (config_directory() / "studies").glob("*.yaml") if path.stem != COMMON)


def load_study(name: str, miniature: bool = False, changes: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        name: a name in ``configs/studies/``, or the path of a YAML file beside which there is a ``common.yaml``.
        miniature: its miniature instead of the full study.
        changes: ``SECTION.OPTION=VALUE`` for the recipes of all runs.

    Raises UserError for an unknown study, a damaged file, a key that is missing or unknown, or a value that cannot be.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else config_directory() / "studies" / f"{name}.yaml"
    if not path.is_file() or path.stem == COMMON:
        raise UserError(
            f"unknown study '{name}': known are {', '.join(study_names())}; or give the path of a YAML file"
        )
    size = "miniature" if miniature else "full"
    own, common = _read(path), path.with_name(f"{COMMON}.yaml")
    section = _section(own, size, path)
    panels = section.pop("panels", None)
    if not isinstance(panels, list) or not panels:
        raise UserError(f"{path}, {size}: panels is {panels!r}; give a list of panels")
    shared = _section(_read(common), size, common) | section
    check_shared(shared, f"{path} with {common.name}, {size}")
    study = Study(
        figure=path.stem,
        description=own.get("description") or path.stem,
        miniature=miniature,
        systems={key: entry["name"] for key, entry in shared["systems"].items()},
        recipes={key: entry["recipe"] for key, entry in shared["systems"].items()},
        seeds=shared["seeds"],
        changes=[f"{key}={_text(value)}" for key, value in (shared.get("changes") or {}).items()] + list(changes),
        length=shared["length"],
        corpus=shared.get("corpus") or {},
        panels=[],
    )
    study.panels = [_panel(study, entry, f"{path}, {size}, panel {i}") for i, entry in enumerate(panels, 1)]
    return study


def _panel(study: Study, entry: Any, where: str) -> Panel:
    check_panel(entry, list(study.recipes), where)
    kind = entry["kind"]
    if kind == "curves":
        lines = [
            Line(
                line["system"],
                _runs(study, line["system"], line),
                curve=line["curve"],
                label=line.get("label"),
                flat=bool(line.get("flat")),
            )
            for line in entry["lines"]
        ]
        return Panel(kind, entry["title"], entry["quantity"], lines)
    axis = entry["axis"]
    lines = [
        Line(system, _runs(study, system, entry | {axis: value}), x=value)
        for system in entry["systems"]
        for value in entry["values"]
    ]
    return Panel(kind, entry["title"], axis, lines)


def _runs(study: Study, system: str, chosen: dict[str, Any]) -> list[StudyRun]:
    """A run for each seed."""
    instances = chosen.get("instances")
    data = Data(
        chosen.get("length") or study.length,
        None if instances == ALL else instances,
        chosen.get("min-document-tokens"),
    )
    model = chosen.get("model")
    if model == study_arch(study, system):
        model = None  # the recipe's own: the same run as without it
    run = StudyRun(study.recipes[system], tuple(study.changes), data, 0, model)
    return [replace(run, seed=seed) for seed in study.seeds]


def study_arch(study: Study, system: str) -> str:
    """The architecture of a system's recipe."""
    return load_recipe(study.recipes[system], study.changes).sections["train"].get("arch", "")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); a study needs it") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = re.sub(r"\s+", " ", str(error))
        raise UserError(f"{path}: not valid YAML ({reason})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: no study; it must hold the sections full and miniature")
    known = ("description", "full", "miniature")
    for key in content:
        if key not in known:
            raise UserError(f"{path}: unknown key '{key}'; known are {', '.join(known)}")
    return content


def _section(content: dict[str, Any], size: str, path: Path) -> dict[str, Any]:
    section = content.get(size)
    if not isinstance(section, dict):
        raise UserError(f"{path}: has no section '{size}'")
    return dict(section)


def _text(value: Any) -> str:
    """A YAML value as it is written after ``OPTION=``; nothing for null, which takes the option away."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
