"""The G-Transformer as a fairseq model."""

from __future__ import annotations

from fairseq.models import register_model
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.models.common.config import MARKS, POSITIONS
from gtransformer.models.common.model import DocumentModel, check_choices
from gtransformer.models.common.pretrained import from_transformer, is_copied, make_neutral
from gtransformer.models.gtransformer.config import TRAINED, GTransformerConfig
from gtransformer.models.gtransformer.layers import decoder_blocks, encoder_blocks

DOC_MODES = ("partial", "full")


@register_model("gtransformer", dataclass=GTransformerConfig)
class GTransformerModel(DocumentModel):
    """Encoder-decoder over whole documents; ``--doc-mode full`` makes it a plain Transformer over the document."""

    @classmethod
    def check(cls, cfg: GTransformerConfig) -> None:
        """UserError for an unknown ``--doc-mode``, and for more combined layers than there are layers."""
        check_choices(cfg, doc_mode=DOC_MODES, positions=POSITIONS, sentence_marks=MARKS, trained_parameters=TRAINED)
        depth = {"encoder": cfg.encoder_layers, "decoder": cfg.decoder_layers, "cross": cfg.decoder_layers}
        for name, layers in depth.items():
            context = getattr(cfg, f"{name}_ctxlayers")
            if cfg.doc_mode == "partial" and not 0 <= context <= layers:
                raise UserError(f"--{name}-ctxlayers {context} is not between 0 and the {layers} layers there are")

    encoder_blocks = staticmethod(encoder_blocks)
    decoder_blocks = staticmethod(decoder_blocks)

    def learns_as_new(self, name: str) -> bool:
        """As for any document model; a copy of group attention counts as pretrained, as in the release."""
        return super().learns_as_new(name) and not (self.cfg.load_partial_global_from_local and is_copied(name))

    def from_transformer(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """As for any document model; global attention may be a copy of group attention, and gates neutral."""
        found = from_transformer(state, self, self.cfg.load_partial_global_from_local)
        if self.cfg.neutral_gates:
            make_neutral(found, (name for name in found if name not in state), self.cfg.gate_bias or 0.0)
        return found
