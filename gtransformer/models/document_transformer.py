"""The Document Transformer (Zhang et al. 2018): a sentence model that attends to previous source
sentences.

Instances are ``--instances current --context-sentences K``: K previous sentences and the current
one on the source side, the current one on the target side.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from gtransformer.data.group_tags import compacted, last_sentences
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import LayerStack
from gtransformer.models.common.model import DocumentModel, Needs, register
from gtransformer.models.transformer import WHOLE
from gtransformer.modules.ragged import Memory, Ragged

ENCODER, DECODER, BOTH_SIDES = SIDES = ("encoder", "decoder", "both")
GATE, RESIDUAL = JOINS = ("gate", "residual")
CONTEXT = "context"  # the name of the memory that context attention reads


@dataclass
class DocumentTransformerConfig(DocumentModelConfig):
    """A Transformer that also reads previous source sentences; defaults are the paper's choices."""

    context_layers: int = option(1, "N_c: layers of the context encoder (Table 2)")
    context_in: str = option(BOTH_SIDES, "which layers attend to the context (Table 8)", SIDES)
    context_join: str = option(
        GATE,
        "how a layer adds the result of context attention: by a gate, or by a residual connection "
        "(Table 9)",
        JOINS,
    )
    freeze_sentence_parameters: bool = option(
        False,
        "step 2 of two: train only the context encoder, context attention, gates and the norms "
        "after them; all else keeps the values of the checkpoint of --finetune-from-model, with "
        "dropout still on",
    )


class DocumentTransformerEncoder(DocumentEncoder):
    """Encoder of the last sentence of each source, and of the words of the previous ones as a
    separate context.

    The context is their words without boundary tokens, one ``</s>`` at its end, positions from 0
    over the whole. Embeddings are the encoder's, without dropout. Arguments are those of
    ``DocumentEncoder``.
    """

    def __init__(self, cfg: DocumentTransformerConfig, *inputs):
        super().__init__(cfg, *inputs)
        # Over the context alone (Eq. 5 to 9), as wide as the encoder's layers.
        self.context_encoder = LayerStack()
        self.context_encoder.init_layers(
            cfg, "encoder", [(AttentionBlock("self_attn", WHOLE),)] * cfg.context_layers
        )

    def forward(self, src_tokens: Tensor, **unused) -> dict[str, list]:
        """Encode as ``DocumentEncoder.forward`` does, the last sentence; its ``memory`` has the
        context as extra memory.
        """
        current, context = split_context(src_tokens, self.bos, self.eos, self.padding)
        real = context.ne(self.padding)
        layout = Ragged(real, real.long())  # one sentence a document: nothing tells them apart
        with self.autocast():
            # Encoded first, because layers of the encoder attend to it, too.
            x = self.add_positions(self.words(layout.pack(context)), layout.offset, layout.length)
            states = self.context_encoder.run_layers(x, self.view(layout))
            extra_memories = {CONTEXT: Memory(states, layout)}
            encoder_out = self.encode(current, extra_memories)
        if self.cfg.context_in != ENCODER:
            encoder_out["memory"][0].extra_memories = extra_memories
        return encoder_out


def split_context(tokens: Tensor, bos: int, eos: int, padding: int) -> tuple[Tensor, Tensor]:
    """Split each row into its last sentence and its context.

    Args:
        tokens: (batch, length) int64, ``<s> a b </s> <s> c </s>``, padded on either side.

    Returns:
        current and context, (batch, longest) int64 each, padded on the right.
    """
    last = last_sentences(tokens, bos, padding)
    words = ~last & tokens.ne(bos) & tokens.ne(eos) & tokens.ne(padding)
    # The </s> at the end is there even without context, so that there is a key to attend to.
    words = functional.pad(words, (0, 1), value=True)
    context = functional.pad(tokens, (0, 1), value=eos)
    return compacted(tokens, last, padding), compacted(context, words, padding)


@register("document_transformer", DocumentTransformerConfig)
class DocumentTransformerModel(DocumentModel):
    """Self-attention, context attention, in the decoder cross-attention, feed-forward (Eq. 11 to
    18).
    """

    encoder_class = DocumentTransformerEncoder
    needs = Needs(last_sentence_only=True)

    @classmethod
    def encoder_blocks(cls, cfg: DocumentTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        return [(AttentionBlock("self_attn", WHOLE), *_context(cfg, DECODER))] * cfg.encoder_layers

    @classmethod
    def decoder_blocks(cls, cfg: DocumentTransformerConfig) -> list[tuple[AttentionBlock, ...]]:
        self_attention = AttentionBlock("self_attn", WHOLE)
        cross_attention = AttentionBlock("encoder_attn", WHOLE, memory="source")
        context = _context(cfg, ENCODER)
        return [(self_attention, *context, cross_attention)] * cfg.decoder_layers


def _context(cfg: DocumentTransformerConfig, other: str) -> list[AttentionBlock]:
    """Return the context attention, unless only the ``other`` side has it."""
    if cfg.context_in == other:
        return []
    return [AttentionBlock("context_attn", WHOLE, memory=CONTEXT, gated=cfg.context_join == GATE)]
