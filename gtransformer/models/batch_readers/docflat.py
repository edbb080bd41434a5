"""Document Flattening (Wu et al. 2023), and attention between datapoints as their appendix C adapts it.

Instances are pseudo-documents, ``--instances sliding --context-sentences K --context-loss off``; batches are
consecutive sentences of a document, ``--batch-order document``.
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, first_sentences
from gtransformer.data.dictionaries import Vocabulary
from gtransformer.errors import UserError
from gtransformer.models.batch_readers.attention import (
    CONTINUOUS,
    GATES,
    AttentionBetweenInstances,
    BatchReader,
    FlatBatchAttention,
)
from gtransformer.models.batch_readers.step import BatchKeys
from gtransformer.models.common.config import ON, SWITCH, DocumentModelConfig, option
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import Needs, register
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.modules.kernels import dropout
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Memory, Ragged, on_device

ENCODER, DECODER, BOTH_SIDES, NONE = SIDES = ("encoder", "decoder", "both", "none")
THRESHOLD = 0.5
WHERE = "which sides attend to the other instances of the batch; none: a pseudo-document Transformer with the same norm"


@dataclass
class BatchAttentionConfig(DocumentModelConfig):
    """A Transformer over pseudo-documents that reads the batch before its first layers."""

    batch_attention_in: str = option(BOTH_SIDES, f"{WHERE} (Table 3)", SIDES)
    sentence_numbers: str = option(
        ON,
        "on: each sentence begins with its number in the document instead of <s>",
        SWITCH,
    )


@dataclass
class DocFlatConfig(BatchAttentionConfig):
    """Flat-batch attention; defaults are the paper's DocFlat C."""

    context_gate: str = option(
        CONTINUOUS,
        "how the result of batch attention is added. continuous: by a gate (DocFlat C); discrete: by a gate of 0 or 1 "
        "(D); identity: as it is (I)",
        GATES,
    )
    gate_threshold: float = option(THRESHOLD, "gamma: where discrete gates open")


@dataclass
class AbdConfig(BatchAttentionConfig):
    """Attention between datapoints, by default only in the encoder."""

    batch_attention_in: str = option(
        ENCODER,
        f"{WHERE} (Table 7); in the decoder, as printed, it reads the target that is to be predicted",
        SIDES,
    )


class BatchFront(nn.Module):
    """Sentence numbers, attention across the batch, norm; each side of a model has its own.

    A side without such attention has the norm, too, so that models with and without it differ in nothing else (our
    choice).

    Args:
        cfg: the model's configuration; if it has gates the attention is DocFlat's, else ABD's.
        side: "encoder" or "decoder".
    """

    def __init__(self, cfg: BatchAttentionConfig, side: str):
        super().__init__()
        channels = getattr(cfg, f"{side}_embed_dim")
        across = FlatBatchAttention if hasattr(cfg, "context_gate") else AttentionBetweenInstances
        self.numbers = SentenceNumbers(channels) if cfg.sentence_numbers == ON else None
        self.across = across(cfg, side) if cfg.batch_attention_in in (side, BOTH_SIDES) else None
        self.layer_norm = nn.LayerNorm(channels)


class FrontEmbedding(BatchReader):
    """A mixin for encoder and decoder; all instances that they receive form the batch."""

    def __init__(self, cfg: BatchAttentionConfig, dictionary: Vocabulary, embed_tokens: nn.Embedding, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.batch_front = BatchFront(cfg, self.side)

    def embed_batch(self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]) -> Tensor:
        """Embed as other models do; dropout follows the norm, as in embeddings with a norm (our choice)."""
        front, x = self.batch_front, self.numbered(tokens, layout, per_document)
        # What decoding begins with is local context, which does not read the batch.
        if front.across is not None and (layout.whole or layout.batch_keys is not None):
            x = front.across(x, layout, self.engine, self.side == "decoder")
        x = front.layer_norm(x)
        return dropout(x, self.cfg.dropout) if self.training else x

    def numbered(self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]) -> Tensor:
        """Embed tokens with positions, with the number of its sentence instead of every ``<s>`` -> (N, channels)."""
        x, numbers, begins = self.words(layout.pack(tokens)), self.batch_front.numbers, layout.begins
        if numbers is not None and len(begins):
            doc, tag = on_device(layout.doc[begins], x.device), on_device(layout.tag[begins], x.device)
            number = per_document[FIRST_SENTENCE].index_select(0, doc) + tag - 1
            x = x.index_copy(0, on_device(begins, x.device), numbers(number, x.dtype).to(x.dtype))
        return self.add_positions(x, layout.offset, layout.length)


class FrontEncoder(FrontEmbedding, DocumentEncoder):
    """Encoder of pseudo-documents. Arguments are those of ``DocumentEncoder``."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        first_sentence: Tensor | None = None,
        document_index: Tensor | None = None,
        last_instances: bool = False,
        **unused,
    ) -> dict[str, list]:
        """Encode as ``DocumentEncoder.forward``; with ``last_instances`` only each batch's last instance after the
        front.

        ``first_sentence`` (batch,) int64: the number of each instance's first sentence in its document, on both sides;
        None: all begin their documents. ``document_index`` as of ``batch_layout``, on both sides.
        """
        first = first_sentences(first_sentence, len(src_tokens), src_tokens.device)
        with self.autocast():
            layout = self.batch_layout(src_tokens, document_index)
            x = self.embed_batch(src_tokens, layout, {FIRST_SENTENCE: first})
            if last_instances:
                _, layout, x, first = self.last_of_each(src_tokens, layout, x, first)
            x = self.run_layers(x, self.view(layout))
            return self.output(layout, x, {FIRST_SENTENCE: first})


class FrontDecoder(FrontEmbedding, DocumentDecoder):
    """Decoder of pseudo-documents. Arguments are those of ``DocumentDecoder``.

    If it reads the batch, the documents of a memory are decoded together (``step.py``): they must be the sentences of
    a batch.
    """

    def last_instances(self, tokens: Tensor, first_sentence: Tensor, document_index: Tensor, memory: Memory) -> Tensor:
        """Return the top states of each batch's last instance, (batches, length, channels); layers see only these.

        Args:
            tokens: (instances, length) int64, decoder inputs; the instances of a batch are adjacent.
            first_sentence: (instances,) int64, as of the encoder.
            document_index: (instances,) int64, the batch of each instance, ascending from 0.
            memory: of the last instances.
        """
        with self.autocast():
            layout = self.batch_layout(tokens, document_index)
            x = self.embed_batch(tokens, layout, {FIRST_SENTENCE: first_sentence})
            _, layout, x = self.last_of_each(tokens, layout, x)
            view = self.view(layout, memory.expanded().by_name())
            return layout.pad(self.run_layers(x, view))

    def batch_keys(self, memory: Memory, beam: int) -> BatchKeys | None:
        return None if self.batch_front.across is None else BatchKeys(self, memory, beam)


DOCFLAT, ABD = "docflat", "abd"


class BatchAttentionModel(InstanceTransformerModel):
    """A Transformer over pseudo-documents, with attention across the batch before its layers."""

    encoder_class, decoder_class = FrontEncoder, FrontDecoder

    @classmethod
    def needs_of(cls, cfg: BatchAttentionConfig) -> Needs:
        """Require the batch on the sides that attend to it."""
        where = cfg.batch_attention_in
        return Needs(
            batch=where != NONE,
            sources=where in (ENCODER, BOTH_SIDES),
            targets=where in (DECODER, BOTH_SIDES),
            numbers=cfg.sentence_numbers == ON,
        )


@register(DOCFLAT, DocFlatConfig)
class DocFlatModel(BatchAttentionModel):
    """Flat-batch attention with a gate."""

    @classmethod
    def check(cls, cfg: DocFlatConfig) -> None:
        """Raise UserError for a threshold that is no value of a gate."""
        if not 0 <= cfg.gate_threshold <= 1:
            raise UserError(f"--gate-threshold {cfg.gate_threshold}: gates are between 0 and 1; give one of these")


@register(ABD, AbdConfig)
class AbdModel(BatchAttentionModel):
    """Attention between the means of instances (Kossen et al. 2021); in the decoder, of whole targets."""

    @classmethod
    def needs_of(cls, cfg: AbdConfig) -> Needs:
        """Require, in the decoder, also tokens that are to be predicted: a mean contains a whole target (Eq. 11)."""
        needs = super().needs_of(cfg)
        return replace(needs, contexts=True, future=needs.targets)
