"""The files of ``configs/studies/``: their keys, and the runs of a figure or table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.installation import config_directory
from gtransformer.lab.studies.study import (
    ACCURACY,
    ATTENTION,
    CURVES,
    SCORES,
    TABLE,
    Data,
    Line,
    Panel,
    Study,
    StudyRun,
)
from gtransformer.run.dependencies import start_of
from gtransformer.run.recipe import load_recipe
from gtransformer.settings import Entries, check_value, count, dashed, read_settings, setting, typed

COMMON = "common"  # the file with settings of all studies
ALL_INSTANCES = "all"  # number of instances: all
AXES = ("length", "instances", "model")
SECTIONS = ("task", "train", "generate")  # sections whose options (SECTION.OPTION) may be an axis
QUANTITIES = ("d_bleu", "s_bleu", "accuracy")
SIDES = ("encoder", "decoder")
# Required keys of a panel by kind, and optional keys in addition to its title and its runs' settings.
REQUIRED_KEYS = {
    SCORES: ("systems", "axis", "values"),
    CURVES: ("quantity", "lines"),
    TABLE: ("columns", "rows"),
    ACCURACY: ("columns", "rows", "by"),
    ATTENTION: ("system", "side"),
}
OPTIONAL_KEYS = {SCORES: ("quantity", "training", "baseline"), TABLE: ("baseline",), ACCURACY: ("baseline",)}
# Options that a study sets itself, with the reason.
OWN_OPTIONS = {
    "train.seed": "a study trains with several seeds; list them in its file (seeds: [1, 2])",
    "train.log-format": "a study reads its curves from the log that it has chosen",
}


@dataclass
class StudyFile:
    """A figure or table, or the common settings: in full, and as a miniature, both ``StudySettings``."""

    description: str | None = None
    full: dict[str, Any] | None = None
    miniature: dict[str, Any] | None = None


@dataclass
class StudySettings:
    """Settings of all runs of a study, merged from ``common.yaml`` and the study's own file."""

    seeds: list[int] = setting(
        "a list of different whole numbers, such as [1, 2]", lambda seeds: len(set(seeds)) == len(seeds)
    )
    systems: dict[str, Any] = setting("a name and a recipe for each", bool)
    length: int = count()  # tokens of an instance, at most
    start_seed: int | None = count(None)  # of all start models; None: each training's own seed
    entropy: bool = True  # whether figures measure attention entropy during training
    corpus: dict[str, int] | None = setting(
        "whole numbers of at least 1, such as {documents: 500}", lambda sizes: min(sizes.values()) > 0, None
    )
    changes: dict[str, Any] | None = setting("lines of the form 'SECTION.OPTION: value'", default=None)


@dataclass
class SystemSettings:
    """A system, by its key."""

    name: str
    recipe: str


def _instances() -> Any:
    """Return a field for a number of training instances."""
    return setting(
        f"a whole number of at least 1, or {ALL_INSTANCES}",
        lambda number: number == ALL_INSTANCES or (isinstance(number, int) and number > 0),
        None,
    )


def _changes_of(*sections: str) -> Any:
    """Return a field for changes in sections of a recipe."""
    forms = " or ".join(f"'{section}.OPTION: value'" for section in sections)
    return setting(
        f"lines of the form {forms}", lambda given: all(key.partition(".")[0] in sections for key in given), None
    )


@dataclass(kw_only=True)
class RunSettings:
    """Settings of a panel or line for its runs; see ``Data`` and ``StudyRun``."""

    length: int | None = count(None)
    instances: int | str | None = _instances()
    model: str | None = None
    min_document_tokens: int | None = count(None)


@dataclass(kw_only=True)
class LineSettings(RunSettings):
    """A line of a diagram, or a row of a table.

    Attributes:
        curve, flat: for a diagram: the drawn quantity, and whether that of uniform attention is also drawn.
        start_instances: number of training instances for the start model, if it differs.
        training, decoding: changes in training, and in translation with the trained model.
        translate: false for a model that cannot translate; it is only scored on contrastive items.
    """

    system: str
    label: str | None = None
    curve: str | None = None
    flat: bool | None = None
    start_instances: int | str | None = _instances()
    training: dict[str, Any] | None = _changes_of("train", "task")
    decoding: dict[str, Any] | None = _changes_of("generate")
    translate: bool = True


@dataclass(kw_only=True)
class PanelSettings(RunSettings):
    """A diagram or a table; ``REQUIRED_KEYS`` and ``OPTIONAL_KEYS`` have the keys of each kind.

    Attributes:
        systems, axis, values: scores: a point for each system and value of the axis, which may be an option.
        training: scores over an option of training: further changes of each value.
        quantity: which score; for curves their quantity.
        lines, rows: entries of ``LineSettings``.
        columns: meaning of the rows' labels.
        by: grouping of contrastive accuracy.
        baseline: what the others are compared with: the label of a row or, of scores, the key of a system.
        system, side: for attention across a batch, of the system's first seed.
    """

    title: str
    kind: str = setting(f"one of {', '.join(REQUIRED_KEYS)}", REQUIRED_KEYS.__contains__)
    quantity: str | None = None
    systems: list[str] | None = setting("a list of their keys", default=None)
    axis: str | None = setting(
        f"one of {', '.join(AXES)}, or an option SECTION.OPTION of {', '.join(SECTIONS)}",
        lambda axis: axis in AXES or axis.partition(".")[0] in SECTIONS,
        None,
    )
    values: list[Any] | None = setting("a list of what the axis shows", lambda values: None not in values, None)
    training: list[Any] | None = setting(
        "a list, of each value what else its trainings change",
        lambda changes: all(isinstance(one, dict) for one in changes),
        None,
    )
    lines: list[Any] | None = setting("a list with an entry for each line", default=None)
    columns: str | None = None
    rows: list[Any] | None = setting("a list with an entry for each row", default=None)
    by: str | None = None
    baseline: str | None = None
    system: str | None = None
    side: str | None = setting(f"one of {', '.join(SIDES)}", SIDES.__contains__, None)


RUN = [one.name for one in fields(RunSettings)]


def study_names() -> list[str]:
    """Return the names of all figures and tables."""
    return sorted(path.stem for path in (config_directory() / "studies").glob("*.yaml") if path.stem != COMMON)


def listing() -> str:
    """Return one line for each study: its name and its description."""
    names, folder = study_names(), config_directory() / "studies"
    found = {name: read_settings(folder / f"{name}.yaml", StudyFile).description or "" for name in names}
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
    size, common = "miniature" if miniature else "full", path.with_name(f"{COMMON}.yaml")
    own = read_settings(path, StudyFile)
    section = _section(own, size, path)
    panels = section.pop("panels", None)
    if not isinstance(panels, list) or not panels:
        raise UserError(f"{section.at('panels')}, {size}: panels is {panels!r}; give a list of panels")
    entries = _section(read_settings(common, StudyFile), size, common) | section
    shared = typed(entries, StudySettings, entries.location, size)
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
        entropy=shared.entropy,
        start_seed=shared.start_seed,
    )
    study.panels = [_panel(study, entry, section.location, f"{size}, panel {i}") for i, entry in enumerate(panels, 1)]
    return study


def _section(file: StudyFile, size: str, path: Path) -> Entries:
    section = getattr(file, size)
    if section is None:
        raise UserError(f"{path}: has no section '{size}'")
    return section


def _panel(study: Study, entry: Any, location: str, inside: str) -> Panel:
    panel = typed(entry, PanelSettings, location, inside)
    needed, where = REQUIRED_KEYS[panel.kind], f"{entry.location}, {inside}"
    if missing := [key for key in needed if getattr(panel, key) is None]:
        raise UserError(f"{where}: lacks {', '.join(missing)}")
    known = {"title", "kind", *needed, *OPTIONAL_KEYS.get(panel.kind, ()), *RUN}
    for key in entry:
        if key.replace("-", "_") not in known:
            raise UserError(f"{entry.at(key)}, {inside}: unknown key '{key}' in a panel of kind {panel.kind}")
    if panel.kind == SCORES:
        quantity = panel.quantity or QUANTITIES[0]
        if quantity not in QUANTITIES:
            raise UserError(f"{where}: quantity is '{quantity}'; give one of {', '.join(QUANTITIES)}")
        if panel.baseline not in (None, *panel.systems):
            raise UserError(f"{entry.at('baseline')}, {inside}: baseline is '{panel.baseline}'; name a system")
        points = _points(study, panel, entry, inside)
        return Panel(panel.kind, panel.title, panel.axis, points, quantity, baseline=panel.baseline)
    if panel.kind == ATTENTION:
        settings = LineSettings(system=panel.system, curve=panel.side, **{key: getattr(panel, key) for key in RUN})
        line = _line(study, settings, where)
        return Panel(panel.kind, panel.title, panel.side, [replace(line, runs=line.runs[:1])])
    key, wanted = ("lines", "curve") if panel.kind == CURVES else ("rows", "label")
    lines = []
    for number, one in enumerate(getattr(panel, key), 1):
        within = f"{inside}, entry {number} of {key}"
        settings = typed(one, LineSettings, entry.at(key), within)
        if getattr(settings, wanted) is None:
            raise UserError(f"{one.location}, {within}: lacks {wanted}")
        lines.append(_line(study, settings, f"{entry.at(key)}, {within}"))
    if panel.baseline not in (None, *(line.label for line in lines)):
        raise UserError(f"{entry.at('baseline')}, {inside}: baseline is '{panel.baseline}'; give the label of a row")
    title = panel.quantity if panel.kind == CURVES else panel.columns
    return Panel(panel.kind, panel.title, title, lines, by=panel.by, baseline=panel.baseline)


def _points(study: Study, panel: PanelSettings, entry: Entries, inside: str) -> list[Line]:
    """Return a point for each system and value of the axis: of the data, or of an option of training or translation."""
    where, is_option = f"{entry.at('values')}, {inside}, values", panel.axis not in AXES
    part = "decoding" if panel.axis.startswith("generate.") else "training"
    more = panel.training or [{}] * len(panel.values)
    if len(more) != len(panel.values) or (panel.training and (part == "decoding" or not is_option)):
        raise UserError(f"{where}: training has {len(more)} entries; give one for each of {len(panel.values)} values")
    lines, own = [], {key: getattr(panel, key) for key in RUN}
    for system in panel.systems:
        for value, other in zip(panel.values, more, strict=True):
            if not is_option:
                check_value(RunSettings, panel.axis, value, where)
            chosen = {part: {panel.axis: value, **other}} if is_option else {panel.axis: value}
            lines.append(replace(_line(study, LineSettings(system=system, **(own | chosen)), where), x=value))
    return lines


def _line(study: Study, line: LineSettings, where: str) -> Line:
    """Return the runs of a line, one for each seed."""
    if line.system not in study.recipes:
        raise UserError(f"{where}: unknown system '{line.system}'; choose from {', '.join(study.recipes)}")
    recipe = study.recipes[line.system]
    training, decoding = (tuple(_changes(part, where)) for part in (line.training, line.decoding))
    data = Data(line.length or study.length, _number(line.instances), line.min_document_tokens)
    own = load_recipe(recipe, study.changes).sections["train"].get("arch")
    model = None if line.model == own else line.model  # the recipe's own model: the same run as without this key
    run = StudyRun(recipe, tuple(study.changes), data, 0, model, training, decoding)
    if decoding and run.settings().sections == run.needed.settings().sections:
        run = run.needed  # the recipe's default
    if training and run.settings().sections == replace(run, training=()).settings().sections:
        run = replace(run, training=())
    if line.start_instances is not None:
        if start_of(recipe) is None:
            raise UserError(
                f"{where}: recipe '{recipe}' does not start from another's model; leave start-instances out"
            )
        start = replace(data, instances=_number(line.start_instances))
        run = replace(run, start_data=None if start == data else start)
    if not line.translate and line.decoding:
        raise UserError(f"{where}: translate is false, but decoding is given; leave one of them out")
    run = replace(run, translate=line.translate, start_seed=study.start_seed)
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


def _changes(options: Mapping[str, Any] | None, where: str) -> list[str]:
    """Return options as changes of a recipe; null removes one. Raises UserError for one that a study sets itself."""
    check_changes(options or {}, f"{where}: ")
    texts = {
        key: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options or {}).items()
    }
    return [f"{key}={text}" for key, text in texts.items()]
