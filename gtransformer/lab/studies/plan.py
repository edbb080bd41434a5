"""The files of ``configs/studies/``: their keys, and the runs of a figure or table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.installation import config_directory
from gtransformer.lab.recipes import start_of
from gtransformer.lab.studies.study import CURVES, SCORES, Data, Line, Panel, Study, StudyRun
from gtransformer.run.recipe import load_recipe
from gtransformer.settings import dashed, read_yaml, typed

COMMON = "common"  # the file with settings of all studies
ALL_INSTANCES = "all"  # number of instances: all
AXES = ("length", "instances", "model")
# Options that a study sets itself, with the reason.
OWN_OPTIONS = {
    "train.seed": "a study trains with several seeds; list them in its file (seeds: [1, 2])",
    "train.log-format": "a study reads its curves from the log that it has chosen",
}


@dataclass
class StudySettings:
    """Settings of all runs of a study, merged from ``common.yaml`` and the study's own file."""

    seeds: list[int]
    systems: dict[str, Any]  # by key, a name and a recipe
    length: int  # tokens of an instance, at most
    panels: list[Any]
    start_seed: int | None = None  # of all start models; None: each training's own seed
    corpus: dict[str, int] | None = None  # sizes of the generated one
    changes: dict[str, Any] | None = None


@dataclass
class RunSettings:
    """Settings of a panel or line for its runs; see ``Data`` and ``StudyRun``."""

    length: int | None = None
    instances: int | str | None = None
    model: str | None = None
    min_document_tokens: int | None = None


@dataclass
class LineSettings(RunSettings):
    """A line of a diagram, or a row of a table.

    Attributes:
        curve, flat: for a diagram: the drawn quantity, and whether that of uniform attention is also drawn.
        start_instances: number of training instances for the start model, if it differs.
        training: changes in training.
    """

    system: str = ""
    label: str | None = None
    curve: str | None = None
    flat: bool | None = None
    start_instances: int | str | None = None
    training: dict[str, Any] | None = None


@dataclass
class PanelSettings(RunSettings):
    """A diagram or a table.

    Attributes:
        systems, axis, values: scores: a point for each system and value of the axis.
        quantity: which score; for curves their quantity.
        lines, rows: entries of ``LineSettings``, of curves and of tables.
        columns: meaning of the rows' labels.
        by: grouping of contrastive accuracy.
        baseline: what the others are compared with: the label of a row or, of scores, the key of a system.
    """

    title: str = ""
    kind: str = ""
    quantity: str | None = None
    systems: list[str] | None = None
    axis: str | None = None
    values: list[Any] | None = None
    lines: list[Any] | None = None
    columns: str | None = None
    rows: list[Any] | None = None
    by: str | None = None
    baseline: str | None = None


def study_names() -> list[str]:
    """Return the names of all figures and tables."""
    return sorted(path.stem for path in (config_directory() / "studies").glob("*.yaml") if path.stem != COMMON)


def listing() -> str:
    """Return one line for each study: its name and its description."""
    names, folder = study_names(), config_directory() / "studies"
    found = {name: read_yaml(folder / f"{name}.yaml").get("description", "") for name in names}
    return "\n".join(f"  {name:{max(map(len, names))}}  {' '.join(found[name].split())}" for name in names)


def check_changes(options: Iterable[str], where: str) -> None:
    """Raise UserError for a change (``SECTION.OPTION``, with or without ``=VALUE``) of an option that a study sets
    itself.
    """
    for change in options:
        if reason := OWN_OPTIONS.get(dashed(change.partition("=")[0])):
            raise UserError(f"{where}{change}: {reason}")


def load_study(name: str, miniature: bool = False, changes: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        name: a name in ``configs/studies/``, or the path of a YAML file with a ``common.yaml`` in its folder.
        miniature: the miniature instead of the full study.
        changes: ``SECTION.OPTION=VALUE`` for the recipes of all runs.

    Raises UserError for an unknown study, a damaged file, a missing or unknown key, or an invalid value.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else config_directory() / "studies" / f"{name}.yaml"
    if not path.is_file() or path.stem == COMMON:
        raise UserError(
            f"unknown study '{name}'; choose from {', '.join(study_names())}, or give the path of a YAML file"
        )
    size, own = "miniature" if miniature else "full", read_yaml(path)
    entries = read_yaml(path.with_name(f"{COMMON}.yaml")).get(size) or {}
    shared = typed(entries | (own.get(size) or {}), StudySettings, f"{path}, {size}")
    study = Study(
        figure=path.stem,
        description=own.get("description") or path.stem,
        miniature=miniature,
        systems={key: system["name"] for key, system in shared.systems.items()},
        recipes={key: system["recipe"] for key, system in shared.systems.items()},
        seeds=shared.seeds,
        changes=[*_changes(shared.changes), *changes],
        length=shared.length,
        corpus=dict(shared.corpus or {}),
        start_seed=shared.start_seed,
    )
    study.panels = [_panel(study, entry, f"{path}, {size}, panel {i}") for i, entry in enumerate(shared.panels, 1)]
    return study


def _panel(study: Study, entry: Any, where: str) -> Panel:
    panel = typed(entry, PanelSettings, where)
    if panel.kind == SCORES:
        points = [
            replace(_line(study, LineSettings(**(_own(panel) | {"system": system, panel.axis: value})), where), x=value)
            for system in panel.systems
            for value in panel.values
        ]
        return Panel(panel.kind, panel.title, panel.axis, points, panel.quantity or "d_bleu", baseline=panel.baseline)
    entries = panel.lines if panel.kind == CURVES else panel.rows
    lines = [_line(study, typed(one, LineSettings, where), where) for one in entries]
    title = panel.quantity if panel.kind == CURVES else panel.columns
    return Panel(panel.kind, panel.title, title, lines, by=panel.by, baseline=panel.baseline)


def _own(panel: PanelSettings) -> dict[str, Any]:
    """Return a panel's settings for its runs."""
    return {key: getattr(panel, key) for key in ("length", "instances", "model", "min_document_tokens")}


def _line(study: Study, line: LineSettings, where: str) -> Line:
    """Return the runs of a line, one for each seed."""
    if line.system not in study.recipes:
        raise UserError(f"{where}: unknown system '{line.system}'; choose from {', '.join(study.recipes)}")
    recipe, training = study.recipes[line.system], tuple(_changes(line.training))
    data = Data(line.length or study.length, _number(line.instances), line.min_document_tokens)
    own = load_recipe(recipe, study.changes).sections["train"].get("arch")
    model = None if line.model == own else line.model  # the recipe's own model: the same run as without this key
    run = StudyRun(recipe, tuple(study.changes), data, 0, model, training)
    if training and run.settings().sections == replace(run, training=()).settings().sections:
        run = replace(run, training=())
    if line.start_instances is not None:
        if start_of(recipe) is None:
            raise UserError(f"{where}: recipe '{recipe}' does not start from another's model, but has start-instances")
        start = replace(data, instances=_number(line.start_instances))
        run = replace(run, start_data=None if start == data else start)
    run = replace(run, start_seed=study.start_seed)
    return Line(
        line.system,
        [replace(run, seed=seed) for seed in study.seeds],
        curve=line.curve,
        label=line.label,
        flat=bool(line.flat),
    )


def _number(instances: int | str | None) -> int | None:
    """Return the number of training instances; None: all."""
    return None if instances == ALL_INSTANCES else instances


def _changes(options: Mapping[str, Any] | None) -> list[str]:
    """Return options as changes of a recipe; null removes one. Raises UserError for one that a study sets itself."""
    check_changes(options or {}, "")
    texts = {
        key: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options or {}).items()
    }
    return [f"{key}={text}" for key, text in texts.items()]
