"""A model in a folder: ``config.json``, its system and options, and ``model.safetensors``, its
parameters.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_model
from torch import Tensor

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.files import PARAMETERS, read_json, write_json
from gtransformer.models import SYSTEMS
from gtransformer.models.common.model import DocumentModel

CONFIG = "config.json"
SYSTEM = "model_type"  # key of the system's name


def save(model: DocumentModel, folder: Path) -> None:
    """Write a model; a table that is tied is written once."""
    write_json(folder / CONFIG, {SYSTEM: model.system, **asdict(model.cfg)})
    save_model(model, str(folder / PARAMETERS))
    # safetensors lets nobody else read it.
    (folder / PARAMETERS).chmod((folder / CONFIG).stat().st_mode)


def load(folder: Path, source: Vocabulary, target: Vocabulary, **changed: str) -> DocumentModel:
    """Return a model in evaluation mode, on the CPU; ``changed`` are other values of its options.

    Raises UserError for a system that is not registered.
    """
    options = read_json(folder / CONFIG) | changed
    name = options.pop(SYSTEM)
    if name not in SYSTEMS:
        raise UserError(
            f"{folder}: a model of the system {name}; give the folder of its code with --user-dir"
        )
    kind = SYSTEMS[name]
    model = kind.build(kind.config_class(**options), source, target)
    model.load_state_dict(read_parameters(folder))
    return model.eval()


def read_parameters(folder: Path) -> dict[str, Tensor]:
    """Return the parameters by all their names."""
    with safe_open(folder / PARAMETERS, "pt") as file:
        parameters = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        # safetensors writes a tied table once, and its further names into the metadata.
        for name, first in (file.metadata() or {}).items():
            if first in parameters:
                parameters[name] = parameters[first]
        return parameters
