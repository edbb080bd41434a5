"""The decoder of documents: embeddings, the declared layers, output layer; and the start of decoding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from gtransformer.data.dictionaries import Vocabulary
from gtransformer.data.group_tags import tag_of_newest
from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.config import END_MARK, DocumentModelConfig
from gtransformer.models.common.decoding.state import CachedState, DecodingState, PrefixState
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.kernels import Linear, decoding_copy
from gtransformer.modules.processor import has_bfloat16, has_int8
from gtransformer.modules.ragged import Memory, Ragged

STATE = "document_state"  # its key in fairseq's dictionary


class DocumentDecoder(DocumentEmbedding):
    """Decoder of whole documents (of G-Transformer: Bao et al. 2021, section 4.1 "Decoder" and 4.2).

    Decoding calls ``embed_batch``, the layers and ``output_layer`` with the newest token of every hypothesis. So a
    token may depend on others by attention alone. A decoder whose full pass does more sets ``caches`` to False, and one
    with an ``extract_ragged`` of its own is taken for such: it recomputes the whole prefix at every step.

    Raises UserError for self-attention that is not causal, and for a ``forward`` of its own.
    """

    side = "decoder"
    caches = True
    copies: dict[bool, DocumentDecoder] | None = None  # for decoding, by whether they draft; None: weights may change

    def __init__(
        self,
        cfg: DocumentModelConfig,
        dictionary: Vocabulary,
        embed_tokens: nn.Embedding,
        blocks: Sequence[tuple[AttentionBlock, ...]],
    ):
        if type(self).forward is not DocumentDecoder.forward:
            raise UserError(
                f"{type(self).__name__} overrides forward, which translation does not call; override embed_batch, "
                "extract_ragged or output_layer"
            )
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        for number, layer in enumerate(self.layers, 1):
            for block in layer.blocks:
                if block.memory is None and not block.causal:
                    raise UserError(
                        f"decoder layer {number}, {block.name}: self-attention sees the words that it is to predict; "
                        "give causal=True, or memory if it reads one"
                    )
        self.output_projection = Linear(cfg.decoder_embed_dim, len(dictionary), bias=cfg.output_bias)
        last = getattr(cfg, "output_words", None) or len(dictionary)
        self.predictable = getattr(cfg, "first_output_word", None) or 0, last  # entries of the dictionary
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
        encoder_out: dict[str, list] | None = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        ragged: bool = False,
        layout: Ragged | None = None,
        **unused,
    ) -> tuple[Tensor, dict]:
        """Predict the next token at every position, or at the last one when ``incremental_state`` is given.

        Args:
            prev_output_tokens: (batch, length) int64, padded on either side; with an incremental state (hypotheses,
                length), unpadded prefixes whose last token is new.
            encoder_out: the encoder's output.
            incremental_state: fairseq's per-model dictionary; this decoder keeps its caches in it.
            features_only: top states instead of logits.
            ragged: top states of the real tokens only, (tokens, channels), and their ``layout`` among the extras.
            layout: of the tokens, if already made.

        Returns:
            logits (batch, length, vocabulary), zero at padding, or (hypotheses, 1, vocabulary); and a dictionary whose
            ``attn`` is [None].
        """
        memory: Memory = encoder_out["memory"][0]
        if incremental_state is not None:
            x = self._step(prev_output_tokens, memory, incremental_state)
            x = x if features_only else incremental_state[STATE].logits(x)
            return x.unsqueeze(1), {"attn": [None]}
        with self.autocast():
            layout = layout or self.layout(prev_output_tokens)
            x = self.extract_ragged(prev_output_tokens, layout, memory.expanded())
            if ragged:
                return x, {"attn": [None], "layout": layout}
            return layout.pad(x if features_only else self.output_layer(x)), {"attn": [None]}

    def words(self, tokens: Tensor) -> Tensor:
        """Embed words; with the mark ``end``, ``</s>`` is read instead of ``<s>``: fairseq's decoders begin with it."""
        return super().words(tokens.masked_fill(tokens.eq(self.bos), self.eos) if self.marks == END_MARK else tokens)

    def extract_ragged(self, prev_output_tokens: Tensor, layout: Ragged, memory: Memory) -> Tensor:
        """Return the top states of all real tokens, (N, channels)."""
        layout.batches = memory.layout.batches  # the encoder has read from the device which documents form a batch
        x = self.embed_batch(prev_output_tokens, layout, memory.per_document)
        return self.run_layers(x, self.view(layout, memory.by_name()))

    def _step(self, tokens: Tensor, memory: Memory, incremental_state: dict) -> Tensor:
        """Compute tokens (hypotheses, length) -> top states of the last token, (hypotheses, channels)."""
        state: DecodingState | None = incremental_state.get(STATE)
        if state is None:
            state = incremental_state[STATE] = self.begin(memory, len(tokens))
        for step in range(state.steps, tokens.shape[1]):
            tags = tag_of_newest(tokens[:, : step + 1], self.bos)
            x = state.step(tokens[:, step], tags.view(-1, state.beam).cpu().numpy())
        return x

    def scopes(self, memory: str | None) -> set[Scope]:
        """Return all scopes of the layers' blocks with this memory."""
        blocks = [block for layer in self.layers for block in layer.blocks if block.memory == memory]
        return {scope for block in blocks for scopes in block.scopes for scope in scopes}

    def independent_sentences(self, memory: Memory) -> bool:
        """Return whether a sentence's states depend on no other sentence of the target, only on its number.

        Then self-attention never leaves the sentence, positions restart there, and what is seen of the memory depends
        on the number alone.
        """
        own = all(type(scope) is BySentence for scope in self.scopes(None))
        placed = self.restarts or self.embed_positions is None
        names = memory.by_name()
        sources = all(type(scope) in (BySentence, ByDocument) for name in names for scope in self.scopes(name))
        plain = self.uses_caches and type(self).embed_batch is DocumentEmbedding.embed_batch
        return own and placed and sources and plain

    @property
    def depends_on_length(self) -> bool:
        """Whether a prefix of a target has other states than the same tokens within the target."""
        memories = {block.memory for layer in self.layers for block in layer.blocks}
        return any(scope.depends_on_length for memory in memories for scope in self.scopes(memory))

    @property
    def output_is_product(self) -> bool:
        """Whether logits are what ``output_product`` says and nothing else."""
        layer = self.output_projection
        own = type(self).output_layer is DocumentDecoder.output_layer
        return own and type(layer) is Linear and not (layer._forward_hooks or layer._forward_pre_hooks)

    def output_product(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Prepare top states (n, channels) and targets (n,) int64 for a loss whose logits are a plain product.

        Returns:
            states (n, inner), weights (words, inner) of the words that can be predicted, and targets among these. A
            bias is one more column of the weights, with ones in the states.
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
        return torch.nn.functional.pad(logits[..., first:last], (first, words - last), value=-torch.inf)

    @property
    def uses_caches(self) -> bool:
        """Whether decoding uses caches."""
        return self.caches and type(self).extract_ragged is DocumentDecoder.extract_ragged

    def begin(self, memory: Memory, hypotheses: int, beam: int | None = None) -> DecodingState:
        """Return the state from which so many hypotheses are decoded token by token; ``beam`` as of DecodingState."""
        if not self.uses_caches:
            return PrefixState(self, memory, hypotheses, beam)
        return CachedState(self._copy(drafts=False), memory, hypotheses, beam)

    def batch_keys(self, memory: Memory, beam: int):
        """Return the pattern of a decoder's attention to other documents of the batch at a step; None without such."""
        return None

    def _copy(self, drafts: bool) -> DocumentDecoder:
        """Return the copy for decoding, with packed weights, or with int8 for ``drafts``; kept if weights are held."""
        copies = {} if self.copies is None else self.copies
        if drafts not in copies:
            copies[drafts] = decoding_copy(self, self._dtype(), int8=drafts)
            copies[drafts].copies = None
        return copies[drafts]

    def _dtype(self) -> torch.dtype | None:
        """Return the type of products in decoding with ``--autocast``, if the device has instructions for it."""
        name, weights = str(self.cfg.autocast), self.embed_tokens.weight
        usable = name != "none" and weights.dtype == torch.float32
        if weights.device.type == "cpu":
            usable = usable and name == "bfloat16" and has_bfloat16()
        return getattr(torch, name) if usable else None

    def hold_weights(self) -> None:
        """Prepare weights for decoding once; from now on they must not change."""
        self.copies = {}

    def for_drafts(self) -> DocumentDecoder:
        """Return the decoder for drafts: in float32 on a CPU, if weights are held, a copy that multiplies in int8; else
        itself.
        """
        return self if self.copies is None or not self._can_be_rounded() else self._copy(drafts=True)

    def _can_be_rounded(self) -> bool:
        weights = self.embed_tokens.weight
        return (
            has_int8()
            and (weights.device.type, weights.dtype, str(self.cfg.autocast)) == ("cpu", torch.float32, "none")
            and self.output_is_product
            and not any(isinstance(one, Linear) and (one.product or is_parametrized(one)) for one in self.modules())
        )

    def output_layer(self, features: Tensor, **unused) -> Tensor:
        """Compute logits, (..., channels) -> (..., vocabulary)."""
        return self.mask_unpredictable(self.output_projection(features))

    def reorder_incremental_state_scripting(self, incremental_state: dict, new_order: Tensor) -> None:
        """Let hypothesis i continue what hypothesis ``new_order[i]`` was (called by fairseq's beam search)."""
        state: DecodingState | None = incremental_state.get(STATE)
        if state is not None:
            state.reorder(new_order)

    reorder_incremental_state = reorder_incremental_state_scripting
