"""Named sizes: ``--arch SYSTEM_{tiny,small,base,big,large}``, in fairseq-hydra-train ``model._name``.

Each size is a model of its own for fairseq, with its sizes as defaults of its configuration, because
fairseq-hydra-train knows no architectures: it would fill a configuration of ``gtransformer`` with base sizes.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import field, make_dataclass

from fairseq.models import register_model
from omegaconf import OmegaConf, open_dict

from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.model import DocumentModel


def both_sides(embed_dim: int, ffn_embed_dim: int, layers: int, heads: int) -> dict[str, int]:
    """The same sizes for encoder and decoder, by option."""
    sizes = {"embed_dim": embed_dim, "ffn_embed_dim": ffn_embed_dim, "layers": layers, "attention_heads": heads}
    return {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}


# base, big and large: Bao et al. (2021), section 2, "Base Model", "Big Model" and "Large Model".
SIZES = {
    "tiny": both_sides(128, 512, 3, 4),
    "small": both_sides(256, 1024, 4, 4),
    "base": both_sides(512, 2048, 6, 8),
    "big": both_sides(1024, 4096, 6, 16),
    "large": both_sides(1024, 4096, 12, 16),
}


def register(
    name: str, model: type[DocumentModel], config: type[DocumentModelConfig], sizes: dict[str, int], **structure
) -> None:
    """Register a size of a model as ``name``; ``structure`` is what a model of that name always is, whatever is asked.

    That is no default of options, because on the command line a flag that is on by default is one that turns it off.
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
    texts = {key: item.metadata for key, item in config.__dataclass_fields__.items()}
    resized = [(key, int, field(default=value, metadata=texts[key])) for key, value in sizes.items()]
    register_model(name, dataclass=make_dataclass(f"{title}Config", resized, bases=(config,)))(Named)


def register_sizes(system: str, model: type[DocumentModel], config: type[DocumentModelConfig]) -> None:
    """Register ``SYSTEM_tiny`` to ``SYSTEM_large``."""
    for size, sizes in SIZES.items():
        register(f"{system}_{size}", model, config, sizes)
