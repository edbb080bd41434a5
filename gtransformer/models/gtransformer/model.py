"""The G-Transformer as a fairseq model."""

from __future__ import annotations

from fairseq.models import register_model
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import DocumentModel, check_sharing, make_embeddings
from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.layers import decoder_blocks, encoder_blocks
from gtransformer.models.gtransformer.pretrained import from_transformer, is_new

DOC_MODES = ("partial", "full")


@register_model("gtransformer", dataclass=GTransformerConfig)
class GTransformerModel(DocumentModel):
    """Encoder-decoder over whole documents; ``--doc-mode full`` makes it a plain Transformer over the document."""

    @classmethod
    def build_model(cls, cfg: GTransformerConfig, task) -> GTransformerModel:
        """Build from a configuration and a task with source and target dictionaries; UserError on a bad combination."""
        _check(cfg, task.source_dictionary, task.target_dictionary)
        source, target = make_embeddings(cfg, task.source_dictionary, task.target_dictionary)
        encoder_cfg = cls.encoder_config(cfg)
        encoder = DocumentEncoder(encoder_cfg, task.source_dictionary, source, encoder_blocks(encoder_cfg))
        return cls(cfg, encoder, DocumentDecoder(cfg, task.target_dictionary, target, decoder_blocks(cfg)))

    @classmethod
    def encoder_config(cls, cfg: GTransformerConfig) -> GTransformerConfig:
        """The configuration that the encoder is built with."""
        return cfg

    def is_pretrained(self, name: str) -> bool:
        """Whether fine-tuning takes this parameter from a pretrained model (for ``--doc-double-lr``)."""
        return not is_new(name)

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg=None, args=None):
        """As fairseq's; with ``--load-partial``, parameters of a Transformer, too (see ``pretrained``)."""
        if self.cfg.load_partial or self.cfg.load_partial_global_from_local:
            state_dict = from_transformer(state_dict, self, self.cfg.load_partial_global_from_local)
        return super().load_state_dict(state_dict, strict, model_cfg, args)


def _check(cfg: GTransformerConfig, source, target) -> None:
    if cfg.doc_mode not in DOC_MODES:
        raise UserError(f"--doc-mode {cfg.doc_mode} is unknown; choose one of {', '.join(DOC_MODES)}")
    check_sharing(cfg, source, target)
    depth = {"encoder": cfg.encoder_layers, "decoder": cfg.decoder_layers, "cross": cfg.decoder_layers}
    for name, layers in depth.items():
        context = getattr(cfg, f"{name}_ctxlayers")
        if cfg.doc_mode == "partial" and not 0 <= context <= layers:
            raise UserError(f"--{name}-ctxlayers {context} is not between 0 and the {layers} layers there are")
