"""YAML files of users, and values after ``--set``: read by PyYAML, with types checked by OmegaConf.

A schema is a dataclass: a field's name, with dashes, is a key; its type is the type of the value; without a default it
is required. Values are not converted (``"3"`` is no number) or interpolated (``${...}``). Numbers are PyYAML's, not
OmegaConf's: 5e-4 is a string, so that options are passed on as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtransformer.errors import UserError
from gtransformer.files import read_lines

LINES = "lines of the form 'key: value'"
Schema = TypeVar("Schema")


class Entries(dict[str, Any]):
    """The content of a mapping in a file.

    Attributes:
        location: of its beginning, ``FILE, line N``; both for a combination of two.
        locations: of its keys.
    """

    def __init__(
        self, values: dict[str, Any] | None = None, location: str = "", locations: dict[str, str] | None = None
    ):
        super().__init__(values or {})
        self.location, self.locations = location, locations or {}

    def __or__(self, other: Entries) -> Entries:
        """Combine both; ``other`` takes precedence."""
        location = " and ".join(filter(None, (other.location, self.location)))
        return Entries({**self, **other}, location, self.locations | other.locations)

    def at(self, key: str) -> str:
        """Return the location of a key."""
        return self.locations.get(key, self.location)

    def dashed(self) -> Entries:
        """Replace ``_`` by ``-`` in the keys. Raise UserError for two that become one."""
        found = Entries(location=self.location)
        for key, value in self.items():
            if dashed(key) in found:
                raise UserError(f"{self.at(key)}: '{key}' occurs twice, once with - and once with _; keep one")
            found[dashed(key)], found.locations[dashed(key)] = value, self.at(key)
        return found


def setting(give: str, fits: Callable[[Any], bool] = lambda value: True, default: Any = MISSING) -> Any:
    """Return a field of a schema with a description of its values (``give``) and a further condition.

    ``fits``: whether a value of the right type, other than None, is valid.
    """
    return field(default=default, metadata={"give": give, "fits": fits})


def count(default: Any = MISSING) -> Any:
    """Return a field for a whole number of at least 1."""
    return setting("a whole number of at least 1", lambda value: value >= 1, default)


def dashed(name: str) -> str:
    """Return a key with dashes: ``warmup_updates`` is ``warmup-updates``."""
    return name.replace("_", "-")


def read_settings(path: Path, schema: type[Schema]) -> Schema:
    """Read a file's settings. Raise UserError, naming file, line and key, for invalid ones."""
    return typed(read_entries(path), schema, str(path))


def read_entries(path: Path) -> Entries:
    """Read a YAML file. Raise UserError if it is missing or not UTF-8, for invalid YAML and for duplicate keys."""
    return entries_of("\n".join(read_lines(path)), path)


def entries_of(text: str, path: Path) -> Entries:
    """Return the content of a file's YAML; see ``read_entries``."""
    content = _load(text, str(path))
    if not isinstance(content, Entries):
        raise UserError(f"{path}: {'is empty' if content is None else f'holds {_short(content)}'}; give {LINES}")
    return content


def read_value(text: str, location: str) -> Any:
    """Read a value of the command line like one of a file; return ``text`` itself if it is not YAML."""
    try:
        return _load(text, location)
    except NotYaml:
        return text


def typed(entries: Any, schema: type[Schema], location: str, inside: str = "") -> Schema:
    """Return settings in the form of a schema; null is accepted if its type has None.

    Args:
        entries: what was read; anything but ``Entries`` is refused.
        location: of ``entries``.
        inside: name of the part of the file, for messages.

    Raises UserError for unknown or missing keys and for invalid values.
    """
    inside = f", {inside}" if inside else ""
    if not isinstance(entries, Entries):
        raise UserError(f"{location}{inside}: is {_short(entries)}; give {LINES}")
    entries, needed = entries.dashed(), {dashed(one.name): one.default is MISSING for one in fields(schema)}
    for key, value in entries.items():
        if key not in needed:
            raise UserError(f"{entries.at(key)}{inside}: unknown key '{key}'; known are {', '.join(needed)}")
        if value is not None or not needed[key]:
            check_value(schema, key, value, entries.at(key) + inside)
    missing = [key for key in needed if needed[key] and entries.get(key) is None]
    if missing:
        raise UserError(f"{entries.location}{inside}: lacks {', '.join(missing)}")
    return schema(**{key.replace("-", "_"): value for key, value in entries.items()})


def check_value(schema: type, key: str, value: Any, where: str) -> None:
    """Raise UserError unless a value is valid for a key of the schema. Empty strings and lists never are."""
    (one,) = (one for one in fields(schema) if dashed(one.name) == dashed(key))
    try:
        values = _omegaconf(schema)
        values[one.name] = value  # remains in the cached object; the next check of this key overwrites it
        taken = values[one.name]
        taken = OmegaConf.to_container(taken) if OmegaConf.is_config(taken) else taken
        right = repr(taken) == repr(value)  # nothing was converted
    except OmegaConfBaseException:
        right = False
    fits = one.metadata.get("fits")
    if not right or value in ("", []) or (fits and value is not None and not fits(value)):
        raise UserError(
            f"{where}: {key} is {_short(value)}; give {one.metadata.get('give', str(one.type).removesuffix(' | None'))}"
        )


@cache
def _omegaconf(schema: type) -> DictConfig:
    return OmegaConf.structured(schema, flags={"allow_objects": True})  # Entries in others are objects to it


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]} ..."


class NotYaml(UserError):
    """The text is not YAML; other errors are about its content."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's, but mappings are Entries, keys are texts (``no: 1`` has the key "no"), and nothing is a date."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def location(self, node: yaml.Node) -> str:
        return f"{self.name}, line {node.start_mark.line + 1}"

    def entries(self, node: yaml.MappingNode) -> Entries:
        locations: dict[str, str] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                key.tag = self.DEFAULT_SCALAR_TAG
                if key.value in locations:
                    raise UserError(f"{self.location(key)}: '{key.value}' occurs twice; keep one")
                locations[key.value] = self.location(key)
        return Entries(self.construct_mapping(node, deep=True), self.location(node), locations)

    def text(self, node: yaml.ScalarNode) -> str:
        value = self.construct_scalar(node)
        if "${" in value or value == "???":  # OmegaConf's interpolation and missing value
            raise UserError(f"{self.location(node)}: '{value}' is a placeholder; write the value")
        return value


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.entries)
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.text)


def _load(text: str, name: str) -> Any:
    """Return the YAML in a text. Raise NotYaml, or another UserError for its content."""
    loader = _Loader(text)
    loader.name = name
    try:
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise NotYaml(f"{name}{f', line {mark.line + 1}' if mark else ''}: not valid YAML ({problem})") from None
