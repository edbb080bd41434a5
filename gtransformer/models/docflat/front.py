"""What stands between the embeddings and the first layer of systems that read their batch."""

from __future__ import annotations

from collections.abc import Callable

from fairseq.data import Dictionary
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, first_sentences
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.decoding.state import DecodingState
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import View
from gtransformer.models.common.memory import Memory
from gtransformer.models.docflat.config import BOTH, ON, BatchAttentionConfig
from gtransformer.models.docflat.step import FrontStep, KeptInputs
from gtransformer.modules.kernels import dropout
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Ragged, on_device


class BatchFront(nn.Module):
    """Sentence numbers, attention across the batch, norm; each side of a model has its own.

    The norm stays where a side has no such attention, so that models with and without differ in it alone [ours].

    Args:
        cfg: the model's configuration.
        side: "encoder" or "decoder".
        across: the class of the attention, made of both.
    """

    def __init__(self, cfg: BatchAttentionConfig, side: str, across: Callable[[BatchAttentionConfig, str], nn.Module]):
        super().__init__()
        channels = getattr(cfg, f"{side}_embed_dim")
        self.numbers = SentenceNumbers(channels) if str(cfg.sentence_numbers) == ON else None
        self.across = across(cfg, side) if str(cfg.batch_attention_in) in (side, BOTH) else None
        self.layer_norm = nn.LayerNorm(channels)


class FrontEmbedding(DocumentEmbedding):
    """Mixed into encoder and decoder; all rows of what they are given are the batch.

    ``side`` is which of them it is; a system says what the class of its attention ``across`` the batch is.
    """

    side = ""
    across: type[nn.Module]

    def __init__(self, cfg: BatchAttentionConfig, dictionary: Dictionary, embed_tokens: nn.Embedding, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.batch_front = BatchFront(cfg, self.side, self.across)

    def embed_batch(self, tokens: Tensor, layout: Ragged, known: dict[str, Tensor]) -> Tensor:
        """As of all models; dropout is behind the norm, as where embeddings have one [ours]."""
        front = self.batch_front
        x = self.words(layout.pack(tokens))
        if front.numbers is not None:
            x = self._numbered(x, layout, known[FIRST_SENTENCE])
        x = self.placed(x, layout.offset, layout.length)
        if front.across is not None:
            x = front.across(x, layout, str(self.cfg.group_attention), self.side == "decoder")
        return dropout(front.layer_norm(x), self.cfg.dropout, self.training)

    def _numbered(self, x: Tensor, layout: Ragged, first: Tensor) -> Tensor:
        """x (N, channels) with the number of its sentence in place of every ``<s>``; ``first`` (batch,) int64."""
        begins = layout.begins
        begin, doc, tag = (on_device(one, layout.device) for one in (begins, layout.doc[begins], layout.tag[begins]))
        numbers = first.index_select(0, doc) + tag - 1
        return x.index_copy(0, begin, self.batch_front.numbers(numbers, x.dtype).to(x.dtype))


class FrontEncoder(FrontEmbedding, DocumentEncoder):
    """Encodes pseudo-documents. Arguments are those of ``DocumentEncoder``."""

    side = "encoder"

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        first_sentence: Tensor | None = None,
        stretch: Tensor | None = None,
        last_rows: bool = False,
        **unused,
    ) -> dict[str, list]:
        """As ``DocumentEncoder.forward``; ``last_rows`` as of ``encode``.

        ``first_sentence`` (batch,) int64: the number in its document of the sentence that each instance begins with, on
        both sides; None: all begin their documents. ``stretch`` (batch,) int64, ascending from 0: which of several
        batches each instance is of, on both sides; None: of one.
        """
        known = {FIRST_SENTENCE: first_sentences(first_sentence, len(src_tokens), src_tokens.device)}
        with self.autocast():
            return self.encode(src_tokens, {}, known, last_rows, stretch)


class FrontDecoder(FrontEmbedding, DocumentDecoder):
    """Predicts pseudo-documents. Arguments are those of ``DocumentDecoder``.

    Where it reads the batch, the rows of a memory's documents are decoded together (``step``), so that documents must
    be the sentences of a batch.
    """

    side = "decoder"
    input_step = FrontStep

    def extract_ragged(self, prev_output_tokens: Tensor, layout: Ragged, memory: Memory) -> Tensor:
        """As of all; which documents are together the encoder has asked the device already."""
        layout.batches = memory.layout.batches
        return super().extract_ragged(prev_output_tokens, layout, memory)

    def last_rows(self, tokens: Tensor, first_sentence: Tensor, stretch: Tensor, memory: Memory) -> Tensor:
        """Top states of the last row of each of several batches, (batches, length, channels); layers see it alone.

        Args:
            tokens: (rows, length) int64, what the decoder reads; the rows of a batch stand together.
            first_sentence: (rows,) int64, as of the encoder.
            stretch: (rows,) int64, which batch each row is of, ascending from 0.
            memory: its rows are the last ones.
        """
        with self.autocast():
            layout = self.layout(tokens)
            layout.batches = stretch.cpu().numpy()
            x = self.embed_batch(tokens, layout, {FIRST_SENTENCE: first_sentence})
            _, layout, x = self.rows_of(tokens, layout, x, layout.last_rows)
            view = View(str(self.cfg.group_attention), layout, memory.expanded().by_name())
            return layout.pad(self.run_layers(x, view))

    def begin_uncached(self, memory: Memory, rows: int) -> DecodingState:
        if self.batch_front.across is None:
            return super().begin_uncached(memory, rows)
        return KeptInputs(self, memory, rows)
