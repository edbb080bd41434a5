"""The encoder of documents: embeddings, then the declared layers."""

from __future__ import annotations

from torch import Tensor

from gtransformer.models.common.config import BOTH_MARKS
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import Memory, Ragged


class DocumentEncoder(DocumentEmbedding):
    """Encoder of whole documents (of G-Transformer: Bao et al. 2021, section 4.1 "Encoder" and
    4.2).
    """

    side = "encoder"

    def layout(self, tokens: Tensor) -> Ragged:
        """Return the layout; where layers see no ``<s>``, it only counts in the tags."""
        if self.marks == BOTH_MARKS:
            return super().layout(tokens)
        # Sentence models have not learned <s>. It still separates the sentences of an instance, so
        # tags are counted before it is left out.
        return Ragged(tokens.ne(self.padding) & tokens.ne(self.bos), self.tags(tokens))

    def forward(self, src_tokens: Tensor, **unused) -> dict[str, list]:
        """Encode a batch of documents.

        Args:
            src_tokens: (batch, length) int64, padded on either side.

        Returns:
            a dictionary as fairseq's: ``memory`` [Memory], the ragged states that the decoder
            reads.
        """
        with self.autocast():
            return self.encode(src_tokens, {})

    def encode(self, tokens: Tensor, memories: dict[str, Memory]) -> dict[str, list]:
        """Encode (batch, length) tokens as ``forward`` does, with layers that may attend to further
        memories.
        """
        layout = self.layout(tokens)
        x = self.embed_batch(tokens, layout, {})
        return self.output(layout, self.run_layers(x, self.view(layout, memories)))

    def output(
        self, layout: Ragged, x: Tensor, per_document: dict[str, Tensor] | None = None
    ) -> dict[str, list]:
        """Return the result of ``forward`` for the top states x (N, channels)."""
        # fairseq's encoders return lists of tensors by name; here one list has all.
        return {"memory": [Memory(x, layout, per_document=per_document or {})]}

    def reorder_encoder_out(
        self, encoder_out: dict[str, list], new_order: Tensor
    ) -> dict[str, list]:
        """Select the documents of decoder hypotheses."""
        return {"memory": [encoder_out["memory"][0].reorder(new_order)]}

    def sentence_positions(self) -> int:
        """Return the positions for a sentence, ``<s>`` counted: it needs none if no layer sees
        it.
        """
        return super().sentence_positions() + (self.marks != BOTH_MARKS)
