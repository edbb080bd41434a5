"""Reading the files of ``configs/studies/``: the runs that a figure or a table asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.installation import config_directory
from gtransformer.lab.studies.check import (
    ALL,
    AXES,
    PANELS,
    AccuracySettings,
    AttentionSettings,
    CurvesSettings,
    LineSettings,
    RowSettings,
    RunSettings,
    ScoresSettings,
    StudyFile,
    StudySettings,
    SystemSettings,
    TableSettings,
    check_changes,
)
from gtransformer.lab.studies.study import Data, Line, Panel, Study, StudyRun
from gtransformer.run.needs import start_of
from gtransformer.run.recipe import load_recipe
from gtransformer.settings import Entries, check_value, read_settings, typed

COMMON = "common"  # the file with what all studies share


def study_names() -> list[str]:
    """The figures and tables that can be made."""
    return sorted(path.stem for path in (config_directory() / "studies").glob("*.yaml") if path.stem != COMMON)


def listing() -> str:
    """One line for each study: its name and what it is."""
    names = study_names()
    folder = config_directory() / "studies"
    found = {name: read_settings(folder / f"{name}.yaml", StudyFile).description or "" for name in names}
    return "\n".join(f"  {name:{max(map(len, names))}}  {' '.join(found[name].split())}" for name in names)


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
    own, common = read_settings(path, StudyFile), path.with_name(f"{COMMON}.yaml")
    if not common.is_file():
        raise UserError(f"{common}: no such file; a study needs it beside its own")
    section = _section(own, size, path)
    panels = section.pop("panels", None)
    if not isinstance(panels, list) or not panels:
        raise UserError(f"{section.at('panels')}, {size}: panels is {panels!r}; give a list of panels")
    entries = _section(read_settings(common, StudyFile), size, common) | section
    shared = typed(entries, StudySettings, entries.place, size)
    systems = {
        key: typed(entry, SystemSettings, shared.systems.at(key), f"{size}, system {key}")
        for key, entry in shared.systems.items()
    }
    study = Study(
        figure=path.stem,
        description=own.description or path.stem,
        miniature=miniature,
        systems={key: system.name for key, system in systems.items()},
        recipes={key: system.recipe for key, system in systems.items()},
        seeds=shared.seeds,
        changes=[*_changes(shared.changes, f"{entries.at('changes')}, {size}, changes"), *changes],
        length=shared.length,
        corpus=dict(shared.corpus or {}),
        panels=[],
        entropy=shared.entropy,
        start_seed=shared.start_seed,
    )
    study.panels = [_panel(study, entry, section.place, f"{size}, panel {i}") for i, entry in enumerate(panels, 1)]
    return study


def _panel(study: Study, entry: Any, place: str, inside: str) -> Panel:
    kind = entry.get("kind") if isinstance(entry, Entries) else "scores"
    if kind not in list(PANELS):
        raise UserError(f"{entry.place}, {inside}: kind is {kind!r}; give one of {', '.join(PANELS)}")
    panel = typed(entry, PANELS[kind], place, inside)
    if isinstance(panel, CurvesSettings):
        lines = _entries(study, panel.lines, LineSettings, entry.at("lines"), inside, "lines")
        lines = [
            Line(line.system, _runs(study, line.system, line), None, line.curve, line.label, bool(line.flat))
            for line in lines
        ]
        return Panel(kind, panel.title, panel.quantity, lines)
    if isinstance(panel, TableSettings):
        lines = []
        for row in _entries(study, panel.rows, RowSettings, entry.at("rows"), inside, "rows"):
            where = f"{entry.at('rows')}, {inside}, row '{row.label}'"
            changes = (_changes(part, where) for part in (row.training, row.decoding))
            runs = _runs(study, row.system, row, *changes)
            if row.start_instances is not None:
                runs = [_started_on(run, _number(row.start_instances), where) for run in runs]
            if not row.translate and row.decoding:
                raise UserError(f"{where}: translate is false, but decoding says how; leave one of them out")
            runs = [replace(run, translate=row.translate) for run in runs]
            lines.append(Line(row.system, runs, label=row.label))
        chosen = {}
        if isinstance(panel, AccuracySettings):
            chosen = {"by": panel.by, "baseline": panel.baseline}
            if panel.baseline not in (None, *(line.label for line in lines)):
                raise UserError(
                    f"{entry.at('baseline')}, {inside}: baseline is {panel.baseline!r}; give the label of a row"
                )
        return Panel(kind, panel.title, panel.columns, lines, **chosen)
    if isinstance(panel, AttentionSettings):
        _check_systems(study, [panel.system], f"{entry.at('system')}, {inside}")
        run = _runs(study, panel.system, panel)[0]
        return Panel(kind, panel.title, panel.side, [Line(panel.system, [run], curve=panel.side)])
    if panel.axis not in AXES:
        return _over_options(study, panel, f"{entry.at('systems')}, {inside}")
    for value in panel.values:
        check_value(RunSettings, panel.axis, value, f"{entry.at('values')}, {inside}, values")
    _check_systems(study, panel.systems, f"{entry.at('systems')}, {inside}")
    lines = [
        Line(system, _runs(study, system, replace(panel, **{panel.axis: value})), value)
        for system in panel.systems
        for value in panel.values
    ]
    return Panel(kind, panel.title, panel.axis, lines, panel.quantity)


def _over_options(study: Study, panel: ScoresSettings, where: str) -> Panel:
    """A panel whose axis is an option: of translating with one model, or of training."""
    _check_systems(study, panel.systems, where)
    part = "decoding" if panel.axis.startswith("generate.") else "training"
    more = panel.training or [{}] * len(panel.values)
    if len(more) != len(panel.values) or (panel.training and part == "decoding"):
        raise UserError(f"{where}: training has {len(more)} entries; give one for each of {len(panel.values)} values")
    lines = [
        Line(system, _runs(study, system, panel, **{part: _changes({panel.axis: value, **other}, where)}), value)
        for system in panel.systems
        for value, other in zip(panel.values, more, strict=True)
    ]
    return Panel(panel.kind, panel.title, panel.axis, lines, panel.quantity)


def _entries(study: Study, found: Sequence[Any], schema: type, place: str, inside: str, key: str) -> list[Any]:
    """The entries of a panel's list, each of a system that there is."""
    entries = [typed(one, schema, place, f"{inside}, entry {number} of {key}") for number, one in enumerate(found, 1)]
    _check_systems(study, [one.system for one in entries], f"{place}, {inside}")
    return entries


def _check_systems(study: Study, systems: Sequence[str], where: str) -> None:
    for system in systems:
        if system not in study.recipes:
            raise UserError(f"{where}: unknown system '{system}'; known are {', '.join(study.recipes)}")


def _runs(
    study: Study, system: str, chosen: RunSettings, training: Sequence[str] = (), decoding: Sequence[str] = ()
) -> list[StudyRun]:
    """A run for each seed."""
    data = Data(
        chosen.length or study.length,
        _number(chosen.instances),
        chosen.min_document_tokens,
        chosen.share,
    )
    model = chosen.model
    if model == study_arch(study, system):
        model = None  # the recipe's own: the same run as without it
    run = StudyRun(study.recipes[system], tuple(study.changes), data, 0, model, tuple(training), tuple(decoding))
    if decoding and run.settings().sections == run.needed.settings().sections:
        run = run.needed  # what the recipe does anyway
    if training and run.settings().sections == replace(run, training=()).settings().sections:
        run = replace(run, training=())
    return [replace(run, seed=seed, start_seed=study.start_seed) for seed in study.seeds]


def _number(instances: int | str | None) -> int | None:
    """How many training instances; None: all."""
    return None if instances == ALL else instances


def _started_on(run: StudyRun, instances: int | None, where: str) -> StudyRun:
    """The run behind a start on so many instances. UserError if it starts from nothing."""
    if start_of(run.recipe) is None:
        raise UserError(f"{where}: recipe '{run.recipe}' starts from no other's model; leave start-instances out")
    data = replace(run.data, instances=instances, share=None)
    return replace(run, start_data=None if data == run.data else data)


def study_arch(study: Study, system: str) -> str:
    """The architecture of a system's recipe."""
    return load_recipe(study.recipes[system], study.changes).sections["train"].get("arch", "")


def _section(file: StudyFile, size: str, path: Path) -> Entries:
    section = getattr(file, size)
    if section is None:
        raise UserError(f"{path}: has no section '{size}'")
    return section


def _changes(options: Mapping[str, Any] | None, where: str) -> list[str]:
    """Options as changes of a recipe. UserError for one that a study sets itself."""
    check_changes(options or {}, f"{where}: ")
    return [f"{key}={_text(value)}" for key, value in (options or {}).items()]


def _text(value: Any) -> str:
    """A YAML value as it is written after ``OPTION=``; nothing for null, which takes the option away."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
