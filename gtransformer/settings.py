"""The reader of settings: YAML files that people write, and values after ``--set``; types by OmegaConf.

A schema is a dataclass: a field's name, with dashes, is a key; its type is what the value must be; without a default it
must be there. Nothing is converted (``"3"`` is no number) and nothing filled in (``${...}``). Numbers are PyYAML's, for
which 5e-4 is a text, not OmegaConf's: options are handed on as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import MISSING, field, fields
from functools import cache, lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtransformer.errors import UserError
from gtransformer.files import read_lines

LINES = "lines of the form 'key: value'"
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: LINES}
Schema = TypeVar("Schema")


class Entries(dict[str, Any]):
    """What a mapping of a file holds.

    Attributes:
        place: where it begins, ``FILE, line N``; of two that were combined, both.
        places: where its keys stand.
    """

    def __init__(self, values: dict[str, Any] | None = None, place: str = "", places: dict[str, str] | None = None):
        super().__init__(values or {})
        self.place, self.places = place, places or {}

    def __or__(self, other: Entries) -> Entries:
        """Both together; ``other`` goes before."""
        place = " and ".join(filter(None, (other.place, self.place)))
        return Entries({**self, **other}, place, self.places | other.places)

    def at(self, key: str) -> str:
        """Where a key stands."""
        return self.places.get(key, self.place)

    def dashed(self) -> Entries:
        """With ``-`` for ``_`` in its keys. UserError for two that become one."""
        kept = {dashed(key): key for key in self}
        for key in self.keys() - kept.values():
            raise UserError(f"{self.at(key)}: '{key}' stands twice, once with - and once with _; keep one")
        return Entries(
            {new: self[old] for new, old in kept.items()}, self.place, {new: self.at(old) for new, old in kept.items()}
        )


def setting(give: str, fits: Callable[[Any], bool] = lambda value: True, default: Any = MISSING) -> Any:
    """A field of a schema whose values are described, or have to be more than of its type.

    Args:
        give: what the value may be, in words.
        fits: whether a value of the right type, other than None, may be.
    """
    return field(default=default, metadata={"give": give, "fits": fits})


def count(default: Any = MISSING) -> Any:
    """A field for a whole number of at least 1."""
    return setting("a whole number of at least 1", lambda value: value >= 1, default)


def dashed(name: str) -> str:
    """A key as it is called here: ``warmup_updates`` is ``warmup-updates``."""
    return name.replace("_", "-")


def read_settings(path: Path, schema: type[Schema]) -> Schema:
    """A file's settings. UserError, in a sentence that names file, line and key, for all that cannot be."""
    return typed(read_entries(path), schema, str(path))


def read_entries(path: Path) -> Entries:
    """What a YAML file holds. UserError if it is missing or not UTF-8, for bad YAML and for a key that stands twice."""
    return entries_of(read_text(path), path)


def read_text(path: Path) -> str:
    """A file's text. UserError if it is missing or not UTF-8."""
    return "".join(f"{line}\n" for line in read_lines(path))


def entries_of(text: str, path: Path) -> Entries:
    """What the YAML of a file holds; see ``read_entries``."""
    content = _load(text, str(path))
    if not isinstance(content, Entries):
        raise UserError(f"{path}: {'is empty' if content is None else f'holds {_short(content)}'}; give {LINES}")
    return content


def read_value(text: str, place: str) -> Any:
    """A value of the command line, read as those of files; ``text`` itself where it is not YAML."""
    try:
        return _load(text, place)
    except NotYaml:
        return text


def typed(entries: Any, schema: type[Schema], place: str, inside: str = "") -> Schema:
    """Settings in the form of a schema; null may stand where its type has None.

    Args:
        entries: what was read; anything but ``Entries`` is refused.
        place: where that stands.
        inside: of what it is part, for messages.

    Raises UserError for a key that is unknown or lacking and for a value that does not fit.
    """
    inside = f", {inside}" if inside else ""
    if not isinstance(entries, Entries):
        raise UserError(f"{place}{inside}: is {_short(entries)}; give {LINES}")
    entries, needed = entries.dashed(), {dashed(one.name): one.default is MISSING for one in fields(schema)}
    for key, value in entries.items():
        if key not in needed:
            raise UserError(f"{entries.at(key)}{inside}: unknown key '{key}'; known are {', '.join(needed)}")
        if value is not None or not needed[key]:
            check_value(schema, key, value, entries.at(key) + inside)
    missing = [key for key in needed if needed[key] and entries.get(key) is None]
    if missing:
        raise UserError(f"{entries.place}{inside}: lacks {', '.join(missing)}")
    return schema(**{key.replace("-", "_"): value for key, value in entries.items()})


def check_value(schema: type, key: str, value: Any, where: str) -> None:
    """UserError unless a value may stand at a key of the schema. Empty texts and lists may nowhere."""
    name, types = key.replace("-", "_"), _types(schema)
    (extra,) = (one.metadata for one in fields(schema) if one.name == name)
    try:
        types[name] = value
        taken = types[name]
        taken = OmegaConf.to_container(taken) if OmegaConf.is_config(taken) else taken
        right = repr(taken) == repr(value)  # nothing was converted
    except OmegaConfBaseException:
        right = False
    if not right or value in ("", []) or (extra and value is not None and not extra["fits"](value)):
        raise UserError(f"{where}: {key} is {_short(value)}; give {extra.get('give') or _words(schema, name)}")


@cache
def _types(schema: type) -> DictConfig:
    """The schema as OmegaConf's. Values are tried in it and stay until the next; none is taken from it."""
    return OmegaConf.structured(schema, flags={"allow_objects": True})  # Entries in others are objects to it


def _words(schema: type, name: str) -> str:
    """What a field's type is in words."""
    hint = get_type_hints(schema)[name]
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return " or ".join(WORDS[get_origin(kind) or kind] for kind in kinds if kind is not NoneType)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]} ..."


class NotYaml(UserError):
    """No YAML at all, while other errors are about what it says."""


class _Refused(yaml.MarkedYAMLError):
    """YAML that says what is not taken here."""


class _Loader(yaml.SafeLoader):
    """PyYAML's, but mappings are Entries, keys are texts (``no: 1`` has the key "no"), and nothing is a date."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def entries(self, node: yaml.MappingNode) -> Entries:
        places: dict[str, str] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                key.tag = self.DEFAULT_SCALAR_TAG
                if key.value in places:
                    raise _Refused(problem=f"'{key.value}' stands twice; keep one", problem_mark=key.start_mark)
                places[key.value] = _place(key.start_mark)
        values, begin = self.construct_mapping(node, deep=True), _place(node.start_mark)
        return Entries(values, begin, {key: places.get(key, begin) for key in values})

    def text(self, node: yaml.ScalarNode) -> str:
        value = self.construct_scalar(node)
        if "${" in value or value == "???":  # OmegaConf's signs
            problem = f"'{value}' stands for something else, but nothing is filled in here; write it out"
            raise _Refused(problem=problem, problem_mark=node.start_mark)
        return value


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.entries)
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.text)


def _place(mark: yaml.Mark) -> str:
    return f"{mark.name}, line {mark.line + 1}"


def _load(text: str, name: str) -> Any:
    """The YAML in a text. Raises NotYaml, or another UserError for what it says."""
    return deepcopy(_parsed(text, name))


@lru_cache(maxsize=64)  # the same --set changes several recipes, the same study is read again and again
def _parsed(text: str, name: str) -> Any:
    try:
        loader = _Loader(text)
        loader.name = name
        node = loader.get_single_node()
        return None if node is None else loader.construct_object(node, deep=True)
    except _Refused as error:
        raise UserError(f"{_place(error.problem_mark)}: {error.problem}") from None
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark) if error.problem_mark else name
        raise NotYaml(f"{place}: not valid YAML ({error.problem})") from None
    except RecursionError:
        raise NotYaml(f"{name}: not valid YAML (brackets without end)") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"{name}: not valid YAML ({' '.join(str(error).split())})") from None
