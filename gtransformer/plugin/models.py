"""The systems in fairseq: their options on its command line, named sizes, and models that it can
train.

``--arch SYSTEM_{mini,compact,tiny,small,base,big,large}``, in fairseq-hydra-train ``model._name``.
Each size is a separate fairseq model with its sizes as defaults of its configuration.
fairseq-hydra-train has no architectures: it would fill a configuration of ``gtransformer`` with
base sizes. A size means the same for every system, so that systems of one size can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from enum import Enum
from typing import Any, Union, get_type_hints

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from omegaconf import II

from gtransformer.errors import UserError
from gtransformer.models import SYSTEMS
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel, on_registration

# Options that fairseq's user gives to the task.
OF_TASK = (
    "doc_mode",
    "max_source_positions",
    "max_target_positions",
)


def both_sides(embed_dim: int, ffn_embed_dim: int, layers: int, heads: int) -> dict[str, int]:
    """Return the same sizes for encoder and decoder, by option."""
    sizes = {
        "embed_dim": embed_dim,
        "ffn_embed_dim": ffn_embed_dim,
        "layers": layers,
        "attention_heads": heads,
    }
    return {
        f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()
    }


# tiny to large have the release's dimensions, layers and dropout; base, big and large are "Base
# Model", "Big Model" and "Large Model" of Bao et al. (2021), section 2. mini and compact are our
# choice, for CPUs.
SIZES: dict[str, dict[str, int | float]] = {
    "mini": both_sides(128, 512, 3, 4),
    "compact": both_sides(256, 1024, 4, 4),
    "tiny": both_sides(256, 1024, 6, 4),
    "small": both_sides(512, 1024, 6, 4),
    "base": both_sides(512, 2048, 6, 8) | {"dropout": 0.3},
    "big": both_sides(1024, 4096, 6, 16) | {"dropout": 0.3},
    "large": both_sides(1024, 4096, 12, 16) | {"dropout": 0.3},
}


class InFairseq:
    """A mixin for a system's class, with what fairseq calls."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> DocumentModel:
        """Build a model from fairseq's options and a task with dictionaries. Raise UserError on a
        bad combination.
        """
        # fairseq's own tasks would feed single sentences without boundary tokens.
        if isinstance(task, FairseqTask) and not hasattr(task, "sides"):
            raise UserError("the model is for documents; give --task translation_doc")
        options = {}
        for option in fields(cls.config_class):
            value = getattr(cfg, option.name)
            # fairseq makes an Enum of an option with choices.
            options[option.name] = str(value) if isinstance(value, Enum) else value
        options = cls.config_class(**options)
        return cls.build(options, task.source_dictionary, task.target_dictionary)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Pack weights for decoding once (called by fairseq-generate and fairseq-interactive)."""
        self.decoder.hold_weights()


def fairseq_options(
    kind: type[DocumentModelConfig], sizes: Mapping[str, int | float]
) -> type[FairseqDataclass]:
    """Return a model's options as fairseq reads them from the command line; ``sizes`` are other
    defaults.
    """
    types, options = get_type_hints(kind), []
    for option in fields(kind):
        of_type, choices = types[option.name], option.metadata.get("choices")
        if choices:
            of_type = ChoiceEnum(choices)
        elif isinstance(of_type, type(int | None)):  # fairseq knows Optional alone
            of_type = Union[of_type.__args__]  # noqa: UP007
        default = sizes.get(option.name, option.default)
        if option.name in OF_TASK:
            default = II(f"task.{option.name}")
        metadata = {"help": option.metadata.get("help")}
        options.append((option.name, of_type, field(default=default, metadata=metadata)))
    return make_dataclass(kind.__name__, options, bases=(FairseqDataclass,))


def add_to_fairseq(model: type[DocumentModel]) -> None:
    """Register a system with fairseq, alone and in its named sizes."""
    names = {model.system: {}}
    if model.has_sizes:
        names |= {f"{model.system}_{size}": sizes for size, sizes in SIZES.items()}
    bases = InFairseq, model, FairseqEncoderDecoderModel
    content = {"__module__": model.__module__, "__doc__": model.__doc__}
    for name, sizes in names.items():
        options = fairseq_options(model.config_class, sizes)
        register_model(name, dataclass=options)(type(model.__name__, bases, content))


for system in SYSTEMS.values():
    add_to_fairseq(system)
on_registration.append(add_to_fairseq)
