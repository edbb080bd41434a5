"""Named sizes: ``--arch SYSTEM_{mini,compact,tiny,small,base,big,large}``, in fairseq-hydra-train ``model._name``.

Each size is a separate fairseq model with its sizes as defaults of its configuration. fairseq-hydra-train has no
architectures: it would fill a configuration of ``gtransformer`` with base sizes.

A size means the same for every system, so that systems of one size can be compared.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import field, make_dataclass

from fairseq.models import register_model
from omegaconf import OmegaConf, open_dict

from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel


def both_sides(embed_dim: int, ffn_embed_dim: int, layers: int, heads: int) -> dict[str, int]:
    """Return the same sizes for encoder and decoder, by option."""
    sizes = {"embed_dim": embed_dim, "ffn_embed_dim": ffn_embed_dim, "layers": layers, "attention_heads": heads}
    return {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}


# tiny to large have the release's dimensions, layers and dropout; base, big and large are "Base Model", "Big Model" and
# "Large Model" of Bao et al. (2021), section 2. mini and compact are our choice, for CPUs.
SIZES: dict[str, dict[str, int | float]] = {
    "mini": both_sides(128, 512, 3, 4),
    "compact": both_sides(256, 1024, 4, 4),
    "tiny": both_sides(256, 1024, 6, 4),
    "small": both_sides(512, 1024, 6, 4),
    "base": both_sides(512, 2048, 6, 8) | {"dropout": 0.3},
    "big": both_sides(1024, 4096, 6, 16) | {"dropout": 0.3},
    "large": both_sides(1024, 4096, 12, 16) | {"dropout": 0.3},
}



def register(
    name: str, model: type[DocumentModel], config: type[DocumentModelConfig], sizes: dict[str, int | float], **structure
) -> None:
    """Register a size of a model as ``name``; ``sizes`` are defaults of its options.

    ``structure`` are fixed options of every model of that name. They cannot be option defaults: on the command line, a
    flag that is on by default would be turned off by giving it.
    """

    class Named(model):
        @classmethod
        def build_model(cls, cfg: DocumentModelConfig, task) -> DocumentModel:
            """Build with the structure that goes with the name."""
            with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
                for key, value in structure.items():
                    setattr(cfg, key, value)
            return super().build_model(cfg, task)

    title = name.title().replace("_", "")
    Named.__name__ = Named.__qualname__ = title
    known = config.__dataclass_fields__
    defaults = {key: field(default=value, metadata=known[key].metadata) for key, value in sizes.items()}
    resized = [(key, known[key].type, default) for key, default in defaults.items()]
    register_model(name, dataclass=make_dataclass(f"{title}Config", resized, bases=(config,)))(Named)


def register_sizes(system: str, model: type[DocumentModel], config: type[DocumentModelConfig]) -> None:
    """Register ``SYSTEM_mini`` to ``SYSTEM_large``."""
    for size, sizes in SIZES.items():
        register(f"{system}_{size}", model, config, sizes)
