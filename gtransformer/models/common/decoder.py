"""The decoder of documents: embeddings, the declared layers, output layer; and the start of
decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.config import END_MARK, DocumentModelConfig
from gtransformer.models.common.decoding.plan import Plan
from gtransformer.models.common.decoding.state import CachedState
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.layer import View
from gtransformer.modules.kernels import Linear, decoding_copy
from gtransformer.modules.processor import has_bfloat16
from gtransformer.modules.ragged import Memory, Ragged


class DocumentDecoder(DocumentEmbedding):
    """Decoder of whole documents (of G-Transformer: Bao et al. 2021, section 4.1 "Decoder" and
    4.2).

    Decoding calls ``embed_batch``, the layers and ``output_layer`` with the newest token of every
    hypothesis. So a token may depend on others by attention alone, and on what ``state_before``
    returns. ``forward`` and
    ``extract_ragged`` are for full passes: what a system computes otherwise must be in those three.
    """

    side = "decoder"
    # The copy for decoding, once it is made; None: weights may change.
    copies: list[tuple[DocumentDecoder, Plan]] | None = None

    def __init__(
        self,
        cfg: DocumentModelConfig,
        dictionary: Vocabulary,
        embed_tokens: nn.Embedding,
        blocks: Sequence[tuple[AttentionBlock, ...]],
    ):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.output_projection = Linear(
            cfg.decoder_embed_dim, len(dictionary), bias=cfg.output_bias
        )
        # Marian never predicts <s> and <pad>, and a sentence model lacks the symbols that fairseq
        # appends: probabilities equal the sentence model's only if these words are left out of the
        # softmax.
        last = getattr(cfg, "output_words", None) or len(dictionary)
        # Entries of the dictionary.
        self.predictable = (
            getattr(cfg, "first_output_word", None) or 0,
            last,
        )
        self.predicts_some = self.predictable != (0, len(dictionary))  # and not all
        if cfg.share_decoder_input_output_embed or cfg.share_all_embeddings:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=cfg.decoder_embed_dim**-0.5)
        if cfg.output_bias:
            nn.init.zeros_(self.output_projection.bias)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list],
        features_only: bool = False,
        ragged: bool = False,
        layout: Ragged | None = None,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Predict the next token at every position.

        Args:
            prev_output_tokens: (batch, length) int64, padded on either side.
            encoder_out: the encoder's output.
            features_only: top states instead of logits.
            ragged: top states of the real tokens only, (tokens, channels), and their ``layout``
                among the extras.
            layout: of the tokens, if already made.

        Returns:
            logits (batch, length, vocabulary), zero at padding; and a dictionary whose ``attn`` is
            [None].
        """
        memory: Memory = encoder_out["memory"][0]
        with self.autocast():
            layout = layout or self.layout(prev_output_tokens)
            x = self.extract_ragged(prev_output_tokens, layout, memory.expanded())
            if ragged:
                return x, {"attn": [None], "layout": layout}
            return layout.pad(x if features_only else self.output_layer(x)), {"attn": [None]}

    def words(self, tokens: Tensor) -> Tensor:
        """Embed words; with the mark ``end``, ``</s>`` is read instead of ``<s>``: fairseq's
        decoders begin with it.
        """
        return super().words(
            tokens.masked_fill(tokens.eq(self.bos), self.eos) if self.marks == END_MARK else tokens
        )

    def extract_ragged(
        self, prev_output_tokens: Tensor, layout: Ragged, memory: Memory, kind: Callable = View
    ) -> Tensor:
        """Return the top states of all real tokens, (N, channels); ``kind`` makes the view (see
        ``view``).
        """
        x = self.embed_batch(prev_output_tokens, layout, memory.per_document)
        before = self.state_before(memory)
        if before is None:
            return self.run_layers(x, self.view(layout, memory.by_name(), kind))
        # One more token in front of every document, of no sentence; afterwards it is cut off.
        tags = np.pad(layout.tags, ((0, 0), (1, 0)))
        longer = Ragged.of_tags(tags, layout.device, layout.whole)
        x = longer.pack(torch.cat([before.to(x.dtype).unsqueeze(1), layout.pad(x)], dim=1))
        x = self.run_layers(x, self.view(longer, memory.by_name(), kind))
        return layout.pack(longer.pad(x)[:, 1:])

    def state_before(self, memory: Memory) -> Tensor | None:
        """Return what precedes the words of every document in the layers, (documents, channels);
        None: nothing.

        It has no position, and nothing is predicted from it.
        """
        return None

    def scopes(self, memory: str | None) -> set[Scope]:
        """Return all scopes of the layers' blocks with this memory."""
        blocks = [
            block for layer in self.layers for block in layer.blocks if block.memory == memory
        ]
        return {scope for block in blocks for scopes in block.scopes for scope in scopes}

    def independent_sentences(self, memory: Memory) -> bool:
        """Return whether a sentence's states depend on no other sentence of the target, only on its
        number.

        Then self-attention never leaves the sentence, positions restart there, and what is seen of
        the memory depends on the number alone.
        """
        own = all(type(scope) is BySentence for scope in self.scopes(None))
        placed = self.restarts or self.embed_positions is None
        names = memory.by_name()
        sources = all(
            type(scope) in (BySentence, ByDocument) for name in names for scope in self.scopes(name)
        )
        # An embedding of a system's own may read other sentences: not known, so not independent.
        plain = type(self).embed_batch is DocumentEmbedding.embed_batch
        return own and placed and sources and plain

    @property
    def output_is_product(self) -> bool:
        """Whether logits are what ``output_product`` says and nothing else."""
        layer = self.output_projection
        # A subclass or a hook may change the logits, which the fused loss would not see.
        own = type(self).output_layer is DocumentDecoder.output_layer
        return (
            own and type(layer) is Linear and not (layer._forward_hooks or layer._forward_pre_hooks)
        )

    def output_product(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Prepare top states (n, channels) and targets (n,) int64 for a loss whose logits are a
        plain product.

        Returns:
            states (n, inner), weights (words, inner) of the words that can be predicted, and
            targets among these. A bias is one more column of the weights, with ones in the states.
        """
        first, last = self.predictable
        weight, bias = self.output_projection.weight[first:last], self.output_projection.bias
        if bias is not None:
            features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
            weight = torch.cat([weight, bias[first:last].unsqueeze(1)], dim=1)
        return features, weight, targets - first if first else targets

    def mask_unpredictable(self, logits: Tensor) -> Tensor:
        """Set logits (..., vocabulary) to minus infinity for words that can never be predicted."""
        if not self.predicts_some:
            return logits
        (first, last), words = self.predictable, logits.shape[-1]
        return torch.nn.functional.pad(
            logits[..., first:last], (first, words - last), value=-torch.inf
        )

    def begin(self, memory: Memory, documents: np.ndarray, beam: int) -> CachedState:
        """Return the state from which hypotheses are decoded token by token; arguments as of
        CachedState.
        """
        copies = [] if self.copies is None else self.copies
        if not copies:
            # An ``embed_batch`` of a system's own may use numbers of the host, which a captured
            # step does not read again.
            plain = type(self).embed_batch is DocumentEmbedding.embed_batch
            # Capturing pays for weights that are held, not for one batch in a training.
            fixed = plain and self.copies is not None
            plan = Plan(self.embed_tokens.weight.device, fixed)
            copies.append((decoding_copy(self, self.product_dtype()), plan))
        return CachedState(*copies[0], memory, documents, beam)

    def batch_keys(self, memory: Memory, beam: int):
        """Return the pattern of a decoder's attention to other documents of the batch at a step;
        None without such.
        """
        return None

    def product_dtype(self) -> torch.dtype:
        """Return the type of products in decoding: that of ``--autocast``, if the device has
        instructions for it, else that of the weights.
        """
        name, weights = str(self.cfg.autocast), self.embed_tokens.weight
        usable = name != "none" and weights.dtype == torch.float32
        if weights.device.type == "cpu":
            # Emulated bfloat16 is slower than float32.
            usable = usable and name == "bfloat16" and has_bfloat16()
        return getattr(torch, name) if usable else weights.dtype

    def key_dtype(self) -> torch.dtype:
        """Return the type of keys and values in decoding: that of products, but on a CPU attention
        is faster in the weights' type.
        """
        weights = self.embed_tokens.weight
        return weights.dtype if weights.device.type == "cpu" else self.product_dtype()

    def hold_weights(self) -> None:
        """Prepare weights for decoding once; from now on they must not change."""
        self.copies = []

    def output_layer(self, features: Tensor, **unused) -> Tensor:
        """Compute logits, (..., channels) -> (..., vocabulary)."""
        return self.mask_unpredictable(self.output_projection(features))
