"""Named sizes: ``--arch gtransformer_{tiny,small,base,big,large,mbart_large}``, in fairseq-hydra-train ``model._name``.

Each size is a model of its own for fairseq, with its sizes as defaults of its configuration, because
fairseq-hydra-train knows no architectures: it would fill a configuration of ``gtransformer`` with base sizes.
"""

from contextlib import nullcontext
from dataclasses import field, make_dataclass

from fairseq.models import register_model
from omegaconf import OmegaConf, open_dict

from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.model import GTransformerModel


def _both_sides(embed_dim: int, ffn_embed_dim: int, layers: int, heads: int) -> dict[str, int]:
    sizes = {"embed_dim": embed_dim, "ffn_embed_dim": ffn_embed_dim, "layers": layers, "attention_heads": heads}
    return {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}


# base, big and large: Bao et al. (2021), section 2, "Base Model", "Big Model" and "Large Model".
ARCHITECTURES = {
    "gtransformer_tiny": _both_sides(128, 512, 3, 4),
    "gtransformer_small": _both_sides(256, 1024, 4, 4),
    "gtransformer_base": _both_sides(512, 2048, 6, 8),
    "gtransformer_big": _both_sides(1024, 4096, 6, 16),
    "gtransformer_large": _both_sides(1024, 4096, 12, 16),
    "gtransformer_mbart_large": _both_sides(1024, 4096, 12, 16),
}

# What mBART25 is besides its sizes (Liu et al. 2020, section 2.2, and its checkpoint): it can be nothing else. They are
# not defaults of options, because on the command line a flag that is on by default is one that turns it off.
MBART = {
    "activation_fn": "gelu",
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "layernorm_embedding": True,
    "share_all_embeddings": True,
    "no_scale_embedding": False,
    "no_token_positional_embeddings": False,
}
STRUCTURES = {"gtransformer_mbart_large": MBART}


def _model_class(suffix: str, structure: dict) -> type[GTransformerModel]:
    class Named(GTransformerModel):
        @classmethod
        def build_model(cls, cfg: GTransformerConfig, task) -> GTransformerModel:
            """Build with the structure that goes with the name."""
            with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
                for key, value in structure.items():
                    setattr(cfg, key, value)
            return super().build_model(cfg, task)

    Named.__name__ = Named.__qualname__ = f"GTransformer{suffix}"
    return Named


def _register(name: str, sizes: dict[str, int], structure: dict) -> None:
    help_texts = {key: item.metadata for key, item in GTransformerConfig.__dataclass_fields__.items()}
    resized = [(key, int, field(default=value, metadata=help_texts[key])) for key, value in sizes.items()]
    suffix = name.removeprefix("gtransformer_").title().replace("_", "")
    config = make_dataclass(f"GTransformer{suffix}Config", resized, bases=(GTransformerConfig,))
    register_model(name, dataclass=config)(_model_class(suffix, structure))


for _name, _sizes in ARCHITECTURES.items():
    _register(_name, _sizes, STRUCTURES.get(_name, {}))
