"""YAML files of users, and values after ``--set``: read by PyYAML, with types checked by OmegaConf.

A schema is a dataclass: a field's name, with dashes, is a key; without a default it is required.
Numbers are PyYAML's: 5e-4 is a string, so that options are passed on as written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gtransformer.errors import UserError
from gtransformer.files import read_lines

Schema = TypeVar("Schema")

# fairseq's options of half precision, all for GPUs, as a recipe writes them.
HALF_PRECISION = ("fp16", "bf16", "amp", "memory-efficient-fp16", "memory-efficient-bf16")


def dashed(name: str) -> str:
    """Return a key with dashes: ``warmup_updates`` is ``warmup-updates``."""
    return name.replace("_", "-")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file with a mapping. Raise UserError if it is missing, no YAML, or holds
    something else.
    """
    text = "\n".join(read_lines(path))
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: give lines of the form 'key: value'")
    return content


def read_value(text: str) -> Any:
    """Read a value of the command line like one of a file; return ``text`` itself if it is not
    YAML.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def typed(entries: dict[str, Any], schema: type[Schema], where: str) -> Schema:
    """Return settings in the form of a schema. Raise UserError, which begins with ``where``, if
    they do not fit it.
    """
    # Keys are written as options of the command line are.
    values = {key.replace("-", "_"): value for key, value in entries.items()}
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), values))
    except OmegaConfBaseException as error:
        raise UserError(f"{where}: {str(error).splitlines()[0]}") from None
