"""What decoding is made to begin with: sentences that all beams of a document share, taken in by one full pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.blocks import View
from gtransformer.models.common.decoding.history import History
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.memory import Memory
from gtransformer.modules.ragged import on_device


class Forced:
    """The forced tokens of a batch, and where the caches are to keep them; for all layers the same.

    ``groups`` (begun,) int64, the groups that begin with something: ``tokens`` (N,) of them, with their ``layout`` and
    the ``view`` of a full pass; ``dtype`` is that of the steps, whatever autocast does here. ``group``, ``slot``,
    ``token`` (n,) int64: tokens that have a slot of their group.

    Args:
        decoder, memory, documents: as of ``CachedState``.
        prefixes: for each group (length,) int64, whole sentences, perhaps none; at least one has some.
        history: changed: it holds these tokens from now on.
    """

    def __init__(
        self,
        decoder: DocumentEmbedding,
        memory: Memory,
        documents: np.ndarray,
        prefixes: Sequence[Tensor],
        history: History,
    ):
        self.history = history
        self.dtype = decoder.embed_tokens.weight.dtype
        lengths = np.array([len(prefix) for prefix in prefixes], dtype=np.int64)
        self.groups = on_device(np.flatnonzero(lengths), memory.states.device)
        begun = [prefix for prefix in prefixes if len(prefix)]
        padded = torch.nn.utils.rnn.pad_sequence(begun, batch_first=True, padding_value=decoder.padding)
        self.layout = decoder.layout(padded)
        self.layout.whole = False
        self.tokens = self.layout.pack(padded)
        rows = on_device(documents, self.groups.device)[self.groups]
        memories = replace(memory, rows=rows).expanded().by_name()
        self.view = View(str(decoder.cfg.group_attention), self.layout, memories)
        begins = [np.flatnonzero(prefix.cpu().numpy() == decoder.bos) for prefix in prefixes]
        kept = history.force(begins, lengths)
        ends = np.cumsum(lengths)
        places = np.repeat(history.slots - kept, kept), np.repeat(ends - kept, kept)  # first slot and token of each
        within = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
        group = np.repeat(np.arange(len(lengths)), kept)
        self.group, self.slot, self.token = (
            on_device(side, self.groups.device) for side in (group, places[0] + within, places[1] + within)
        )
