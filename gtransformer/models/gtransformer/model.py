"""The G-Transformer as a fairseq model."""

from __future__ import annotations

import torch
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from gtransformer.errors import UserError
from gtransformer.models.gtransformer.config import GTransformerConfig
from gtransformer.models.gtransformer.decoder import GTransformerDecoder
from gtransformer.models.gtransformer.encoder import GTransformerEncoder
from gtransformer.models.gtransformer.pretrained import from_transformer, is_new

DOC_MODES = ("partial", "full")


@register_model("gtransformer", dataclass=GTransformerConfig)
class GTransformerModel(FairseqEncoderDecoderModel):
    """Encoder-decoder over whole documents; ``--doc-mode full`` makes it a plain Transformer over the document."""

    def __init__(self, cfg: GTransformerConfig, encoder: GTransformerEncoder, decoder: GTransformerDecoder):
        super().__init__(encoder, decoder)
        self.cfg = cfg

    @classmethod
    def build_model(cls, cfg: GTransformerConfig, task) -> GTransformerModel:
        """Build from a configuration and a task with source and target dictionaries; UserError on a bad combination."""
        _check(cfg, task.source_dictionary, task.target_dictionary)
        source = make_embedding(task.source_dictionary, cfg.encoder_embed_dim)
        shared = cfg.share_all_embeddings
        target = source if shared else make_embedding(task.target_dictionary, cfg.decoder_embed_dim)
        encoder = GTransformerEncoder(cls.encoder_config(cfg), task.source_dictionary, source)
        return cls(cfg, encoder, GTransformerDecoder(cfg, task.target_dictionary, target))

    @classmethod
    def encoder_config(cls, cfg: GTransformerConfig) -> GTransformerConfig:
        """The configuration that the encoder is built with."""
        return cfg

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        ragged: bool = False,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Logits (batch, target length, vocabulary) for documents; see encoder and decoder for the arguments.

        With ``ragged``, the top states (tokens, channels) of the real target tokens instead, and ``layout`` among the
        extras, for losses that make logits themselves.
        """
        encoder_out = self.encoder(src_tokens, src_lengths)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, ragged=ragged)

    def is_pretrained(self, name: str) -> bool:
        """Whether fine-tuning takes this parameter from a pretrained model (for ``--doc-double-lr``)."""
        return not is_new(name)

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg=None, args=None):
        """As fairseq's; with ``--load-partial``, parameters of a Transformer, too (see ``pretrained``)."""
        if self.cfg.load_partial or self.cfg.load_partial_global_from_local:
            state_dict = from_transformer(state_dict, self, self.cfg.load_partial_global_from_local)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def get_normalized_probs(self, net_output: tuple[Tensor, dict], log_probs: bool, sample=None) -> Tensor:
        """(Log) probabilities in float32 (float64 stays), whatever the model's precision."""
        logits = net_output[0]
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        normalise = torch.log_softmax if log_probs else torch.softmax
        return normalise(logits, dim=-1, dtype=dtype)


def make_embedding(dictionary, channels: int) -> nn.Embedding:
    """(vocabulary, channels) normal embedding of variance 1 / channels, zero at padding."""
    embedding = nn.Embedding(len(dictionary), channels, dictionary.pad())
    nn.init.normal_(embedding.weight, std=channels**-0.5)
    nn.init.zeros_(embedding.weight[dictionary.pad()])
    return embedding


def _check(cfg: GTransformerConfig, source, target) -> None:
    if cfg.doc_mode not in DOC_MODES:
        raise UserError(f"--doc-mode {cfg.doc_mode} is unknown; choose one of {', '.join(DOC_MODES)}")
    if cfg.share_all_embeddings:
        if source != target:
            raise UserError("--share-all-embeddings needs one joined dictionary for both languages")
        if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
            raise UserError(
                f"--share-all-embeddings needs equal dimensions, not --encoder-embed-dim {cfg.encoder_embed_dim} and "
                f"--decoder-embed-dim {cfg.decoder_embed_dim}"
            )
    depth = {"encoder": cfg.encoder_layers, "decoder": cfg.decoder_layers, "cross": cfg.decoder_layers}
    for name, layers in depth.items():
        context = getattr(cfg, f"{name}_ctxlayers")
        if cfg.doc_mode == "partial" and not 0 <= context <= layers:
            raise UserError(f"--{name}-ctxlayers {context} is not between 0 and the {layers} layers there are")
