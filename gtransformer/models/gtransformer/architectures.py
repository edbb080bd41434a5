"""Named sizes: ``--arch gtransformer_{tiny,small,base,big,large}``, and ``model=...`` for fairseq-hydra-train."""

from dataclasses import fields

from fairseq.models import register_model_architecture
from hydra.core.config_store import ConfigStore

from gtransformer.models.gtransformer import model  # noqa: F401  (registers what the architectures are sizes of)
from gtransformer.models.gtransformer.config import GTransformerConfig


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
}


def _register(name: str, sizes: dict[str, int]) -> None:
    @register_model_architecture("gtransformer", name)
    def set_defaults(args) -> None:
        """Fill in what the command line left open (fairseq passes an argparse namespace or an OmegaConf node)."""
        for key, value in sizes.items():
            if getattr(args, key, None) is None:
                setattr(args, key, value)

    node = GTransformerConfig(**sizes)
    node._name = name
    ConfigStore.instance().store(name=name, group="model", node=node, provider="gtransformer")


def known_fields() -> set[str]:
    """Names of the model's options."""
    return {item.name for item in fields(GTransformerConfig)}


for _name, _sizes in ARCHITECTURES.items():
    _register(_name, _sizes)
